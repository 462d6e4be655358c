"""Sealed replay files: the calls of an edition, from which it can be rebuilt without a model or a network.

A file consists of JSON lines: a header, one line for each call by ascending key, and a last line with the number of
calls and the sha256 of everything before it. There are no time stamps, so equal calls give equal bytes.
"""

import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

import orjson

from schemas.errors import BadInput, StoreError
from schemas.llm import Tokens, Usage
from tasks.llm.cache import Cache, Stored
from tasks.llm.exchange import Exchange
from tasks.llm.key import Miss, RequestKey, explain

HEADER = {"format": "arena-llm-replay", "version": 1}


def write_replay(cache: Cache, path: Path, keys: Iterable[str] | None = None) -> int:
    """Writes calls of a cache to a sealed file and returns their number.

    Args:
        cache: The calls.
        path: File to create or replace, in one step.
        keys: Keys of the calls to seal (`Reply.keys` of a run); None: all.

    Raises:
        StoreError: A key is not in the cache, or the file cannot be written.
    """
    wanted = None if keys is None else sorted(set(keys))
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            rows = _seal(file, cache.rows(wanted))
            file.flush()
            os.fsync(file.fileno())
        if wanted is not None and rows != len(wanted):
            missing = len(wanted) - rows
            raise StoreError(
                f"{path}: {missing} of {len(wanted)} calls are not in the cache; run the stage again first"
            )
        temporary.replace(path)
    except OSError as error:
        raise StoreError(f"{path}: the replay file cannot be written ({error})") from error
    finally:
        temporary.unlink(missing_ok=True)
    return rows


def _seal(file: BinaryIO, rows: Iterator[Stored]) -> int:
    seal, count = hashlib.sha256(), 0
    for line in (orjson.dumps(HEADER), *map(_line, rows)):
        file.write(line + b"\n")
        seal.update(line + b"\n")
        count += 1
    file.write(orjson.dumps({"calls": count - 1, "sha256": seal.hexdigest()}) + b"\n")
    return count - 1


def _line(stored: Stored) -> bytes:
    exchange = stored.exchange
    told: dict[str, Any] = {
        "key": exchange.key,
        "outcome": exchange.outcome,
        "reason": exchange.reason,
        "tokens": list(exchange.usage.tokens),
        "nano_usd": exchange.usage.nano_usd,
        "estimated": exchange.usage.estimated,
        "parts": orjson.Fragment(stored.parts),
        "raw": exchange.raw.decode("utf-8", "replace"),
    }
    return orjson.dumps(told)


class Replay:
    """The calls of a sealed file; only their keys are kept in memory.

    Args:
        path: A file made by `write_replay`.

    Raises:
        StoreError: It is not a replay file, or its content has changed since it was sealed.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._places: dict[str, int] = {}
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise StoreError(f"{path}: no readable replay file ({error})") from error
        try:
            self._index()
        except BaseException:
            self.close()
            raise

    def _index(self) -> None:
        seal, place = hashlib.sha256(), 0
        header = self._file.readline()
        if self._loads(header) != HEADER:
            raise StoreError(f"{self._path}: not a replay file of this version; export it again")
        line = header
        while following := self._file.readline():
            seal.update(line)
            if place:
                self._places[str(self._loads(line).get("key"))] = place
            place, line = self._file.tell() - len(following), following
        last = self._loads(line)
        sealed = {"calls": len(self._places), "sha256": seal.hexdigest()}
        if last != sealed:
            raise StoreError(
                f"{self._path}: the last line says {str(last)[:200]}, but the lines before it are {sealed}; the file "
                "is truncated or changed: fetch or export it again"
            )

    def find(self, asked: RequestKey) -> Exchange:
        """Returns the recorded exchange of a call.

        Raises:
            BadInput: The call is not recorded; the message says how its key differs from the nearest recorded one.
        """
        place = self._places.get(asked.key)
        if place is None:
            raise BadInput(
                f"{self._path}: {self.explain_miss(asked)}. Use the code and data of the edition that the file belongs "
                "to, or run without replay"
            )
        told = self._read(place)
        usage = Usage(Tokens(*told["tokens"]), told["nano_usd"], told["estimated"])
        return Exchange(asked.key, told["outcome"], "replay", told["reason"], told["raw"].encode(), usage)

    def explain_miss(self, asked: RequestKey) -> Miss:
        """Explains why a call is not in the file."""
        if asked.key in self._places:
            return Miss(asked.key, asked.key, note="in the replay file")
        stored = ((key, orjson.dumps(self._read(place)["parts"])) for key, place in self._places.items())
        return explain(asked, stored)

    def _read(self, place: int) -> dict[str, Any]:
        self._file.seek(place)
        return orjson.loads(self._file.readline())

    def _loads(self, line: bytes) -> dict[str, Any]:
        try:
            told = orjson.loads(line)
        except orjson.JSONDecodeError:
            told = None
        if not isinstance(told, dict):
            raise StoreError(f"{self._path}: not a replay file, or damaged; fetch or export it again")
        return cast("dict[str, Any]", told)

    def close(self) -> None:
        """Closes the file."""
        self._file.close()
