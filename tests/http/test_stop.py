"""Work in threads ends as soon as it is called off, whatever it waits for."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.http.client import HttpClient, HttpRequest, HttpSettings
from tasks.http.pace import OwnPace, SharedPace, Throttle
from tasks.http.retry import RetryRules
from tasks.http.stop import check_stop, pause, stoppable_pool
from tests.http.hostile import OK, endless, hostile_server, silent

LONG = 3600.0
PATIENT = HttpSettings(RetryRules(9, LONG, LONG, LONG), timeout_s=LONG, connect_timeout_s=LONG, deadline_s=LONG)
MANY = 10**9


def loop() -> None:
    while True:
        check_stop()
        time.sleep(0.001)


def ask(act: Callable[..., None]) -> Callable[[], object]:
    def work() -> object:
        with hostile_server(act) as (url, _), HttpClient(PATIENT) as http:
            return http.send(HttpRequest(url), MANY)

    return work


def paced(folder: Path) -> None:
    pace = SharedPace(folder / "next", 0, LONG)
    pace.hold(LONG)
    pace.wait()


def owned() -> None:
    pace = OwnPace(LONG)
    pace.wait()
    pace.wait()


WAITS: dict[str, Callable[[Path], object]] = {
    "a wait": lambda _: pause(LONG),
    "a loop": lambda _: loop(),
    "another process's request": paced,
    "this process's request": lambda _: owned(),
    "bandwidth": lambda _: Throttle(1).take(3600),
    "the next try": lambda _: ask(endless(b"HTTP/1.1 503 X\r\nretry-after: 3600\r\n\r\n", b""))(),
    "a silent server": lambda _: ask(silent)(),
    "a slow body": lambda _: ask(endless(OK + b"content-length: 99999999\r\n\r\n", b"x", 0.05))(),
}


@pytest.mark.parametrize("wait", WAITS)
def test_a_thread_that_waits_is_called_off(wait: str, tmp_path: Path) -> None:
    entered = threading.Event()

    def work() -> object:
        entered.set()
        return WAITS[wait](tmp_path)

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt), stoppable_pool(1) as pool:
        pool.submit(work)
        late = pool.submit(pause, LONG)
        entered.wait()
        time.sleep(0.05)
        raise KeyboardInterrupt
    assert time.monotonic() - began < 5
    assert late.cancelled()


def test_a_pool_that_is_left_in_peace_finishes_its_work() -> None:
    with stoppable_pool(2) as pool:
        results = pool.map(lambda number: (pause(0.001), number)[1], range(5))
    assert list(results) == [0, 1, 2, 3, 4]
