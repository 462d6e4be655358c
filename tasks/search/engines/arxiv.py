"""arXiv's search over HTTP.

Replies are Atom, read by a parser that refuses document types and entities. Source: arXiv API User's Manual.
"""

import re
from collections.abc import Iterator
from xml.etree.ElementTree import Element, ParseError  # what defusedxml's parser makes and raises

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import fromstring

from schemas.errors import BadInput
from schemas.search import Found, paper_id
from tasks.http.client import HttpRequest
from tasks.search.engine import EngineKit, engine

NAME = "arxiv"
BASE_URL = "https://export.arxiv.org/api"
PAGE = 100
MOST = 30_000
INTERVAL_S = 3.0
"""Seconds between requests, as arXiv's terms of use ask."""

_ATOM = "{http://www.w3.org/2005/Atom}"
_WORD = re.compile(r"[^\W_]{3,}")
_NOT_WORDS = frozenset({"and", "or", "andnot", "not"})


class Arxiv:
    """Searches `/query` page by page for papers with any of the words, in the order of arXiv's relevance."""

    def __init__(self, kit: EngineKit) -> None:
        self._url = kit.web.base_urls.get(NAME, BASE_URL) + "/query"
        self._web = kit.open_web(INTERVAL_S)

    def search(self, query: str, n: int) -> list[Found]:
        """Returns at most `n` papers; none for a query without a word of at least three letters.

        The words are joined with OR: arXiv cannot search for a sentence, and hardly any paper has all words of one.
        """
        words = dict.fromkeys(word.lower() for word in _WORD.findall(query))
        terms = " OR ".join(f"all:{word}" for word in words if word not in _NOT_WORDS)
        found: list[Found] = []
        while terms and len(found) < min(n, MOST):
            asked = min(PAGE, n - len(found))
            parameters = (
                ("search_query", terms),
                ("start", str(len(found))),
                ("max_results", str(asked)),
                ("sortBy", "relevance"),
                ("sortOrder", "descending"),
            )
            papers = list(_entries(self._web.ask(HttpRequest(self._url, parameters=parameters)), self._url))
            found += papers[:asked]
            if len(papers) < asked:
                break
        return found


def _entries(body: bytes, url: str) -> Iterator[Found]:
    try:
        feed: Element = fromstring(body, forbid_dtd=True)
    except (ParseError, DefusedXmlException, ValueError) as error:
        raise BadInput(f"{url}: the reply cannot be read safely as Atom ({error!r})") from error
    if feed.tag != f"{_ATOM}feed":
        raise BadInput(f"{url}: the reply is {feed.tag}, not an Atom feed")
    for entry in feed.iter(f"{_ATOM}entry"):
        place, title, summary = (_text(entry, name) for name in ("id", "title", "summary"))
        if "/api/errors" in place:
            raise BadInput(f"{url}: {summary}")
        yield Found(title, summary, paper_id("arxiv", place.rpartition("/abs/")[2]), place)


def _text(entry: Element, name: str) -> str:
    return " ".join("".join(entry.findtext(_ATOM + name) or "").split())


@engine(NAME, "arXiv's search on the web.", live=True)
def arxiv(kit: EngineKit) -> Arxiv:
    """Opens the engine; it sends one request for each page of 100, three seconds apart."""
    return Arxiv(kit)
