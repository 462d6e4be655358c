"""Decodes full texts, `s2orc` (v1) and `s2orc_v2`: annotation spans become sections, paragraphs and a bibliography.

Every annotation is a string with a JSON list of `{start, end, attributes?}`: character offsets into the text beside it.
A span that is empty, out of range or unreadable is left out and counted in `notes`; the paper stays.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Mapping
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec
import orjson
from msgspec import Struct

from tasks.release.decode import MAX_ID, Record, leniently, read_id, read_integer, read_object, read_text
from tasks.release.lines import PARSE_LIMIT

Span = tuple[int, int, "Attributes"]
"""Start, end, attributes."""

Entries = list[tuple[str | None, str, str | None, int | None, int]]
"""Columns of the table `bibliography` from `entry_id` on."""


class FullText(NamedTuple):
    """One paper's body and bibliography, in reading order.

    Attributes:
        sections: (printed number or None, heading).
        paragraphs: (index of the heading before it, -1 before the first; text).
    """

    corpus_id: int
    title: str | None
    abstract: str | None
    sections: list[tuple[str | None, str]]
    paragraphs: list[tuple[int, str]]
    entries: Entries


class Names(NamedTuple):
    """Names of the annotations in one version of the format."""

    header: str
    entry: str
    entry_title: str
    mention: str


V1 = Names("sectionheader", "bibentry", "bibtitle", "bibref")
V2 = Names("section_header", "bib_entry", "bib_title", "bib_ref")


class Attributes(Struct, gc=False):
    """What we read of an annotation's attributes; None: absent."""

    id: str | int | float | None = None
    ref_id: str | int | float | None = None
    n: str | int | float | None = None
    matched_paper_id: int | str | None = None


class _Span(Struct, gc=False):
    start: int
    end: int
    attributes: Attributes | None = None


_SPANS = msgspec.json.Decoder(list[_Span])
_PLAIN = Attributes()


class Part(NamedTuple):
    """A text with its annotations by name; `notes` counts what is left out."""

    text: str
    annotations: Mapping[str, Any]
    notes: Counter[str]

    def spans(self, name: str) -> list[Span]:
        """Returns the usable spans of one annotation, ascending by start."""
        value, length = self.annotations.get(name), len(self.text)
        if value is None:
            return []
        try:
            items = _SPANS.decode(value)
        except (msgspec.MsgspecError, UnicodeEncodeError, TypeError):
            spans = self._read_spans(value)
        else:
            spans = [
                (item.start, item.end, item.attributes or _PLAIN)
                for item in items
                if 0 <= item.start < item.end <= length
            ]
            if len(spans) < len(items):
                spans = [
                    span for item in items if (span := self._check(item.start, item.end, item.attributes or _PLAIN))
                ]
        spans.sort(key=itemgetter(0))
        return spans

    def _read_spans(self, value: Any) -> list[Span]:
        """Reads a list of spans some of which are malformed."""
        spans: list[Span] = []
        for item in self._load(value):
            fields = item if type(item) is dict else {}
            start, end = read_integer(fields.get("start")), read_integer(fields.get("end"))
            if start is None or end is None:
                self.notes["spans_unreadable"] += 1
                continue
            told = attributes if type(attributes := fields.get("attributes")) is dict else {}
            chosen = Attributes(told.get("id"), told.get("ref_id"), told.get("n"), told.get("matched_paper_id"))
            if span := self._check(start, end, chosen):
                spans.append(span)
        return spans

    def _check(self, start: int, end: int, attributes: Attributes) -> Span | None:
        """Returns a span; None, and counts it, when it is empty or out of range."""
        if 0 <= start < end <= len(self.text):
            return start, end, attributes
        self.notes["spans_empty" if 0 <= start == end <= len(self.text) else "spans_out_of_range"] += 1
        return None

    def _load(self, value: Any) -> list[Any]:
        if type(value) is str and len(value) <= PARSE_LIMIT:
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
        """Returns the texts of one annotation's spans without blank ones."""
        found = [self.text[start:end].strip() for start, end, _ in self.spans(name)]
        return [text for text in found if text]


def decode_s2orc(record: Record, notes: Counter[str]) -> FullText:
    """Decodes a record of `s2orc`, whose single text holds title, abstract, body and bibliography.

    Args:
        record: The JSON object.
        notes: Receives the counts of what was left out.

    Raises:
        BadInput: As `read_id` says.
    """
    return assemble_s2orc(read_id(record, "corpusid"), _read_part(record, "content", notes))


