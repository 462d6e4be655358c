"""Chooses which records of a release's largest datasets are kept while it is fetched."""

import hashlib
import logging
from pathlib import Path
from typing import NamedTuple

import numpy as np
from isal.igzip import IGzipFile
from numpy.typing import NDArray

from schemas.errors import BadInput, UsageError
from schemas.fetching import FetchSettings
from tasks.http.stop import check_stop
from tasks.release.decode import Record, read_integer
from tasks.release.lines import parse_line, read_lines

log = logging.getLogger(__name__)

FULL_TEXTS = {"s2orc": "content", "s2orc_v2": "body"}
"""Datasets of full texts, with the field that holds the text."""


class Kept(NamedTuple):
    """Numbers of lines read and kept."""

    read: int
    kept: int


class RecordFilter:
    """Keeps the citations and full texts of some papers; of full texts, if asked, only those that hold a text.

    Args:
        ids: Corpus ids of the citing papers and full texts, `(n,) int64`, ascending; None: all papers.
        full_text_only: Whether a full-text record must hold a text.
    """

    def __init__(self, ids: NDArray[np.int64] | None, full_text_only: bool) -> None:
        self._ids, self._full_text_only = ids, full_text_only
        self._ids_name = "" if ids is None else f"{len(ids)} ids {hashlib.sha256(ids.tobytes()).hexdigest()[:12]}"

    @classmethod
    def load(cls, settings: FetchSettings) -> "RecordFilter":
        """Returns the filter that the settings ask for.

        Raises:
            UsageError: The file of ids cannot be read.
        """
        path = settings.keep_ids
        if path is None:
            return cls(None, settings.full_text_only)
        try:
            ids = np.unique(np.loadtxt(path, dtype=np.int64, ndmin=1))
        except (OSError, ValueError) as error:
            raise UsageError(f"--keep-ids {path}: is not a file with one integer on each line ({error})") from error
        return cls(ids, settings.full_text_only)

    def describe(self, dataset: str) -> str | None:
        """Returns a text that names what is kept of a dataset, different for each choice; None: everything."""
        if dataset == "citations":
            return self._ids_name or None
        if dataset in FULL_TEXTS:
            return ", ".join(filter(None, [self._ids_name, "with text" if self._full_text_only else ""])) or None
        return None

    def keeps(self, dataset: str, record: Record) -> bool:
        """Returns whether a record stays."""
        if dataset not in FULL_TEXTS:
            return self._has_id(record.get("citingcorpusid"))
        if not self._has_id(record.get("corpusid")):
            return False
        return not self._full_text_only or _has_text(record.get(FULL_TEXTS[dataset]))

    def _has_id(self, value: object) -> bool:
        if self._ids is None:
            return True
        number = read_integer(value)
        if number is None or not 0 <= number < 2**63:
            return False
        place = int(self._ids.searchsorted(number))
        return place < len(self._ids) and int(self._ids[place]) == number

    def write(self, dataset: str, source: Path, target: Path) -> Kept:
        """Writes the kept lines of a file to a gzip file; unreadable lines are kept, so that they are counted later.

        Raises:
            ReleaseError: The source is truncated or damaged.
        """
        read = kept = 0
        with target.open("wb") as raw, IGzipFile(fileobj=raw, mode="wb", mtime=0) as out:
            for line in read_lines(source):
                read += 1
                check_stop()
                try:
                    stays = self.keeps(dataset, parse_line(line))
                except BadInput:
                    stays = True
                if stays:
                    out.write(line.data + b"\n")
                    kept += 1
        log.info("%s of %s: kept %d of %d lines", source.name, dataset, kept, read)
        return Kept(read, kept)


def _has_text(holder: object) -> bool:
    text = holder.get("text") if isinstance(holder, dict) else None
    return isinstance(text, str) and not text.isspace() and text != ""
