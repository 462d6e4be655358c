"""Any search engine on the web that speaks our small protocol.

We `POST` the JSON object `{"query": text, "n": number}`; the engine replies with the JSON object
`{"results": [{"title": text, "abstract": text, "id": text, "url": text, "score": number}, ...]}`, best first. Only
`title` is required. An `id` should be `doi:...`, `arxiv:...` or `corpusid:...`. A status of 429 or 503 with
`Retry-After` makes us wait and ask again; other errors fail this query alone. A key is sent as
`Authorization: Bearer ...`.
"""

from urllib.parse import urlsplit

import orjson

from schemas.errors import BadInput, UsageError
from schemas.json import JsonObject
from schemas.search import Found
from tasks.http.client import HttpRequest
from tasks.search.engine import EngineKit, engine
from tasks.search.web_engine import number_of, objects_of, text_of

NAME = "url"


class UrlEngine:
    """Sends one request for each query."""

    def __init__(self, kit: EngineKit) -> None:
        parts = urlsplit(kit.source)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password:
            raise UsageError(f"engine url: {kit.source!r} must be like https://host/path, without user and password")
        key = kit.web.key(NAME)
        self._url = kit.source
        self._headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {key}"} if key else {})
        self._web = kit.open_web(0.0)

    def search(self, query: str, n: int) -> list[Found]:
        """Returns the first `n` papers of the reply."""
        body = orjson.dumps({"query": query, "n": n})
        reply = self._web.ask_json(HttpRequest(self._url, "POST", body=body, headers=self._headers))
        if "results" not in reply:
            raise BadInput(f"{self._url}: the reply has no 'results'")
        return [self._found(result) for result in objects_of(reply["results"], f"{self._url}: results")[:n]]

    def _found(self, result: JsonObject) -> Found:
        if not isinstance(result.get("title"), str):
            raise BadInput(f"{self._url}: a result has no title")
        abstract, named, place = (text_of(result.get(name)) for name in ("abstract", "id", "url"))
        return Found(result["title"], abstract, named, place, number_of(result.get("score")))


@engine(NAME, "An address that answers {query, n} with {results}; see tasks/search/engines/url.py.", live=True)
def url(kit: EngineKit) -> UrlEngine:
    """Opens the engine at the address in the settings."""
    return UrlEngine(kit)
