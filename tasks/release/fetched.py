"""What was fetched into a folder, as its `manifest.json` says."""

from pathlib import Path

from schemas.errors import ReleaseError
from schemas.fetching import FetchManifest
from tasks.store.shard import fsync_path

MANIFEST = "manifest.json"


def read_manifest(place: Path) -> FetchManifest | None:
    """What was fetched into a folder; None when nothing says so.

    Raises:
        ReleaseError: The manifest cannot be read.
    """
    try:
        return FetchManifest.model_validate_json((place / MANIFEST).read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ReleaseError(
            f"{place / MANIFEST}: cannot be read ({error}); remove the folder, fetch it again"
        ) from error


def write_manifest(place: Path, manifest: FetchManifest) -> None:
    """Says what was fetched into a folder: whole, or not at all."""
    draft = place / f".{MANIFEST}.tmp"
    draft.write_text(manifest.model_dump_json(indent=1))
    fsync_path(draft)
    draft.replace(place / MANIFEST)
    fsync_path(place)
