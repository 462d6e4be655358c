"""The client against a server that is busy, slow, endless, or hostile."""

import gzip
import time
from collections.abc import Iterator

import pytest

from schemas.errors import TransientError
from tasks.http.client import BadAddress, HttpClient, HttpRequest, HttpSettings, TooLong, bare_url
from tasks.http.retry import RetryRules
from tests.llm.scripted_server import Answer, ScriptedServer, Seen

LIMIT = 10_000
SETTINGS = HttpSettings(RetryRules(3, 0.001, 0.002, 60), timeout_s=0.2, connect_timeout_s=1, deadline_s=0.3)


class Client:
    """A client that notes its waits instead of waiting."""

    def __init__(self, settings: HttpSettings) -> None:
        self.waits: list[float] = []
        self.http = HttpClient(settings, sleep=self.waits.append)


@pytest.fixture
def client() -> Iterator[Client]:
    client = Client(SETTINGS)
    with client.http:
        yield client


@pytest.mark.parametrize(
    ("after", "least", "most"),
    [
        ("7", 7, 7.1),
        ("Fri, 01 Jan 2100 00:00:00 GMT", 60, 60.1),
        ("86400", 60, 60.1),
        ("0", 0, 0),
        ("soon", 0, 0.1),
    ],
)
def test_a_busy_server_is_asked_again_when_it_says(
    server: ScriptedServer, client: Client, after: str, least: float, most: float
) -> None:
    server.play([Answer(b"", 429, {"retry-after": after}), Answer(b"", 503), Answer(b"fine")])
    assert client.http.send(HttpRequest(server.url), LIMIT).body == b"fine"
    assert least <= client.waits[0] <= most
    assert len(server.seen) == 3


def test_a_server_that_stays_busy_ends_the_tries_and_no_secret_is_told(server: ScriptedServer, client: Client) -> None:
    server.play(lambda seen, _: Answer(f"no {seen.headers['x-key']} {seen.path}".encode(), 500))
    request = HttpRequest(f"{server.url}?sig=s3", headers={"x-key": "s1"}, hidden=(("key", "s2"),))
    with pytest.raises(TransientError) as raised:
        client.http.send(request, LIMIT)
    assert str(raised.value) == f"{server.url}: HTTP 500: no *** /v1?*** (tries: 3); run it again later"
    assert len(server.seen) == 3


def test_other_statuses_are_the_callers_and_are_not_repeated(server: ScriptedServer, client: Client) -> None:
    server.play([Answer(b"there is\nnone" + b"!" * 100_000, 404)])
    reply = client.http.send(HttpRequest(server.url), LIMIT)
    assert (reply.status, reply.body, len(server.seen)) == (404, b"", 1)
    assert reply.trouble.startswith("HTTP 404: there is none!!")
    assert len(reply.trouble) < 250


@pytest.mark.parametrize("body", [b"x" * (LIMIT + 1), b"x" * 10 * LIMIT])
@pytest.mark.parametrize("endless", [False, True])
def test_a_body_over_the_cap_is_not_read(server: ScriptedServer, client: Client, body: bytes, endless: bool) -> None:
    server.play([Answer(body, endless=endless)])
    with pytest.raises(TooLong, match=r"http://127\.0\.0\.1:\d+/v1: the body is longer than 10,000 bytes") as raised:
        client.http.send(HttpRequest(f"{server.url}?key=secret"), LIMIT)
    assert "secret" not in str(raised.value)
    assert len(server.seen) == 1


def test_packed_bodies_are_unpacked_within_the_cap(server: ScriptedServer, client: Client) -> None:
    packed = {"content-encoding": "gzip"}
    whole = gzip.compress(b"y" * LIMIT)
    server.play([Answer(whole, 200, packed)])
    assert client.http.send(HttpRequest(server.url), LIMIT).body == b"y" * LIMIT
    server.play([Answer(gzip.compress(bytes(300 * 2**20), 1), 200, packed)])
    with pytest.raises(TooLong):
        client.http.send(HttpRequest(server.url), LIMIT)
    for broken, told in ((whole[:-9], "ends too early"), (b"plain", "is no gzip")):
        server.play([Answer(broken, 200, packed)])
        with pytest.raises(TransientError, match=told):
            client.http.send(HttpRequest(server.url), LIMIT)
    server.play([Answer(whole, 200, {"content-encoding": "br"})])
    with pytest.raises(TransientError, match="packed as 'br'"):
        client.http.send(HttpRequest(server.url), LIMIT)


@pytest.mark.parametrize(
    "answer", [Answer(b"x", endless=True, pause_s=0.02), Answer(b"x", delay_s=1), Answer(b"x" * 500, cut=10)]
)
def test_slow_and_broken_replies_end_in_bounded_time(server: ScriptedServer, client: Client, answer: Answer) -> None:
    server.play([answer])
    began = time.monotonic()
    with pytest.raises(TransientError, match=r"no complete reply \(\w+: .*\(tries: 3\)"):
        client.http.send(HttpRequest(server.url), LIMIT)
    assert time.monotonic() - began < 1.9


def test_ctrl_c_ends_the_wait_between_two_tries(server: ScriptedServer) -> None:
    server.play([Answer(b"", 503)])

    def interrupted(seconds: float) -> None:
        raise KeyboardInterrupt

    with HttpClient(SETTINGS, sleep=interrupted) as http, pytest.raises(KeyboardInterrupt):
        http.send(HttpRequest(server.url), LIMIT)
    assert len(server.seen) == 1


def test_redirects_are_followed_only_as_far_as_allowed(server: ScriptedServer, client: Client) -> None:
    def script(seen: Seen, _: int) -> Answer:
        step = int(seen.path[-1])
        return Answer(b"there") if step == 2 else Answer(b"", 302, {"location": f"/{step + 1}"})

    server.play(script)
    where = server.url[:-3]
    assert client.http.send(HttpRequest(f"{where}/0"), LIMIT).trouble == "HTTP 302"
    rules = SETTINGS.rules
    with HttpClient(HttpSettings(rules, 1, 1, 1, max_redirects=2)) as http:
        assert http.send(HttpRequest(f"{where}/0"), LIMIT).body == b"there"
    with HttpClient(HttpSettings(rules, 1, 1, 1, max_redirects=1)) as http, pytest.raises(BadAddress):
        http.send(HttpRequest(f"{where}/0"), LIMIT)
    server.play([Answer(b"", 302, {"location": "file:///etc/passwd"})])
    with HttpClient(HttpSettings(rules, 1, 1, 1, max_redirects=2)) as http, pytest.raises(BadAddress):
        http.send(HttpRequest(f"{where}/0"), LIMIT)


@pytest.mark.parametrize("url", ["http://[::1", "ftp://host/x", "no address", "http://host:x/"])
def test_what_is_no_address_is_refused_at_once(client: Client, url: str) -> None:
    with pytest.raises(BadAddress, match="cannot be asked"):
        client.http.send(HttpRequest(url), LIMIT)
    assert client.waits == []


def test_urls_in_messages_hold_no_secrets() -> None:
    assert bare_url("https://me:pw@host:8/a/b@c?key=1#x") == "https://host:8/a/b@c"
    assert bare_url("https://host") == "https://host"
    assert bare_url("https://host?a@b") == "https://host"
