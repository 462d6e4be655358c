"""Formats invented papers as the JSON objects of a Semantic Scholar release.

As in real releases, some full texts are irregular, depending on their number: offsets as numeric strings, spans that
are empty, out of range or unsorted, ids as integers.
"""

from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

import orjson

from schemas.identifiers import DatasetName
from tasks.demo.papers import Head, Paper

Json = dict[str, Any]


class Names(NamedTuple):
    """Names of the annotations in one version of the full-text format."""

    header: str
    mention: str
    entry: str
    entry_title: str


V1 = Names("sectionheader", "bibref", "bibentry", "bibtitle")
V2 = Names("section_header", "bib_ref", "bib_entry", "bib_title")


def format_paper(paper: Paper) -> Json:
    """Returns a record of `papers`."""
    head = paper.head
    return {
        "corpusid": head.corpus_id,
        "externalids": _external_ids(head),
        "url": f"https://www.semanticscholar.org/paper/{head.corpus_id}",
        "title": head.title,
        "authors": [{"authorId": None, "name": name} for name in head.authors],
        "venue": paper.venue,
        "publicationvenueid": None,
        "year": None if head.precision == "none" else head.published.year,
        "referencecount": len(paper.references),
        "citationcount": head.number % 90,
        "influentialcitationcount": head.number % 9,
        "isopenaccess": bool(paper.sections),
        "s2fieldsofstudy": [{"category": paper.field, "source": source} for source in ("external", "s2-fos-model")],
        "publicationtypes": ["Review"] if head.kind == "survey" else ["JournalArticle"],
        "publicationdate": head.published.isoformat() if head.precision == "day" else None,
        "journal": {"name": paper.venue, "pages": None, "volume": None},
    }


def format_abstract(paper: Paper) -> Json:
    """Returns a record of `abstracts`; the abstract is blank if the paper has none."""
    return {
        "corpusid": paper.head.corpus_id,
        "openaccessinfo": _open_access(paper.head),
        "abstract": paper.abstract or "",
    }


def format_citations(paper: Paper) -> Iterator[Json]:
    """Yields the paper's records of `citations`; every tenth paper has one whose cited paper is unresolved."""
    cited = [(reference.head.corpus_id, reference.mentions) for reference in paper.references if reference.in_citations]
    unresolved = [(None, 1)] if cited and paper.head.number % 10 == 0 else []
    for place, (corpus_id, mentions) in enumerate([*cited, *unresolved]):
        yield {
            "citationid": paper.head.number * 100 + place,
            "citingcorpusid": paper.head.corpus_id,
            "citedcorpusid": corpus_id,
            "isinfluential": mentions >= 3,
            "contexts": ["as shown before"] * mentions if paper.sections else None,
            "intents": None,
        }


