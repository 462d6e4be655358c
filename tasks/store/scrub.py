"""Reads every stored byte again now and then, because a disk that loses bits does not say so."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from schemas.errors import StoreError
from tasks.store.collect import KEY
from tasks.store.dataset import Dataset
from tasks.store.hashes import last_read
from tasks.store.store import Store


def scrub(store: Store, unread_for: timedelta) -> Iterator[str]:
    """Hashes the datasets of which nobody has read every byte for a while.

    Args:
        store: Where they are.
        unread_for: How long ago a dataset was read for the last time.

    Yields:
        What is wrong with each damaged dataset, with the remedy. Nothing uses it until it was built again.
    """
    before = datetime.now(UTC) - unread_for
    for folder in sorted(path for path in store.root.glob("[a-z]*/*") if KEY.fullmatch(path.name)):
        dataset, read = Dataset(folder), last_read(folder)
        try:
            if read is None or read <= before:
                dataset.problems(check_hashes=True)
            dataset.require_whole()
        except StoreError as error:
            yield str(error)
