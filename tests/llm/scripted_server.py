"""A local HTTP server that answers as a script says: the other side of every test of the door.

Run as a program it answers everything with one completion, after a delay: `python scripted_server.py DELAY_S`.
"""

import asyncio
import json
import socket
import struct
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Seen:
    """A request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def last(self) -> str:
        """Text of the last message."""
        return self.json["messages"][-1]["content"]


@dataclass(frozen=True)
class Answer:
    """What is sent back. `cut` bytes of the body and then a reset; `endless` repeats the body without
    end, `pause_s` apart."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    cut: int | None = None
    endless: bool = False
    pause_s: float = 0.0


Script = Callable[[Seen, int], Answer]


def completion(text: str | None, *, model: str = "m-1", **more: Any) -> Answer:
    """A chat completion. `usage`, `finish_reason` and `refusal` can be given."""
    message = {"role": "assistant", "content": text}
    if "refusal" in more:
        message["refusal"] = more["refusal"]
    told = {
        "id": "c1",
        "object": "chat.completion",
        "created": 1,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": more.get("finish_reason", "stop")}],
        "usage": more.get("usage", {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}),
    }
    return as_json(told)


def as_json(told: Any, status: int = 200, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(json.dumps(told).encode(), status, {"content-type": "application/json", **named})


def error(status: int, message: str, code: str | None = None, **headers: str) -> Answer:
    return as_json({"error": {"message": message, "code": code}}, status, **headers)


class ScriptedServer:
    """Serves on a free port of loopback, in a thread; `seen` are the requests in order of arrival.

    A script is a list of answers (the last one repeats), or a function of the request and its number.
    """

    def __init__(self, script: Script | Sequence[Answer] = ()) -> None:
        self.seen: list[Seen] = []
        self.under_way = self.most_under_way = 0
        self.play(script)
        self._loop = asyncio.new_event_loop()
        self._server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port = self._server.sockets[0].getsockname()[1]
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def play(self, script: Script | Sequence[Answer]) -> None:
        """Goes on with another script, from its beginning."""
        if callable(script):
            self._script = script
        else:
            answers = list(script)
            self._script = lambda _, number: answers[min(number, len(answers) - 1)]
        self._number = 0

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while seen := await _read(reader):
                self.seen.append(seen)
                number, self._number = self._number, self._number + 1
                self.under_way += 1
                self.most_under_way = max(self.most_under_way, self.under_way)
                try:
                    await _send(writer, self._script(seen, number))
                finally:
                    self.under_way -= 1
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    def close(self) -> None:
        async def end() -> None:
            self._server.close()
            tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _read(reader: asyncio.StreamReader) -> Seen | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.strip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    method, path, _ = first.split(" ")
    if "chunked" in headers.get("transfer-encoding", ""):
        body = await _read_chunks(reader)
    else:
        body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Seen(method, path, headers, body)


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while size := int(await reader.readline(), 16):
        body += (await reader.readexactly(size + 2))[:-2]
    await reader.readline()
    return body


async def _send(writer: asyncio.StreamWriter, answer: Answer) -> None:
    await asyncio.sleep(answer.delay_s)
    headers = dict(answer.headers)
    if not answer.endless:
        headers.setdefault("content-length", str(len(answer.body)))
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    writer.write(f"HTTP/1.1 {answer.status} X\r\n{head}\r\n".encode())
    if answer.cut is not None:
        writer.write(answer.body[: answer.cut])
        await writer.drain()
        reset = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
        writer.transport.abort()
        raise ConnectionResetError
    while answer.endless:
        writer.write(answer.body)
        await writer.drain()
        await asyncio.sleep(answer.pause_s)
    writer.write(answer.body)
    await writer.drain()


if __name__ == "__main__":
    delay_s = float(sys.argv[1])
    told = completion("fine")
    server = ScriptedServer([Answer(told.body, 200, told.headers, delay_s)])
    print(server.url, flush=True)  # noqa: T201
    sys.stdin.read()
