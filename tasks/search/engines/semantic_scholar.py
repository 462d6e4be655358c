"""Semantic Scholar's relevance search over HTTP.

The API key is sent as `x-api-key`. Source: the Academic Graph API's documentation of `/paper/search`.
"""

from schemas.json import JsonObject
from schemas.search import Found, paper_id
from tasks.http.client import HttpRequest
from tasks.search.engine import EngineKit, engine
from tasks.search.web_engine import objects_of, text_of

NAME = "semantic_scholar"
BASE_URL = "https://api.semanticscholar.org/graph/v1"
PAGE = 100
"""Most papers on a page."""

MOST = 1000
"""Most papers that the service ranks for a query."""

FIELDS = "title,abstract,url,externalIds,corpusId"
WITH_KEY_S, WITHOUT_KEY_S = 1.05, 3.1
"""Seconds between requests: one a second with a key; without one, everybody shares 100 in five minutes."""


class SemanticScholar:
    """Searches `/paper/search` page by page."""

    def __init__(self, kit: EngineKit) -> None:
        key = kit.web.key(NAME)
        self._url = kit.web.base_urls.get(NAME, BASE_URL) + "/paper/search"
        self._headers = {"x-api-key": key} if key else {}
        self._web = kit.open_web(WITH_KEY_S if key else WITHOUT_KEY_S)

    def search(self, query: str, n: int) -> list[Found]:
        """Returns at most `n` papers, never more than 1,000.

        Hyphens become blanks: the service finds nothing for hyphenated words.
        """
        words = " ".join(query.replace("-", " ").split())
        found: list[Found] = []
        while len(found) < min(n, MOST):
            asked = min(PAGE, min(n, MOST) - len(found))
            parameters = (("query", words), ("offset", str(len(found))), ("limit", str(asked)), ("fields", FIELDS))
            page = self._web.ask_json(HttpRequest(self._url, parameters=parameters, headers=self._headers))
            papers = objects_of(page.get("data"), f"{self._url}: data")
            found += map(_found, papers[:asked])
            if "next" not in page or not papers:
                break
        return found


def _found(paper: JsonObject) -> Found:
    ids = paper.get("externalIds")
    ids = ids if isinstance(ids, dict) else {}
    corpus_id = paper.get("corpusId", ids.get("CorpusId"))
    named = (
        paper_id("doi", text_of(ids.get("DOI")))
        or paper_id("arxiv", text_of(ids.get("ArXiv")))
        or (f"corpusid:{corpus_id}" if isinstance(corpus_id, int) else "")
        or paper_id("s2", text_of(paper.get("paperId")))
    )
    return Found(text_of(paper.get("title")), text_of(paper.get("abstract")), named, text_of(paper.get("url")))


@engine(NAME, "Semantic Scholar's paper search on the web.", live=True)
def semantic_scholar(kit: EngineKit) -> SemanticScholar:
    """Opens the engine; it sends one request for each page of 100."""
    return SemanticScholar(kit)
