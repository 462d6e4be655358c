"""Figures in a folder, in the layout of the pdffigures2 extractor: `data/<corpus_id>.json` beside `img/<picture>`."""

from schemas.errors import BadInput, ReleaseError
from schemas.release import ReleaseDataset
from tasks.corpus.figures.source import Listed, Picture, Unusable, read_list


class FolderFigures:
    """A source of figures in a folder. It opens only fingerprinted files of that folder, whatever name a list gives.

    Args:
        files: The folder's files by their paths relative to it (`tasks.release.mirror.open_figures`).
        max_bytes: A larger picture is not read.
    """

    def __init__(self, files: ReleaseDataset, max_bytes: int) -> None:
        self._folder = files.directory
        self._sizes = {file.name: file.size for file in files.files}
        self._max_bytes = max_bytes

    def figures(self, corpus_id: int) -> list[Listed | Unusable]:
        """Returns the figures of `data/<corpus_id>.json`."""
        name = f"data/{corpus_id}.json"
        return read_list(self._read(name)) if name in self._sizes else []

    def picture(self, corpus_id: int, name: str) -> Picture:
        """Returns the file `img/<name>`."""
        size = self._sizes.get(f"img/{name}")
        if size is None:
            raise BadInput("no_picture")
        if size > self._max_bytes:
            raise BadInput("too_large")
        return Picture(self._read(f"img/{name}"))

    def _read(self, name: str) -> bytes:
        try:
            return (self._folder / name).read_bytes()
        except OSError as error:
            raise ReleaseError(f"{self._folder / name}: cannot be read ({error.strerror})") from error
