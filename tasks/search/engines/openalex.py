"""OpenAlex's search over HTTP.

An API key is sent as `api_key`, an address to write to as `mailto`. Source: OpenAlex's documentation of `/works`.
"""

import re
from typing import Any

from schemas.search import Found, paper_id
from tasks.search.engine import EngineKit, engine
from tasks.search.web_engine import WebRequest, number_of, objects_of, text_of

NAME = "openalex"
BASE_URL = "https://api.openalex.org"
PAGE = 100
FIELDS = "id,doi,display_name,abstract_inverted_index,relevance_score"
INTERVAL_S = 0.2
MOST_WORDS = 20_000
"""Places of an abstract that are read: a reply can name any."""

_OPERATORS = re.compile(r'["()*?~|]|\b(?:AND|OR|NOT)\b')


class OpenAlex:
    """Asks `/works?search=` page by page; pages, not cursors, which need a key."""

    def __init__(self, kit: EngineKit) -> None:
        self._url = kit.web.base_urls.get(NAME, BASE_URL) + "/works"
        hidden = {"api_key": kit.web.key(NAME), "mailto": kit.web.mailto}
        self._hidden = {name: value for name, value in hidden.items() if value}
        self._web = kit.open_web(INTERVAL_S)

    def search(self, query: str, n: int) -> list[Found]:
        """At most `n` works by the service's own relevance.

        What it reads as operators is taken out; it looks for works with all other words.
        """
        words = " ".join(_OPERATORS.sub(" ", query).split())
        if not words:
            return []
        size = min(PAGE, n)
        found: list[Found] = []
        while len(found) < n:
            page = str(len(found) // size + 1)
            parameters = (("search", words), ("per_page", str(size)), ("page", page), ("select", FIELDS))
            reply = self._web.ask_json(WebRequest("GET", self._url, parameters), hidden=self._hidden)
            works = objects_of(reply.get("results"), f"{self._url}: results")
            found += map(_found, works)
            if len(works) < size:
                break
        return found[:n]


def _found(work: dict[str, Any]) -> Found:
    doi, place = text_of(work.get("doi")), text_of(work.get("id"))
    return Found(
        text_of(work.get("display_name")),
        _abstract(work.get("abstract_inverted_index")),
        paper_id("doi", doi) or paper_id("openalex", place.rpartition("/")[2]),
        doi or place,
        number_of(work.get("relevance_score")),
    )


def _abstract(inverted: Any) -> str:
    """The words in the order of their places; the service gives abstracts as places by word."""
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
    """One request a page of 100."""
    return OpenAlex(kit)
