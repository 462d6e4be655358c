"""Fetches one file byte for byte, over any number of interruptions, and checks it.

The bytes of an incomplete file are in `.<name>.part`, written unbuffered; what is known of the file is in
`.<name>.json`. Both survive the death of the process, and the next one resumes at the byte after the last.
"""

import errno
import logging
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace

from schemas.errors import ReleaseError, TransientError
from schemas.fetching import FetchSettings, FileState, RetrySettings
from schemas.release import SourceFile
from tasks.http.client import BadAddress, HttpClient, HttpRequest, Incoming
from tasks.http.pace import Throttle
from tasks.http.retry import Busy
from tasks.http.stop import check_stop, pause
from tasks.release.client import MAX_SILENCES, http_settings
from tasks.release.filtering import RecordFilter
from tasks.release.integrity import check_gzip
from tasks.release.targets import Links, Tally, Target
from tasks.store.whole_files import fsync_path

log = logging.getLogger(__name__)

EXPIRED = (400, 401, 403, 404, 410)
"""Statuses of a link that has expired or whose file is gone."""

MAX_REDIRECTS = 20
"""Redirects followed from a link to a file; a request for a file carries no key."""


ENOUGH = 64 * 1024
"""Bytes that a request must bring, unless they are the last ones: with fewer it counts as one that failed."""


class TooSlow(TransientError):
    """A server goes on sending, but next to nothing."""


class Downloader:
    """Fetches files; one for all threads of a fetch.

    Args:
        settings: How many files at a time, how fast.
        retry: When a server is asked again.
        keep: Which records stay.
        progress: Called after every piece of a file.
    """

    def __init__(
        self, settings: FetchSettings, retry: RetrySettings, keep: RecordFilter, progress: Callable[[Tally], None]
    ) -> None:
        self.tally = Tally()
        self._restarts: Counter[Target] = Counter()
        self._settings, self._retry, self._keep, self._progress = settings, retry, keep, progress
        asking = replace(http_settings(retry), max_redirects=MAX_REDIRECTS, remedy="run it again: what came is kept")
        self._http = HttpClient(asking)
        self._throttle = Throttle(settings.bandwidth_mb_s and settings.bandwidth_mb_s * 1e6)

    def close(self) -> None:
        """Closes connections."""
        self._http.close()

    def filters(self, target: Target) -> bool:
        """Returns whether only some records of a file stay."""
        return self._keep.describe(target.dataset) is not None

    def is_done(self, target: Target) -> bool:
        """Returns whether a file is complete by the same filter; renames it when only that is missing."""
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
        """Returns size and version of a file, as recorded or else as the server says when asked for one byte."""
        return target.state() or self._http.retrying(self._measure, target, links)

    def fetch(self, target: Target, links: Links) -> None:
        """Fetches the missing bytes of a file, checks the whole file and gives it its final name.

        Raises:
            ReleaseError: It was damaged twice, the server refuses it, or the disk is full.
            Withdrawn: The API no longer lists it.
            TransientError: The server was busy or out of reach at every try.
        """
        try:
            self._complete(target, links)
            try:
                self._seal(target)
            except ReleaseError as error:
                log.warning("%s; fetching it once more", error)
                self._discard(target)
                self.tally.add("refetched")
                self._complete(target, links)
                self._seal_again(target)
        except OSError as error:
            raise ReleaseError(
                f"{target.file}: cannot be written ({error.strerror}); free disk space and run it again: "
                "what was received is kept"
            ) from error

    def _seal_again(self, target: Target) -> None:
        try:
            self._seal(target)
        except ReleaseError as error:
            self._discard(target)
            raise ReleaseError(
                f"{error}; this happened twice, so the server's copy may be damaged: fetch it later"
            ) from error

    def _complete(self, target: Target, links: Links) -> None:
        while target.have() != (state := self.measure(target, links)).size:
            self._http.retrying(self._advance, target, links, state)

    def _measure(self, target: Target, links: Links) -> FileState:
        with self._ask(target, links, "bytes=0-0") as reply:
            size = _whole_size(reply)
            if size is None:
                raise ReleaseError(
                    f"{target.shown}: the server does not say how long the file is, so a truncated copy would go "
                    "unnoticed; fetch it later"
                )
            target.folder.mkdir(parents=True, exist_ok=True)
            target.part.unlink(missing_ok=True)
            return target.remember(FileState(path=target.path, size=size, etag=reply.headers.get("etag")))

    def _advance(self, target: Target, links: Links, state: FileState) -> None:
        """Makes one request for the missing bytes; it succeeds when it brings enough of them, however it ends."""
        have = target.have()
        if have > state.size:
            return self._restart(target, state, f"it has {have:,} bytes here, the server's has {state.size:,}")
        try:
            with self._ask(target, links, f"bytes={have}-") as reply:
                if _is_other(reply, state):
                    return self._restart(target, None, "it changed")
                if reply.status == 416:
                    raise ReleaseError(f"{target.shown}: the server has no byte {have} of {state.size}; fetch it later")
                first = _first_byte(reply)
                if first not in (0, have):
                    raise TransientError(f"{target.shown}: asked for bytes from {have}, the server sent from {first}")
                if first < have:
                    self._restart(target, state, "the server cannot resume in the middle")
                    have = 0
                self._append(reply, target, state.size)
                if target.have() < min(have + ENOUGH, state.size):
                    raise TransientError(
                        f"{target.shown}: the server sent {target.have() - have} bytes from byte {have} of {state.size}"
                    )
        except TooSlow:
            raise
        except TransientError as error:
            if target.have() < have + ENOUGH:
                raise
            log.info("%s: interrupted after %d bytes (%s)", target.shown, target.have(), error)
            pause(self._retry.backoff_s)

    def _restart(self, target: Target, state: FileState | None, why: str) -> None:
        """Drops the received bytes; `state` is what stays known of the file."""
        log.warning("%s: restarts after %d bytes: %s", target.shown, target.have(), why)
        self.tally.add("restarts")
        self._restarts[target] += 1
        if self._restarts[target] > self._settings.restarts:
            raise ReleaseError(
                f"{target.shown}: restarted {self._settings.restarts} times ({why}); fetch it later, or allow more "
                "with --restarts"
            )
        self._discard(target)
        if state:
            target.remember(state)

    def _discard(self, target: Target) -> None:
        self.tally.add("present", -target.have())
        target.forget()

    def _append(self, reply: Incoming, target: Target, size: int) -> None:
        room = size - target.have()
        patience = _Patience(target, MAX_SILENCES * self._retry.timeout_s)
        with target.part.open("ab", buffering=0) as part:
            for piece in patience.watch(reply.chunks):
                wanted = min(len(piece), room)
                written = part.write(piece[:wanted])
                if written < wanted:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                room -= written
                self.tally.add("received", written)
                self.tally.add("present", written)
                self._progress(self.tally)
                check_stop()
                self._throttle.take(written)
                if room == 0:
                    break

    @contextmanager
    def _ask(self, target: Target, links: Links, span: str) -> Generator[Incoming]:
        """Requests bytes of a file and gives the reply, which has status 200, 206 or 416."""
        check_stop()
        link = links.link(target.path)
        try:
            with self._http.open(HttpRequest(link, headers={"range": span, "accept-encoding": "identity"})) as reply:
                if reply.status in EXPIRED:
                    self.tally.add("renewed", links.renew(target.path, link))
                    told = f"the link was refused ({reply.status}); asked for a fresh one"
                    raise Busy(f"{target.shown}: {told}", 0)
                if reply.status not in (200, 206, 416):
                    raise ReleaseError(f"{target.shown}: the server answered {reply.status}, expected 200 or 206")
                yield reply
        except BadAddress as error:
            raise ReleaseError(f"the API gave an unusable link: {error}; fetch it later") from error

    def _seal(self, target: Target) -> None:
        """Checks a complete file, applies the filter, and gives the file its final name."""
        state, kept, sealed = target.state(), self._keep.describe(target.dataset), target.part
        if state is None:
            raise ReleaseError(f"{target.note}: is gone, another program changes this folder; stop it and fetch again")
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


