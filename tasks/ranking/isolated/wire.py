"""Frames between a run and the process of a foreign system: MessagePack, which can hold data and no code."""

import socket
import struct
from time import monotonic
from typing import Any

import msgspec

from schemas.errors import BadInput

MOST_BYTES = 256 * 2**20
"""Bytes of a frame."""

_LENGTH = struct.Struct("!Q")

Frame = dict[str, Any]


class Ended(Exception):
    """The other side is gone."""


class TimedOut(Exception):
    """The other side did not answer in time."""


class Wire:
    """One end of a socket over which frames travel.

    Args:
        connection: The socket.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection

    def send(self, frame: Frame, deadline: float | None = None) -> None:
        """Sends a frame.

        Args:
            frame: Texts, numbers, bytes, lists and dicts of them.
            deadline: By `time.monotonic`, the time at which `TimedOut` is raised; None: never.

        Raises:
            Ended: The other side is gone.
            TimedOut: The other side takes nothing.
        """
        data = msgspec.msgpack.encode(frame)
        self._bound(deadline)
        try:
            self._socket.sendall(_LENGTH.pack(len(data)) + data)
        except TimeoutError as error:
            raise TimedOut from error
        except OSError as error:
            raise Ended from error

    def receive(self, deadline: float | None = None) -> Frame:
        """Waits for a frame.

        Raises:
            Ended: The other side is gone.
            TimedOut: None came before the deadline.
            BadInput: What came is no frame.
        """
        (length,) = _LENGTH.unpack(self._read(_LENGTH.size, deadline))
        if length > MOST_BYTES:
            raise BadInput(f"the system sent {length:,} bytes at once; at most {MOST_BYTES:,} are taken")
        try:
            return msgspec.msgpack.decode(self._read(length, deadline), type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise BadInput(f"the system sent what is no frame ({error})") from error

    def close(self) -> None:
        """Closes the socket."""
        self._socket.close()

    def _read(self, size: int, deadline: float | None) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            self._bound(deadline)
            try:
                part = self._socket.recv(min(size - len(parts), 2**20))
            except TimeoutError as error:
                raise TimedOut from error
            except OSError as error:
                raise Ended from error
            if not part:
                raise Ended
            parts += part
        return bytes(parts)

    def _bound(self, deadline: float | None) -> None:
        if deadline is None:
            self._socket.settimeout(None)
            return
        left = deadline - monotonic()
        if left <= 0:
            raise TimedOut
        self._socket.settimeout(left)
