"""Decodes full texts, `s2orc` (v1) and `s2orc_v2`: annotation spans become sections, paragraphs and a bibliography.

What belongs here: what the spans mean. What does not: tables (`tasks/corpus/records`), linking references to surveys.

Every annotation is a string holding a JSON list of `{start, end, attributes?}`: character offsets into the text beside
it. A span that is empty, out of range or unreadable is left out and counted in `notes`; the paper stays.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from operator import itemgetter
from typing import Any, NamedTuple

import orjson

from tasks.release.decode import MAX_ID, Record, read_id, read_integer, read_object, read_text


class Section(NamedTuple):
    """A header: its printed number, if any, and its text."""

    number: str | None
    heading: str


class Paragraph(NamedTuple):
    """A paragraph and the index of the header before it, -1 before the first."""

    section: int
    text: str


class Entry(NamedTuple):
    """An entry of the bibliography: columns of the table `bibliography` from `entry_id` on."""

    entry_id: str | None
    entry: str
    title: str | None
    matched_corpus_id: int | None
    mentions: int


class FullText(NamedTuple):
    """One paper's body and bibliography, in reading order."""

    corpus_id: int
    title: str | None
    abstract: str | None
    sections: list[Section]
    paragraphs: list[Paragraph]
    entries: list[Entry]


Span = tuple[int, int, Record]


class Names(NamedTuple):
    """How a version of the format names its annotations."""

    header: str
    entry: str
    entry_title: str
    mention: str


V1 = Names("sectionheader", "bibentry", "bibtitle", "bibref")
V2 = Names("section_header", "bib_entry", "bib_title", "bib_ref")


class _Part(NamedTuple):
    """A text with its annotations; `notes` counts what had to be left out."""

    text: str
    annotations: Record
    notes: Counter[str]

    def spans(self, name: str) -> list[Span]:
        """The usable spans of one annotation, ascending by start."""
        items = self._load(name)
        spans: list[Span] = []
        length = len(self.text)
        for item in items:
            try:
                start, end, attributes = item["start"], item["end"], item.get("attributes")
            except (TypeError, KeyError):
                start = end = attributes = None
            if type(start) is not int or type(end) is not int:
                start, end = read_integer(start), read_integer(end)
            if start is None or end is None:
                self.notes["spans_unreadable"] += 1
            elif 0 <= start < end <= length:
                spans.append((start, end, attributes if type(attributes) is dict else {}))
            else:
                self.notes["spans_empty" if 0 <= start == end <= length else "spans_out_of_range"] += 1
        spans.sort(key=itemgetter(0, 1))
        return spans

    def _load(self, name: str) -> list[Any]:
        value = self.annotations.get(name)
        if type(value) is str:
            try:
                value = orjson.loads(value)
            except orjson.JSONDecodeError:
                value = False
        if value is None:
            return []
        if type(value) is list:
            return value
        self.notes["annotations_unreadable"] += 1
        return []

    def texts(self, name: str) -> list[str]:
        """The texts of one annotation's spans, blank ones left out."""
        found = [self.text[start:end].strip() for start, end, _ in self.spans(name)]
        return [text for text in found if text]


def decode_s2orc(record: Record, notes: Counter[str]) -> FullText:
    """Decodes a record of `s2orc`, where one text holds title, abstract, body and bibliography.

    Args:
        record: The JSON object.
        notes: Receives the counts of what was left out.

    Raises:
        BadInput: As `read_id`, `read_object` and `read_text` say.
    """
    corpus_id = read_id(record, "corpusid")
    part = _read_part(read_object(record, "content"), notes)
    title = next(iter(part.texts("title")), None)
    return _assemble(FullText(corpus_id, title, _read_abstract(part), [], [], []), part, part, V1)


def decode_s2orc_v2(record: Record, notes: Counter[str]) -> FullText:
    """Decodes a record of `s2orc_v2`, where body and bibliography are two texts; arguments as `decode_s2orc`."""
    corpus_id = read_id(record, "corpusid")
    body = _read_part(read_object(record, "body"), notes)
    bibliography = _read_part(read_object(record, "bibliography"), notes)
    head = FullText(corpus_id, read_text(record, "title"), _read_abstract(body), [], [], [])
    return _assemble(head, body, bibliography, V2)


def _read_part(content: Record, notes: Counter[str]) -> _Part:
    return _Part(read_text(content, "text") or "", read_object(content, "annotations"), notes)


def _read_abstract(part: _Part) -> str | None:
    return "\n".join(part.texts("abstract")) or None


def _assemble(head: FullText, body: _Part, bibliography: _Part, names: Names) -> FullText:
    text = body.text
    headers = [span for span in body.spans(names.header) if not text[span[0] : span[1]].isspace()]
    starts = [start for start, _, _ in headers]
    paragraphs = [
        Paragraph(bisect_right(starts, start) - 1, content)
        for start, end, _ in body.spans("paragraph")
        if (content := text[start:end].strip())
    ]
    if not paragraphs:
        body.notes["papers_without_paragraph"] += 1
    return head._replace(
        sections=[Section(_label(attributes.get("n")), text[start:end].strip()) for start, end, attributes in headers],
        paragraphs=paragraphs,
        entries=_read_entries(body.spans(names.mention), bibliography, names),
    )


def _read_entries(mentions: list[Span], bibliography: _Part, names: Names) -> list[Entry]:
    counts: Counter[str] = Counter()
    matches: dict[str, int] = {}
    for _, _, attributes in mentions:
        if (target := _label(attributes.get("ref_id"))) is not None:
            counts[target] += 1
            if target not in matches and (match := _read_match(attributes, bibliography.notes)) is not None:
                matches[target] = match
    text, titles = bibliography.text, bibliography.spans(names.entry_title)
    title_starts = [start for start, _, _ in titles]
    entries: list[Entry] = []
    for start, end, attributes in bibliography.spans(names.entry):
        label = _label(attributes.get("id"))
        match = _read_match(attributes, bibliography.notes)
        if match is None and label is not None:
            match = matches.get(label)
        place = bisect_left(title_starts, start)
        inside = place < len(titles) and titles[place][1] <= end
        title = text[titles[place][0] : titles[place][1]].strip() if inside else ""
        # An id that several entries share counts its mentions once, for the first of them.
        number = counts.pop(label, 0) if label is not None else 0
        entries.append(Entry(label, text[start:end].strip(), title or None, match, number))
    if counts:
        bibliography.notes["mentions_without_entry"] += sum(counts.values())
    return entries


def _label(value: object) -> str | None:
    """An id or a printed number as a string; a blank one is none."""
    if type(value) is str:
        return value.strip() or None
    return str(value) if type(value) in (int, float) else None


def _read_match(attributes: Record, notes: Counter[str]) -> int | None:
    value = attributes.get("matched_paper_id")
    if value is None:
        return None
    number = read_integer(value)
    if number is None or not 0 <= number <= MAX_ID:
        notes["matches_unreadable"] += 1
        return None
    return number
