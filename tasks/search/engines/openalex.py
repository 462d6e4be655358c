"""OpenAlex's search over HTTP.

The API key is sent as `api_key`, the contact address as `mailto`. Source: OpenAlex's documentation of `/works`.
"""

import re
from typing import Any

from schemas.json import JsonObject
from schemas.search import Found, paper_id
from tasks.http.client import HttpRequest
from tasks.search.engine import EngineKit, engine
from tasks.search.web_engine import number_of, objects_of, text_of

NAME = "openalex"
BASE_URL = "https://api.openalex.org"
PAGE = 100
FIELDS = "id,doi,display_name,abstract_inverted_index,relevance_score"
INTERVAL_S = 0.2
MOST_WORDS = 20_000
"""Word positions of an abstract that are read: a reply can name any number."""

_OPERATORS = re.compile(r'["()*?~|]|\b(?:AND|OR|NOT)\b')


class OpenAlex:
    """Searches `/works?search=` page by page; cursors would need a key."""

    def __init__(self, kit: EngineKit) -> None:
        self._url = kit.web.base_urls.get(NAME, BASE_URL) + "/works"
        hidden = {"api_key": kit.web.key(NAME), "mailto": kit.web.mailto}
        self._hidden = tuple((name, value) for name, value in hidden.items() if value)
        self._web = kit.open_web(INTERVAL_S)

    def search(self, query: str, n: int) -> list[Found]:
        """Returns at most `n` works by the service's own relevance.

        Words and signs that the service reads as operators are removed; it looks for works with all other words.
        """
        words = " ".join(_OPERATORS.sub(" ", query).split())
        if not words:
            return []
        size = min(PAGE, n)
        found: list[Found] = []
        while len(found) < n:
            page = str(len(found) // size + 1)
            parameters = (("search", words), ("per_page", str(size)), ("page", page), ("select", FIELDS))
            reply = self._web.ask_json(HttpRequest(self._url, parameters=parameters, hidden=self._hidden))
            works = objects_of(reply.get("results"), f"{self._url}: results")
            found += map(_found, works)
            if len(works) < size:
                break
        return found[:n]


def _found(work: JsonObject) -> Found:
    doi, place = text_of(work.get("doi")), text_of(work.get("id"))
    return Found(
        text_of(work.get("display_name")),
        _abstract(work.get("abstract_inverted_index")),
        paper_id("doi", doi) or paper_id("openalex", place.rpartition("/")[2]),
        doi or place,
        number_of(work.get("relevance_score")),
    )


def _abstract(inverted: Any) -> str:
    """Returns an abstract as text; the service gives the positions of each word."""
    if not isinstance(inverted, dict):
        return ""
    places = {
        place: str(word)
        for word, at in inverted.items()
        if isinstance(at, list)
        for place in at
        if isinstance(place, int) and 0 <= place < MOST_WORDS
    }
    return " ".join(places[place] for place in sorted(places))


@engine(NAME, "OpenAlex's search of works on the web.", live=True)
def openalex(kit: EngineKit) -> OpenAlex:
    """Opens the engine; it sends one request for each page of 100."""
    return OpenAlex(kit)
