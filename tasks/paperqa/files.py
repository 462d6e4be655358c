"""AirQA's files as inputs of stages: their contents enter the key, their location does not."""

from collections.abc import Iterator
from pathlib import Path

from schemas.errors import BadInput
from schemas.identifiers import DatasetName, ReleaseId
from schemas.release import ReleaseDataset, SourceFile
from tasks.store.dataset import sha256_file

RELEASE = ReleaseId("airqa")


def open_questions(path: Path) -> ReleaseDataset:
    """Returns a questions file as an input of the stage `paperqa_questions`.

    Raises:
        BadInput: There is no such file, or it is empty.
    """
    if not path.is_file() or not path.stat().st_size:
        raise BadInput(f"{path}: no questions file, or an empty one; give a file of JSON lines")
    return _dataset("airqa_questions", path.parent, [path])


def open_folder(name: DatasetName, folder: Path) -> ReleaseDataset:
    """Returns a folder of `<uuid>.json` files (for PDFs: `<uuid>.pdf`, at any depth) as an input of a stage.

    Raises:
        BadInput: There is no such folder, or it holds no such file.
    """
    ending = "pdf" if name == "airqa_pdfs" else "json"
    files = sorted(folder.rglob("*.pdf") if ending == "pdf" else folder.glob("*.json"))
    if not files:
        raise BadInput(f"{folder}: no folder with {ending} files; give the one that holds them")
    return _dataset(name, folder, files)


def paths(files: ReleaseDataset) -> Iterator[Path]:
    """Returns the full paths of an input's files."""
    return (files.directory / file.name for file in files.files)


def _dataset(name: DatasetName, folder: Path, files: list[Path]) -> ReleaseDataset:
    sources = tuple(
        SourceFile(name=str(path.relative_to(folder)), size=path.stat().st_size, sha256=sha256_file(path))
        for path in files
    )
    return ReleaseDataset(release=RELEASE, dataset=name, directory=folder.absolute(), files=sources)
