"""Records that lie beside fetched files, above all the `manifest.json` of a folder."""

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from schemas.errors import ReleaseError
from schemas.fetching import FetchManifest
from tasks.store.whole_files import write_whole

MANIFEST = "manifest.json"
RecordT = TypeVar("RecordT", bound=BaseModel)


def read_record(form: type[RecordT], path: Path, remedy: str) -> RecordT | None:
    """Returns the record in a JSON file; None when there is no such file.

    Raises:
        ReleaseError: The file cannot be read; the message ends with the remedy.
    """
    try:
        return form.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ReleaseError(f"{path}: cannot be read ({error}); {remedy}") from error


def write_record(path: Path, record: BaseModel) -> None:
    """Writes a record as a JSON file, whole or not at all.

    Raises:
        ReleaseError: The file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, record.model_dump_json(indent=1).encode())
    except OSError as error:
        raise ReleaseError(f"{path}: cannot be written ({error.strerror}); make the folder writable") from error


def read_manifest(place: Path) -> FetchManifest | None:
    """Returns what was fetched into a folder; None when no manifest says so.

    Raises:
        ReleaseError: The manifest cannot be read.
    """
    return read_record(FetchManifest, place / MANIFEST, "remove the folder and fetch it again")
