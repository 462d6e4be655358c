"""Whatever a server does, a request ends: with an error or a reply, in bounded time and memory."""

import resource
import time
from dataclasses import replace

import pytest

from schemas.errors import BadInput, TransientError
from tasks.http.client import BadAddress, HttpClient, HttpRequest, HttpSettings
from tasks.http.retry import RetryRules
from tests.http.hostile import MODES, OK, hostile_server, once

LIMIT = 100_000
SETTINGS = HttpSettings(
    RetryRules(2, 0.001, 0.002, 1), timeout_s=0.1, connect_timeout_s=5, deadline_s=0.2, max_redirects=3
)


@pytest.mark.parametrize("mode", MODES)
def test_every_request_ends(mode: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with hostile_server(MODES[mode]) as (url, seen), HttpClient(SETTINGS) as http:
        began = time.monotonic()
        try:
            body = http.send(HttpRequest(f"{url}/?signature=s3cr3t"), LIMIT).body
            assert mode == "goes on after the end of the gzip"
            assert body == b"x", "what is packed was whole"
        except (TransientError, BadInput) as error:
            assert len(str(error)) < 500
            assert "s3cr3t" not in str(error)
        assert time.monotonic() - began < 10
        assert len(seen) <= 8
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024


def test_a_redirect_leads_to_allowed_hosts_only() -> None:
    def settings(*hosts: str) -> HttpSettings:
        return replace(SETTINGS, redirect_hosts=frozenset(hosts))

    with hostile_server(once(OK + b"content-length: 5\r\n\r\nthere")) as (there, reached):
        answer = f"HTTP/1.1 302 X\r\nlocation: {there.replace('127.0.0.1', 'localhost')}\r\ncontent-length: 0\r\n\r\n"
        with hostile_server(once(answer.encode())) as (here, _):
            told = "redirected to localhost, which is not an allowed host"
            with HttpClient(settings("127.0.0.1")) as http, pytest.raises(BadAddress, match=told):
                http.send(HttpRequest(here), LIMIT)
            assert reached == []
            with HttpClient(settings("127.0.0.1", "localhost")) as http:
                assert http.send(HttpRequest(here), LIMIT).body == b"there"