class _Text:
    """Builds a text and the spans of its annotations."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._length = 0
        self._spans: dict[str, list[Json]] = {}

    def add(self, text: str, *names: str, attributes: Json | None = None, end: str = "\n") -> None:
        """Appends a text with an annotation for each of `names`, then `end`."""
        self.mark(names, self._length, self._length + len(text), attributes)
        self._parts += (text, end)
        self._length += len(text) + len(end)

    def mark(self, names: tuple[str, ...], start: int, stop: int, attributes: Json | None = None) -> None:
        """Annotates a span."""
        span = {"attributes": attributes, "end": stop, "start": start} if attributes else {"end": stop, "start": start}
        for name in names:
            self._spans.setdefault(name, []).append(span)

    @property
    def length(self) -> int:
        """Characters so far."""
        return self._length

    def dump(self, absent: tuple[str, ...], number: int) -> Json:
        """Returns text and annotations as in a record; `absent` annotations are null."""
        spans = self._spans
        if number % 11 == 0:
            spans = {k: [s | {"start": str(s["start"]), "end": str(s["end"])} for s in v] for k, v in spans.items()}
        if number % 13 == 0:
            spans = {name: list(reversed(found)) for name, found in spans.items()}
        annotations = dict.fromkeys(absent) | {name: orjson.dumps(found).decode() for name, found in spans.items()}
        return {"text": "".join(self._parts), "annotations": annotations}


def format_s2orc_v2(paper: Paper) -> Json:
    """Returns a record of `s2orc_v2`, with body and bibliography as two texts."""
    body, bibliography = _Text(), _Text()
    _add_body(body, paper, V2)
    _add_bibliography(bibliography, paper, V2)
    absent = ("figure", "figure_caption", "figure_ref", "formula", "sentence", "table", "table_ref")
    return {
        "corpusid": paper.head.corpus_id,
        "title": paper.head.title,
        "authors": [{"authorId": None, "name": name} for name in paper.head.authors],
        "openaccessinfo": _open_access(paper.head),
        "body": body.dump((*absent, "paragraph", *V2[:2]), paper.head.number),
        "bibliography": bibliography.dump(("bib_author", "bib_venue", *V2[2:]), paper.head.number),
    }


def format_s2orc(paper: Paper) -> Json:
    """Returns a record of `s2orc` (v1): one text from the title to the bibliography."""
    text = _Text()
    text.add("")
    text.add(paper.head.title, "title")
    text.add("\n".join(paper.head.authors), "author")
    if paper.abstract:
        text.add(paper.abstract, "abstract")
    _add_body(text, paper, V1)
    _add_bibliography(text, paper, V1)
    absent = ("authoraffiliation", "bibauthor", "bibvenue", "figure", "figurecaption", "figureref", "formula", "venue")
    return {
        "corpusid": paper.head.corpus_id,
        "externalids": {name.lower(): value for name, value in _external_ids(paper.head).items() if name != "CorpusId"},
        "content": {
            "source": {"pdfurls": None, "pdfsha": None, "oainfo": None},
            **text.dump((*absent, "abstract", "paragraph", *V1), paper.head.number),
        },
    }


def _add_body(text: _Text, paper: Paper, names: Names) -> None:
    mentions = [place for place, reference in enumerate(paper.references) for _ in range(reference.mentions)]
    Random(paper.head.number).shuffle(mentions)  # noqa: S311
    paragraphs = sum(len(found) for _, found in paper.sections)
    turn = 0
    for number, (heading, found) in enumerate(paper.sections, 1):
        text.add(heading, names.header, attributes={"n": str(number)})
        for paragraph in found:
            start = text.length
            text.add(paragraph, end="")
            for place in mentions[turn::paragraphs]:
                text.add("", end=" ")
                text.add(f"[{place + 1}]", names.mention, attributes=_mention(paper, place), end="")
            text.mark(("paragraph",), start, text.length)
            text.add("", end="\n\n")
            turn += 1
    if paper.head.number % 17 == 0:
        text.mark((names.header,), text.length, text.length)
    if paper.head.number % 19 == 0:
        text.mark(("paragraph",), text.length, text.length + 1_000_000)


def _mention(paper: Paper, place: int) -> Json:
    reference = paper.references[place]
    matched = {"matched_paper_id": str(reference.head.corpus_id)} if reference.match == "mention" else {}
    return {"ref_id": _entry_id(paper, place), **matched}


def _entry_id(paper: Paper, place: int) -> str | int:
    return place if paper.head.number % 7 == 0 else f"b{place}"


def _add_bibliography(text: _Text, paper: Paper, names: Names) -> None:
    for place, reference in enumerate(paper.references):
        matched = {"matched_paper_id": reference.head.corpus_id} if reference.match == "entry" else {}
        start = text.length
        text.add(reference.head.title, names.entry_title, end=". ")
        text.add(f"{', '.join(reference.head.authors)}. {reference.head.published.year}.", end="")
        text.mark((names.entry,), start, text.length, {"id": _entry_id(paper, place), **matched})
        text.add("")


def _external_ids(head: Head) -> Json:
    arxiv = f"{head.published:%y%m}.{head.number % 100_000:05d}" if head.number % 5 < 2 else None
    return {
        "ACL": None,
        "DBLP": None,
        "ArXiv": arxiv,
        "MAG": None,
        "CorpusId": str(head.corpus_id),
        "PubMed": None,
        "DOI": f"10.5555/invented.{head.number}",
        "PubMedCentral": None,
    }


def _open_access(head: Head) -> Json:
    return {"externalids": _external_ids(head), "license": "CCBY", "url": None, "status": "GREEN"}


def broken_lines(dataset: DatasetName, first: Json) -> list[bytes]:
    """Returns lines that cannot be used, each for a different reason, and two outdated versions of the first record.

    The first of the versions has a field of a wrong type.
    """
    key = "citingcorpusid" if dataset == "citations" else "corpusid"
    wrong = {
        "papers": {"year": "MMXX"},
        "abstracts": {"abstract": 7},
        "citations": {"isinfluential": "yes"},
        "s2orc": {"content": "text"},
        "s2orc_v2": {"body": "text"},
    }[dataset]
    values: list[object] = [
        ["an", "array"],
        {"title": "A record without id"},
        {key: "not a number"},
        first | wrong,
        first | {"title": "An outdated version", "isinfluential": None},
    ]
    cut_off = orjson.dumps(first)[:-20]
    return [cut_off, b'{"' + key.encode() + b'": 1, "title": "\xff\xfe"}', *map(orjson.dumps, values)]
