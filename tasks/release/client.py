"""Semantic Scholar's datasets API: which releases there are, and links to the files of one.

Source: https://api.semanticscholar.org/api-docs/datasets
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Self, TypeVar
from urllib.parse import quote

from pydantic import BaseModel, FailFast, RootModel, SecretStr, ValidationError

from schemas.errors import ReleaseError, UsageError
from schemas.fetching import ApiSettings, Diff, RetrySettings
from schemas.identifiers import ReleaseId, is_release
from tasks.http.client import BadAddress, HttpClient, HttpRequest, HttpSettings, TooLong, excerpt
from tasks.http.pace import SharedPace
from tasks.http.retry import RetryRules

T = TypeVar("T", bound=BaseModel)
REMEDY = "`arena release list --remote` shows the releases there are"

MAX_REPLY = 64 * 2**20
"""Bytes of the longest reply that is read; a list of links has some hundred kilobytes."""

MAX_SILENCES = 10
"""Longest time for a whole reply, in silences that the settings allow."""


class _Releases(RootModel[list[str]]):
    root: Annotated[list[str], FailFast()]


class _Named(BaseModel):
    name: str


class _Release(BaseModel):
    datasets: Annotated[list[_Named], FailFast()]


class _Files(BaseModel):
    files: Annotated[list[str], FailFast()]


class _Diffs(BaseModel):
    diffs: Annotated[list[Diff], FailFast()]


class DatasetsApi:
    """Calls the datasets API at the pace that all processes of the machine share, and tries transient failures again.

    Every method raises ReleaseError for an unknown release or dataset, a refused key and a reply in another form than
    the API documents, and TransientError when the server is busy or out of reach at every try.

    Args:
        key: The API key; listing releases and datasets needs none.
        settings: Where the API is, how often it may be called.
        state: Folder for the file through which processes share the pace.
    """

    def __init__(self, key: SecretStr | None, settings: ApiSettings, state: Path) -> None:
        self.settings = settings
        self._key = key
        pace = SharedPace(state / "s2-next-call", settings.interval_s, settings.retry_after_limit_s)
        self._http = HttpClient(http_settings(settings), pace)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def releases(self) -> list[ReleaseId]:
        """Returns the ids of all releases, oldest first, and leaves out names that are not dates."""
        found = self._get(_Releases, ("release", ""), "the list of releases").root
        return [ReleaseId(release) for release in sorted(found) if is_release(release)]

    def datasets(self, release: str) -> list[str]:
        """Returns the names of a release's datasets."""
        reply = self._get(_Release, ("release", check_release(release)), f"release {release}")
        return [dataset.name for dataset in reply.datasets]

    def files(self, release: str, dataset: str) -> tuple[str, ...]:
        """Returns links to a dataset's files; they expire.

        Raises:
            UsageError: There is no key.
        """
        self._require_key()
        parts = ("release", check_release(release), "dataset", dataset)
        return tuple(self._get(_Files, parts, f"dataset {dataset} of release {release}").files)

    def diffs(self, start: str, end: str, dataset: str) -> tuple[Diff, ...]:
        """Returns links to a dataset's diffs, one diff for each pair of consecutive releases, oldest first.

        Raises:
            UsageError: There is no key.
        """
        self._require_key()
        what = f"diffs of {dataset} from {start} to {end}"
        found = self._get(_Diffs, ("diffs", check_release(start), "to", check_release(end), dataset), what).diffs
        if [start, *(diff.to_release for diff in found)] != [*(diff.from_release for diff in found), end]:
            pairs = ", ".join(f"{diff.from_release} to {diff.to_release}" for diff in found) or "none"
            raise ReleaseError(
                f"{what}: the API's diffs do not form a chain ({pairs}); fetch the whole release {end} instead"
            )
        return tuple(found)

    def _require_key(self) -> None:
        if self._key is None:
            raise UsageError(
                "the datasets API gives links only with a key: set S2_API_KEY (semanticscholar.org/product/api)"
            )

    def _get(self, form: type[T], parts: Iterable[str], what: str) -> T:
        path = "/".join(quote(part, safe="") for part in parts)
        url = f"{self.settings.url.rstrip('/')}/{path}"
        headers = {"x-api-key": self._key.get_secret_value()} if self._key else {}
        try:
            reply = self._http.send(HttpRequest(url, headers=headers), MAX_REPLY)
        except BadAddress as error:
            raise UsageError(f"--url {self.settings.url!r} is not an address: {error}") from error
        except TooLong as error:
            raise ReleaseError(str(error)) from error
        if reply.status in (401, 403):
            raise ReleaseError(f"{url}: the API refused the key ({reply.status}); check S2_API_KEY")
        if reply.status == 404:
            raise ReleaseError(f"{url}: there is no such release or dataset; {REMEDY}")
        if reply.trouble:
            raise ReleaseError(f"{url}: {reply.trouble} instead of HTTP 200; check --url")
        try:
            return form.model_validate_json(reply.body)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            place = ".".join(map(str, first["loc"])) or "the reply"
            seen = excerpt(f"{place}: {first['msg']}")
            # Not `from error`: its text repeats the reply, which may hold signed links.
            raise ReleaseError(f"{what}: the API's reply has an unexpected form ({seen}); check --url") from None


def http_settings(settings: RetrySettings) -> HttpSettings:
    """Returns how Semantic Scholar's servers are asked."""
    return HttpSettings(
        rules=RetryRules(settings.attempts, settings.backoff_s, settings.backoff_limit_s, settings.retry_after_limit_s),
        timeout_s=settings.timeout_s,
        connect_timeout_s=settings.timeout_s,
        deadline_s=MAX_SILENCES * settings.timeout_s,
        remedy="try again later; is the address right?",
    )


def newest_release(api: DatasetsApi, known: Iterable[str]) -> ReleaseId | None:
    """Returns the newest release when it is newer than all known ones, else None, with one call.

    Args:
        api: The datasets API.
        known: Releases that were fetched or judged before.
    """
    releases = api.releases()
    return releases[-1] if releases and releases[-1] > max(known, default="") else None


def check_release(release: str) -> ReleaseId:
    """Returns a release's id when it looks like one.

    Raises:
        UsageError: It does not.
    """
    if not is_release(release):
        raise UsageError(f"release {release!r} is not a date such as 2024-02-06; {REMEDY}")
    return ReleaseId(release)
