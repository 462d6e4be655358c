"""A server that breaks every rule: each connection is handed to a function that writes what it likes."""

import gzip
import socket
import threading
import time
import zlib
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress

Act = Callable[[socket.socket, bytes], None]
"""Writes to a connection after a request's head was read; what it raises ends the connection."""


@contextmanager
def hostile_server(act: Act) -> Generator[tuple[str, list[bytes]]]:
    """Serves on loopback, and gives its address and the heads of the requests."""
    seen: list[bytes] = []

    def serve(connection: socket.socket) -> None:
        with suppress(OSError), connection:
            while head := _read_head(connection):
                seen.append(head)
                act(connection, head)

    def listen() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=serve, args=listener.accept()[:1], daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=listen, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", seen
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)


def _read_head(connection: socket.socket) -> bytes:
    head = b""
    while b"\r\n\r\n" not in head:
        if not (data := connection.recv(65536)):
            return b""
        head += data
    return head


def endless(start: bytes, more: bytes, pause_s: float = 0.0) -> Act:
    """Writes `start`, then `more` again and again."""

    def act(connection: socket.socket, head: bytes) -> None:
        connection.sendall(start)
        while True:
            connection.sendall(more)
            time.sleep(pause_s)

    return act


def once(answer: bytes) -> Act:
    """Writes one answer, and waits for the next request."""
    return lambda connection, head: connection.sendall(answer)


def silent(connection: socket.socket, head: bytes) -> None:
    """Never answers."""
    time.sleep(3600)


def empty_blocks() -> bytes:
    """Packed bytes that unpack to nothing, again and again."""
    packer = zlib.compressobj(wbits=-15)
    return packer.flush(zlib.Z_FULL_FLUSH) * 10_000


OK = b"HTTP/1.1 200 OK\r\n"
REDIRECT = b"HTTP/1.1 302 X\r\nlocation: /x\r\n"
CHUNKED = OK + b"transfer-encoding: chunked\r\n"
GZIP = OK + b"content-encoding: gzip\r\ncontent-length: 99999999999\r\n\r\n"
GZIP_HEAD = gzip.compress(b"")[:10]

MODES: dict[str, Act] = {
    "says 100 Continue for ever": endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1000, 0.01),
    "sends one letter of a header at a time": endless(OK + b"x: ", b"x", 0.02),
    "sends headers for ever": endless(OK, b"x: y\r\n" * 1000),
    "redirects with an endless body": endless(REDIRECT + b"content-length: 99999999999\r\n\r\n", bytes(65536)),
    "redirects for ever": once(REDIRECT + b"content-length: 0\r\n\r\n"),
    "goes on after the end of the gzip": endless(GZIP + gzip.compress(b"x"), bytes(65536)),
    "sends gzip that unpacks to nothing": endless(GZIP + GZIP_HEAD, empty_blocks()),
    "sends gzip that unpacks to gigabytes": endless(GZIP + GZIP_HEAD, gzip.compress(bytes(2**24))[10:-8]),
    "sends an endless body": endless(OK + b"content-length: 99999999999\r\n\r\n", bytes(65536)),
    "sends an endless chunk extension": endless(CHUNKED + b"\r\n1;", b"x" * 65536),
    "sends endless chunks": endless(CHUNKED + b"\r\n", b"1\r\nx\r\n" * 5000),
    "sends endless trailers": endless(CHUNKED + b"\r\n0\r\n", b"x: y\r\n" * 5000),
    "sends one byte of a body at a time": endless(OK + b"content-length: 99999999999\r\n\r\n", b"x", 0.02),
    "never answers": silent,
    "is no HTTP server": endless(b"SSH-2.0-x\r\n", b"x" * 65536),
    "ends the connection at once": lambda connection, head: connection.close(),
}  # fmt: skip
