"""A server on loopback that answers in a hostile way: `python -m tests.soak.hostile_server MODE DOOR FOLDER`.

It prints its port. The door says what a good answer would be: `api` and `file` are Semantic Scholar's datasets API and
the files it links to (of the release folder), `engine` a search service, `model` a chat endpoint.
"""

import asyncio
import gzip
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

Write = asyncio.StreamWriter
MIB = 2**20


def _head(status: int, length: int | None, *more: str) -> bytes:
    size = [] if length is None else [f"content-length: {length}"]
    return "\r\n".join([f"HTTP/1.1 {status} X", "connection: close", *size, *more, "", ""]).encode()


def _say(status: int, body: bytes, *more: str) -> Callable[[Write, bytes], Awaitable[None]]:
    async def answer(writer: Write, good: bytes) -> None:
        writer.write(_head(status, len(body), *more) + body)

    return answer


async def _endless(writer: Write, good: bytes) -> None:
    writer.write(_head(200, None, "content-type: application/json"))
    while True:
        writer.write(b" " * MIB)
        await writer.drain()


async def _bomb(writer: Write, good: bytes) -> None:
    body = gzip.compress(b"[" + b" " * (256 * MIB), 9)
    writer.write(_head(200, len(body), "content-encoding: gzip", "content-type: application/json") + body)


async def _drip(writer: Write, good: bytes) -> None:
    writer.write(_head(200, 10**6))
    while True:
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.5)


async def _silent(writer: Write, good: bytes) -> None:
    await asyncio.sleep(3600)


async def _reset(writer: Write, good: bytes) -> None:
    writer.write(_head(200, len(good)) + good[: len(good) // 2])
    await writer.drain()
    writer.transport.abort()


async def _too_long(writer: Write, good: bytes) -> None:
    writer.write(_head(200, len(good) + 100) + good)


async def _empty_part(writer: Write, good: bytes) -> None:
    writer.write(_head(206, 0, f"content-range: bytes 0-0/{len(good) + 10}"))


async def _headers_without_end(writer: Write, good: bytes) -> None:
    writer.write(b"HTTP/1.1 200 X\r\n")
    while True:
        writer.write(b"x-more: " + b"a" * 1000 + b"\r\n")
        await writer.drain()


async def _elsewhere(writer: Write, good: bytes) -> None:
    writer.write(_head(302, 0, "location: http://169.254.169.254/latest/meta-data"))


async def _circle(writer: Write, good: bytes) -> None:
    writer.write(_head(302, 0, "location: /again"))


async def _not_http(writer: Write, good: bytes) -> None:
    writer.write(b"\x00\x01\x02 220 smtp ready\r\n")


_CHAT = {
    "id": "c",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "usage": {"prompt_tokens": 1, "completion_tokens": 1},
}


def _chat(**choice: object) -> bytes:
    return json.dumps({**_CHAT, "choices": [{"index": 0, **choice}]}).encode()


MODES: dict[str, Callable[[Write, bytes], Awaitable[None]]] = {
    "status 500": _say(500, b"oh"),
    "status 404": _say(404, b"{}"),
    "status 403": _say(403, b"<Error/>"),
    "status 429 for a day": _say(429, b"", "retry-after: 86400"),
    "nothing": _say(200, b""),
    "a page": _say(200, b"<html>log in</html>", "content-type: text/html"),
    "JSON cut": _say(200, b'{"data": [', "content-type: application/json"),
    "JSON of another kind": _say(200, b'[1, null, {"a": NaN}]', "content-type: application/json"),
    "JSON nested deep": _say(200, b"[" * 200_000, "content-type: application/json"),
    "not UTF-8": _say(200, b'{"data": "\xff\xfe"}', "content-type: application/json"),
    "without end": _endless,
    "packed bomb": _bomb,
    "byte by byte": _drip,
    "silent": _silent,
    "reset": _reset,
    "less than said": _too_long,
    "empty part": _empty_part,
    "headers without end": _headers_without_end,
    "sent elsewhere": _elsewhere,
    "sent in a circle": _circle,
    "no HTTP": _not_http,
    "content null": _say(200, _chat(finish_reason="stop", message={"role": "assistant", "content": None})),
    "content empty": _say(200, _chat(finish_reason="stop", message={"role": "assistant", "content": ""})),
    "cut off": _say(200, _chat(finish_reason="length", message={"role": "assistant", "content": "{"})),
    "filtered": _say(200, _chat(finish_reason="content_filter", message={"role": "assistant", "content": ""})),
    "no choices": _say(200, json.dumps({**_CHAT, "choices": []}).encode()),
    "error with 200": _say(200, b'{"error": {"message": "overloaded", "code": 529}}'),
}
CHAT_ONLY = ("content null", "content empty", "cut off", "filtered", "no choices", "error with 200")


class _Hostile:
    def __init__(self, mode: str, door: str, folder: Path) -> None:
        self.answer, self.door, self.folder = MODES[mode], door, folder
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: Write) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            path = head.split(b" ")[1].decode().partition("?")[0]
            good = self._good(path)
            if self.door == "file" and not path.startswith("/files/"):
                writer.write(_head(200, len(good), "content-type: application/json") + good)
            else:
                await self.answer(writer, good)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    def _good(self, path: str) -> bytes:
        """Returns what an honest server of Semantic Scholar's datasets would answer."""
        match path.strip("/").split("/"):
            case ["files", release, dataset, name]:
                return (self.folder / release / dataset / name).read_bytes()
            case [*_, "release", release, "dataset", dataset]:
                names = sorted(file.name for file in (self.folder / release / dataset).iterdir())
                links = [f"http://127.0.0.1:{self.port}/files/{release}/{dataset}/{name}" for name in names]
                return json.dumps({"name": dataset, "files": links}).encode()
            case [*_, "release", release]:
                datasets = [{"name": name} for name in ("papers", "abstracts", "citations", "s2orc_v2")]
                return json.dumps({"release_id": release, "README": "", "datasets": datasets}).encode()
            case _:
                return b'["2026-01-06"]'


async def _main(mode: str, door: str, folder: Path) -> None:
    hostile = _Hostile(mode, door, folder)
    server = await asyncio.start_server(hostile.serve, "127.0.0.1", 0)
    hostile.port = server.sockets[0].getsockname()[1]
    sys.stdout.write(f"{hostile.port}\n")
    sys.stdout.flush()
    async with server:
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], sys.argv[2], Path(sys.argv[3])))