def assemble_s2orc(corpus_id: int, part: Part) -> FullText:
    """Returns the full text of an `s2orc` record's content."""
    title = next(iter(part.texts("title")), None)
    return _assemble(FullText(corpus_id, title, _read_abstract(part), [], [], []), part, part, V1)


def decode_s2orc_v2(record: Record, notes: Counter[str]) -> FullText:
    """Decodes a record of `s2orc_v2`, whose body and bibliography are two texts; arguments as `decode_s2orc`."""
    corpus_id = read_id(record, "corpusid")
    title = leniently(read_text, record, "title", notes)
    parts = (_read_part(record, name, notes) for name in ("body", "bibliography"))
    return assemble_s2orc_v2(corpus_id, title, *parts)


def assemble_s2orc_v2(corpus_id: int, title: str | None, body: Part, bibliography: Part) -> FullText:
    """Returns the full text of an `s2orc_v2` record's title, body and bibliography."""
    return _assemble(FullText(corpus_id, title, _read_abstract(body), [], [], []), body, bibliography, V2)


def _read_part(record: Record, field: str, notes: Counter[str]) -> Part:
    content = leniently(read_object, record, field, notes) or {}
    text = leniently(read_text, content, "text", notes) or ""
    return Part(text, leniently(read_object, content, "annotations", notes) or {}, notes)


def _read_abstract(part: Part) -> str | None:
    return "\n".join(part.texts("abstract")) or None


def _assemble(head: FullText, body: Part, bibliography: Part, names: Names) -> FullText:
    text = body.text
    headers = [
        (start, _read_label(attributes.n), heading)
        for start, end, attributes in body.spans(names.header)
        if (heading := text[start:end].strip())
    ]
    starts = [start for start, _, _ in headers]
    paragraphs = [
        (bisect_right(starts, start) - 1, content)
        for start, end, _ in body.spans("paragraph")
        if (content := text[start:end].strip())
    ]
    if not paragraphs:
        body.notes["papers_without_paragraph"] += 1
    return head._replace(
        sections=[(number, heading) for _, number, heading in headers],
        paragraphs=paragraphs,
        entries=_read_entries(body.spans(names.mention), bibliography, names),
    )


def _read_entries(mentions: list[Span], bibliography: Part, names: Names) -> Entries:
    notes, text = bibliography.notes, bibliography.text
    counts = Counter([label if type(label := told.ref_id) is str else _read_label(label) for _, _, told in mentions])
    del counts[None]
    matches = _read_mention_matches(mentions, notes)
    titles = bibliography.spans(names.entry_title)
    title_starts = [start for start, _, _ in titles]
    entries: Entries = []
    for start, end, attributes in bibliography.spans(names.entry):
        label = attributes.id if type(attributes.id) is str else _read_label(attributes.id)
        match = attributes.matched_paper_id
        if match is not None:
            match = _read_match(match, notes)
        place = bisect_left(title_starts, start)
        title = None
        if place < len(titles) and titles[place][1] <= end:
            title = text[titles[place][0] : titles[place][1]].strip() or None
        # An id that several entries share counts its mentions once, for the first of them.
        number = counts.pop(label, 0)
        entries.append((label, text[start:end].strip(), title, matches.get(label) if match is None else match, number))
    if counts:
        notes["mentions_without_entry"] += counts.total()
    return entries


def _read_mention_matches(mentions: list[Span], notes: Counter[str]) -> dict[str | None, int]:
    """Returns the paper that each entry's mentions are matched to: the first match in reading order."""
    matches: dict[str | None, int] = {}
    for _, _, attributes in mentions:
        if attributes.matched_paper_id is not None:
            match, label = _read_match(attributes.matched_paper_id, notes), _read_label(attributes.ref_id)
            if match is not None and label is not None:
                matches.setdefault(label, match)
    return matches


def _read_label(value: object) -> str | None:
    """Returns an id or a printed number as a string."""
    if type(value) is str:
        return value
    return str(value) if type(value) in (int, float) else None


def _read_match(value: object, notes: Counter[str]) -> int | None:
    if value is None:
        return None
    number = read_integer(value)
    if number is None or not 0 <= number <= MAX_ID:
        notes["matches_unreadable"] += 1
        return None
    return number