class _Patience:
    """Gives up on a server that sends fewer than ENOUGH bytes in a long time of waiting.

    Args:
        target: The file.
        limit_s: The long time, in seconds; our own waits to keep a bandwidth do not count.
    """

    def __init__(self, target: Target, limit_s: float) -> None:
        self._target, self._limit_s = target, limit_s

    def watch(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """Yields the pieces of a body.

        Raises:
            TooSlow: They come too slowly.
        """
        came, waited = 0, 0.0
        while True:
            began = time.monotonic()
            if (piece := next(pieces, None)) is None:
                return
            came, waited = came + len(piece), waited + time.monotonic() - began
            yield piece
            if came >= ENOUGH:
                came, waited = 0, 0.0
            elif waited > self._limit_s:
                raise TooSlow(f"{self._target.shown}: the server sent {came} bytes in {waited:,.0f} s")


def _is_other(reply: Incoming, state: FileState) -> bool:
    """Returns whether the server now has another file than the one whose fetch began."""
    etag = reply.headers.get("etag")
    if etag and state.etag and etag != state.etag:
        return True
    return reply.status != 200 and _whole_size(reply) != state.size


def _whole_size(reply: Incoming) -> int | None:
    """Returns the size of the whole file as a reply of any kind says it."""
    if reply.status == 200:
        length = reply.headers.get("content-length", "")
    else:
        length = reply.headers.get("content-range", "").rpartition("/")[2]
    return int(length) if re.fullmatch(r"[0-9]{1,18}", length) else None


def _first_byte(reply: Incoming) -> int:
    """Returns the position in the file where a reply's bytes begin; -1 when the reply does not say."""
    if reply.status == 200:
        return 0
    found = re.match(r"bytes ([0-9]{1,18})-", reply.headers.get("content-range", ""))
    return int(found[1]) if found else -1
