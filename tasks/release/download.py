"""Fetches one file byte for byte, over any number of interruptions, and checks it.

The bytes of a file that is not complete lie in `.<name>.part`, unbuffered, what is known of it in `.<name>.json`: both
survive the death of the process, and the next one goes on at the byte after the last.
"""

import errno
import logging
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager

import httpx

from schemas.errors import ReleaseError, TransientError
from schemas.fetching import FetchSettings, FileState, RetrySettings
from schemas.release import SourceFile
from tasks.release.filtering import RecordFilter
from tasks.release.integrity import check_gzip
from tasks.release.pace import Busy, Throttle, persist, retry_after_s
from tasks.release.targets import Links, Tally, Target
from tasks.store.shard import fsync_path

log = logging.getLogger(__name__)

EXPIRED = (400, 401, 403, 404, 410)
"""Answers to a link that is no longer good: it has expired, or the file is gone."""


class Stopped(Exception):
    """Another file failed: this one is left as it is."""


class Downloader:
    """Fetches files; one for all threads of a fetch.

    Args:
        http: For the files, not for the API: it knows no key.
        settings: What the machine may be asked for.
        retry: How long a server is asked again.
        keep: Which records stay.
        progress: Told after every piece of a file.
    """

    def __init__(
        self,
        http: httpx.Client,
        settings: FetchSettings,
        retry: RetrySettings,
        keep: RecordFilter,
        progress: Callable[[Tally], None],
    ) -> None:
        self.tally = Tally()
        self.stop = threading.Event()
        self._restarts: Counter[Target] = Counter()
        self._http, self._settings, self._retry, self._keep, self._progress = http, settings, retry, keep, progress
        self._throttle = Throttle(settings.bandwidth_mb_s and settings.bandwidth_mb_s * 1e6)

    def filters(self, target: Target) -> bool:
        """Whether only some records of a file stay."""
        return self._keep.describe(target.dataset) is not None

    def is_done(self, target: Target) -> bool:
        """Whether a file is complete, by the same filter; gives it its name when only that is missing."""
        state = target.state()
        if state is None or state.done is None:
            return False
        if state.kept == self._keep.describe(target.dataset):
            checked = next((path for path in (target.file, target.kept, target.part) if path.exists()), None)
            if checked and checked.stat().st_size == state.done.size:
                if checked != target.file:
                    checked.replace(target.file)
                target.part.unlink(missing_ok=True)
                return True
        target.forget()
        return False

    def measure(self, target: Target, links: Links) -> FileState:
        """Size and version of a file: what is remembered of it, or what the server says when asked for one byte."""
        return target.state() or persist(self._retry, self.stop)(self._measure, target, links)

    def fetch(self, target: Target, links: Links) -> None:
        """Fetches what is missing of a file, checks all of it and gives it its name.

        Raises:
            ReleaseError: It was damaged twice, the server does not let it be fetched, or there is no space.
            Withdrawn: The API no longer lists it.
            TransientError: The server stays away after all tries.
        """
        try:
            self._complete(target, links)
            try:
                self._seal(target)
            except ReleaseError as error:
                log.warning("%s; it is fetched once more", error)
                self._discard(target)
                self.tally.add("refetched")
                self._complete(target, links)
                self._seal_again(target)
        except OSError as error:
            raise ReleaseError(f"{target.file}: cannot be written ({error.strerror}); what came is kept") from error

    def _seal_again(self, target: Target) -> None:
        try:
            self._seal(target)
        except ReleaseError as error:
            self._discard(target)
            raise ReleaseError(f"{error}; it was so twice, the server may hold it so: fetch it later") from error

    def _complete(self, target: Target, links: Links) -> None:
        while target.have() != (state := self.measure(target, links)).size:
            persist(self._retry, self.stop)(self._advance, target, links, state)

    def _measure(self, target: Target, links: Links) -> FileState:
        with self._ask(target, links, "bytes=0-0") as response:
            size = _whole_size(response)
            if size is None:
                raise ReleaseError(
                    f"{target.path}: the server does not say how long it is; it cannot be fetched safely"
                )
            target.folder.mkdir(parents=True, exist_ok=True)
            target.part.unlink(missing_ok=True)
            return target.remember(FileState(path=target.path, size=size, etag=response.headers.get("etag")))

    def _advance(self, target: Target, links: Links, state: FileState) -> None:
        """Makes one request for what is missing; one that brings something is no failure, however it ends."""
        have = target.have()
        try:
            with self._ask(target, links, f"bytes={have}-") as response:
                if _is_other(response, state):
                    return self._begin_anew(target, None, "it changed")
                if response.status_code == 416:
                    raise ReleaseError(f"{target.path}: the server has no byte {have} of {state.size}; fetch it later")
                first = _first_byte(response)
                if first not in (0, have):
                    raise TransientError(f"{target.path}: asked for byte {have}, the server sent byte {first} on")
                if first < have:
                    self._begin_anew(target, state, "the server cannot go on in the middle")
                    have = 0
                self._append(response, target, state.size)
        except TransientError as error:
            if target.have() <= have:
                raise
            log.info("%s: interrupted after %d bytes (%s)", target.path, target.have(), error)
            time.sleep(self._retry.backoff_s)

    def _begin_anew(self, target: Target, state: FileState | None, why: str) -> None:
        """Drops what came; `state` is what stays known of the file."""
        log.warning("%s: begins anew after %d bytes: %s", target.path, target.have(), why)
        self.tally.add("restarts")
        self._restarts[target] += 1
        if self._restarts[target] > self._settings.restarts:
            raise ReleaseError(
                f"{target.path}: began anew {self._settings.restarts} times ({why}); fetch it later, "
                "or allow more with --restarts"
            )
        self._discard(target)
        if state:
            target.remember(state)

    def _discard(self, target: Target) -> None:
        self.tally.add("present", -target.have())
        target.forget()

    def _append(self, response: httpx.Response, target: Target, size: int) -> None:
        room = size - target.have()
        with target.part.open("ab", buffering=0) as part:
            for piece in response.iter_raw():
                wanted = min(len(piece), room)
                written = part.write(piece[:wanted])
                if written < wanted:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                room -= written
                self.tally.add("received", written)
                self.tally.add("present", written)
                self._progress(self.tally)
                if self.stop.is_set():
                    raise Stopped
                self._throttle.take(written)
                if room == 0:
                    break

    @contextmanager
    def _ask(self, target: Target, links: Links, span: str) -> Generator[httpx.Response]:
        """A request for bytes of a file; what may pass by itself is a TransientError."""
        if self.stop.is_set():
            raise Stopped
        link = links.link(target.path)
        try:
            with self._http.stream("GET", link, headers={"Range": span, "Accept-Encoding": "identity"}) as response:
                status = response.status_code
                if status in EXPIRED:
                    self.tally.add("renewed", links.renew(target.path, link))
                    raise Busy(f"{target.path}: the link was refused ({status}), also after asking for a fresh one", 0)
                if status == 429 or status >= 500:
                    after = retry_after_s(response.headers.get("retry-after"))
                    raise Busy(f"{target.path}: the server answered {status}", after)
                if status not in (200, 206, 416):
                    raise ReleaseError(f"{target.path}: the server answered {status} instead of 200 or 206")
                yield response
        except httpx.RequestError as error:
            raise TransientError(f"{target.path}: {error or type(error).__name__}") from error
        except httpx.InvalidURL as error:
            raise ReleaseError(f"{target.path}: the API gave a link that is none ({error})") from error

    def _seal(self, target: Target) -> None:
        """Checks a complete file, applies the filter, and gives it its name."""
        state, kept, sealed = target.state(), self._keep.describe(target.dataset), target.part
        if state is None:
            raise ReleaseError(f"{target.note}: is gone; something else writes there")
        if kept is None:
            size, sha256 = check_gzip(target.part)
        else:
            sealed = target.kept
            self._keep.write(target.dataset, target.part, sealed)
            size, sha256 = check_gzip(sealed)
        fsync_path(sealed)
        done = SourceFile(name=target.name, size=size, sha256=sha256)
        target.remember(state.model_copy(update={"done": done, "kept": kept}))
        self.is_done(target)
        fsync_path(target.folder)


def _is_other(response: httpx.Response, state: FileState) -> bool:
    """Whether the server now has another file than the one that was begun."""
    etag = response.headers.get("etag")
    if etag and state.etag and etag != state.etag:
        return True
    return response.status_code != 200 and _whole_size(response) != state.size


def _whole_size(response: httpx.Response) -> int | None:
    """Bytes of the whole file, as an answer of any kind tells it."""
    if response.status_code == 200:
        length = response.headers.get("content-length", "")
        return int(length) if length.isdecimal() else None
    found = re.fullmatch(r"bytes (?:\d+-\d+|\*)/(\d+)", response.headers.get("content-range", ""))
    return int(found[1]) if found else None


def _first_byte(response: httpx.Response) -> int:
    """The place in the file where an answer's bytes begin; -1 when it does not say."""
    if response.status_code == 200:
        return 0
    found = re.match(r"bytes (\d+)-", response.headers.get("content-range", ""))
    return int(found[1]) if found else -1
