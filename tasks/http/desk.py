"""A client of the served desk, over REST."""

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import httpx

from schemas.errors import ArenaError
from schemas.submission import Sample, System, Task


class DeskError(ArenaError):
    """The desk refused a call; `status` is the HTTP status.

    Args:
        status: HTTP status.
        detail: What the desk said.
    """

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


class DeskClient:
    """Opens runs at a served desk, leases topics and makes their calls.

    Args:
        url: The server's URL, as `arena serve` prints it.
        key: The server's key, where it asks for one.
        timeout_s: Longest wait for an answer, in seconds.
    """

    def __init__(self, url: str, key: str | None = None, timeout_s: float = 600) -> None:
        headers = {"X-Arena-Key": key} if key else {}
        self._client = httpx.Client(base_url=url.rstrip("/"), headers=headers, timeout=timeout_s)

    def open_run(self, edition: str, task: Task, system: System, sample: Sample | None = None) -> dict[str, Any]:
        """Opens a run; returns `run`, `run_token`, `topics` and `quotas`."""
        body = {"edition": edition, "task": task, "system": system.model_dump()}
        return self._post("/v1/runs", body | ({"sample": sample.model_dump()} if sample else {}))

    def lease(self, run: str, token: str, n: int = 1) -> list[dict[str, Any]]:
        """Leases up to `n` topics; returns `topic`, `topic_token`, `title`, `instructions`, ... of each."""
        return self._post(f"/v1/runs/{run}/topics", {"n": n}, token)["topics"]

    def call(self, name: str, token: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Makes a call of a topic: `search`, `documents`, `references`, `citations`, `submit`, ..."""
        return self._post(f"/v1/{name}", body, token)

    def status(self, run: str, token: str) -> dict[str, Any]:
        """Returns how far a run is."""
        return self._read(self._client.get(f"/v1/runs/{run}", headers=_bearer(token)))

    def finish(self, run: str, token: str) -> dict[str, Any]:
        """Ends a run; returns its outcomes, and its scores where they are public."""
        return self._post(f"/v1/runs/{run}/finish", {}, token)

    def _post(self, path: str, body: Mapping[str, Any], token: str | None = None) -> dict[str, Any]:
        return self._read(self._client.post(path, json=dict(body), headers=_bearer(token) if token else None))

    def _read(self, response: httpx.Response) -> dict[str, Any]:
        found = response.json()
        if response.is_error:
            raise DeskError(response.status_code, f"{response.url.path}: {found.get('detail', response.reason_phrase)}")
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}
