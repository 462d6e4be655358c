"""Semantic Scholar's datasets API: which releases there are, and links to the files of one.

Source: https://api.semanticscholar.org/api-docs/datasets
"""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import quote

import httpx
from pydantic import BaseModel, SecretStr, TypeAdapter, ValidationError

from schemas.errors import ReleaseError, TransientError, UsageError
from schemas.fetching import RELEASE_PATTERN, ApiSettings, Diff
from schemas.identifiers import ReleaseId
from tasks.release.pace import Busy, Pace, persist, retry_after_s

T = TypeVar("T")
REMEDY = "`arena release list --remote` shows the releases there are"


class _Named(BaseModel):
    name: str


class _Release(BaseModel):
    datasets: tuple[_Named, ...]


class _Files(BaseModel):
    files: tuple[str, ...]


class _Diffs(BaseModel):
    diffs: tuple[Diff, ...]


class DatasetsApi:
    """Calls of the datasets API, paced over all processes of the machine, tried again while a failure may pass.

    Every method raises ReleaseError for an unknown release or dataset, a key that is refused and an answer that is not
    what the API describes, and TransientError when the server stays away or busy after all tries.

    Args:
        key: The API key; listing releases and datasets needs none.
        settings: Where the API is, how often it may be called.
        state: Folder for the file through which processes agree on when to call.
    """

    def __init__(self, key: SecretStr | None, settings: ApiSettings, state: Path) -> None:
        self.settings = settings
        self._key = key
        self._http = httpx.Client(timeout=settings.timeout_s)
        self._pace = Pace(state / "s2-next-call", settings.interval_s, settings.retry_after_limit_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def releases(self) -> list[ReleaseId]:
        """Ids of all releases, ascending; what does not look like one is left out."""
        found = _read(list[str], self._get(("release", "")), "the list of releases")
        return [ReleaseId(release) for release in sorted(found) if re.fullmatch(RELEASE_PATTERN, release)]

    def datasets(self, release: str) -> list[str]:
        """Names of a release's datasets."""
        answer = _read(_Release, self._get(("release", check_release(release))), f"release {release}")
        return [dataset.name for dataset in answer.datasets]

    def files(self, release: str, dataset: str) -> tuple[str, ...]:
        """Links to a dataset's files; they expire.

        Raises:
            UsageError: There is no key.
        """
        parts = ("release", check_release(release), "dataset", dataset)
        found = _read(_Files, self._get(parts, secret=True), f"dataset {dataset} of release {release}")
        return found.files

    def diffs(self, start: str, end: str, dataset: str) -> tuple[Diff, ...]:
        """Links to what changed in a dataset, one diff for each pair of consecutive releases, oldest first.

        Raises:
            UsageError: There is no key.
        """
        what = f"what changed in {dataset} from {start} to {end}"
        parts = ("diffs", check_release(start), "to", check_release(end), dataset)
        found = _read(_Diffs, self._get(parts, secret=True), what)
        if [start, *(diff.to_release for diff in found.diffs)] != [*(diff.from_release for diff in found.diffs), end]:
            pairs = ", ".join(f"{diff.from_release} to {diff.to_release}" for diff in found.diffs) or "none"
            raise ReleaseError(f"{what}: the API's diffs do not lead there ({pairs}); fetch release {end} whole")
        return found.diffs

    def _get(self, parts: Iterable[str], *, secret: bool = False) -> Any:
        if secret and self._key is None:
            raise UsageError(
                "the datasets API gives links only for a key: set S2_API_KEY (semanticscholar.org/product/api)"
            )
        path = "/".join(quote(part, safe="") for part in parts)
        return persist(self.settings)(self._call, path)

    def _call(self, path: str) -> Any:
        self._pace.wait()
        url = f"{self.settings.url.rstrip('/')}/{path}"
        headers = {"x-api-key": self._key.get_secret_value()} if self._key else {}
        try:
            response = self._http.get(url, headers=headers)
        except httpx.RequestError as error:
            raise TransientError(
                f"{url}: cannot be reached ({error or type(error).__name__}); is --url right?"
            ) from error
        except httpx.InvalidURL as error:
            raise UsageError(f"--url {self.settings.url!r}: is no address ({error})") from error
        status = response.status_code
        if status == 429 or status >= 500:
            wait = retry_after_s(response.headers.get("retry-after"))
            if wait:
                self._pace.hold(wait)
            raise Busy(f"{url}: answered {status}; try again later", wait)
        if status in (401, 403):
            raise ReleaseError(f"{url}: the key was refused ({status}); check S2_API_KEY")
        if status == 404:
            raise ReleaseError(f"{url}: there is no such release or dataset; {REMEDY}")
        if status != 200:
            raise ReleaseError(f"{url}: answered {status} instead of 200; is --url right?")
        try:
            return response.json()
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise ReleaseError(f"{url}: answered something that is no JSON; is --url right?") from error


def newest_release(api: DatasetsApi, known: Iterable[str]) -> ReleaseId | None:
    """The newest release when it is newer than all that are known, else None: one call, the usual outcome of most days.

    Args:
        api: Who is asked.
        known: Releases that were fetched or judged before.
    """
    releases = api.releases()
    return releases[-1] if releases and releases[-1] > max(known, default="") else None


def check_release(release: str) -> ReleaseId:
    """Returns the id of a release when it looks like one.

    Raises:
        UsageError: It does not.
    """
    if not re.fullmatch(RELEASE_PATTERN, release):
        raise UsageError(f"release {release!r} is no date such as 2024-02-06; {REMEDY}")
    return ReleaseId(release)


def _read(form: type[T], answer: Any, what: str) -> T:
    try:
        return TypeAdapter(form).validate_python(answer)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the answer"
        raise ReleaseError(
            f"{what}: the API answered another form ({place}: {first['msg']}); is --url right?"
        ) from error
