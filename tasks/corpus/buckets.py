"""Pairs the buckets of datasets that were written with the same number of buckets."""

from pathlib import Path
from typing import Any

from schemas.errors import BadInput
from tasks.store.dataset import MAIN
from tasks.store.workspace import Workspace


def matching_files(work: Workspace[Any], name: str, like: list[Path], prefix: str = MAIN) -> list[Path]:
    """Returns the files of an input, bucket by bucket beside the files of another.

    Args:
        work: Of the stage.
        name: The input.
        like: The other input's files.
        prefix: Table of the input: `part`, or the name of a side table.

    Raises:
        BadInput: The input has different buckets.
    """
    found = work.dataset(name).files(prefix)
    if [_bucket(path) for path in found] != [_bucket(path) for path in like]:
        raise BadInput(
            f"stage {work.stage}: {name} has {len(found)} buckets, {like[0].parents[1].name if like else 'the other'} "
            f"has {len(like)}; build both with the same number of buckets"
        )
    return found


def _bucket(path: Path) -> str:
    return path.stem.rpartition("-")[2]
