"""Full texts: what annotation spans mean, in both versions of the format, and how irregular ones are counted."""

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.demo.papers import PaperGenerator
from tasks.demo.release_records import format_s2orc, format_s2orc_v2
from tasks.release.decode import Record
from tasks.release.s2orc import FullText, decode_s2orc, decode_s2orc_v2

Spans = list[dict[str, Any]]


def span(text: str, part: str, **attributes: Any) -> dict[str, Any]:
    """The span of `part`, which stands once in `text`."""
    start = text.index(part)
    assert text.count(part) == 1
    return {"start": start, "end": start + len(part)} | ({"attributes": attributes} if attributes else {})


def version_1(text: str, **annotations: Spans | str | None) -> tuple[FullText, dict[str, int]]:
    notes: Counter[str] = Counter()
    packed = {k: v if isinstance(v, str | None) else json.dumps(v) for k, v in annotations.items()}
    record = {"corpusid": 1, "content": {"text": text, "annotations": packed}}
    return decode_s2orc(record, notes), dict(notes)


BODY = """Über Alles
Prologue 😀.
1 Intro
First [1] and [2].
Second [1].
2 End
Last.
Refs A. First paper. B. Other work."""


def test_version_1_reads_everything_from_one_text() -> None:
    found, notes = version_1(
        BODY,
        title=[span(BODY, "Über Alles"), span(BODY, "Other work")],
        abstract=[span(BODY, "Prologue 😀.")],
        sectionheader=[span(BODY, "Intro", n="1"), span(BODY, "End")],
        paragraph=[span(BODY, "First [1] and [2]."), span(BODY, "Second [1]."), span(BODY, "Last.")],
        bibentry=[span(BODY, "A. First paper.", id="b0", matched_paper_id=77), span(BODY, "B. Other work.", id="b1")],
        bibtitle=[span(BODY, "First paper"), span(BODY, "Other work")],
        bibref=[
            span(BODY, "[2]", ref_id="b1", matched_paper_id="88"),
            {"start": BODY.index("[1]"), "end": BODY.index("[1]") + 3, "attributes": {"ref_id": "b0"}},
            {"start": BODY.rindex("[1]"), "end": BODY.rindex("[1]") + 3, "attributes": {"ref_id": "b0"}},
        ],
    )
    assert found == FullText(
        1,
        "Über Alles",
        "Prologue 😀.",
        [("1", "Intro"), (None, "End")],
        [(0, "First [1] and [2]."), (0, "Second [1]."), (1, "Last.")],
        [("b0", "A. First paper.", "First paper", 77, 2), ("b1", "B. Other work.", "Other work", 88, 1)],
    )
    assert notes == {}


def test_version_2_keeps_body_and_bibliography_apart() -> None:
    body, bibliography = "Lead.\nHead\nText [1].", "One. Two."
    record = {
        "corpusid": "5",
        "title": "Given",
        "body": {
            "text": body,
            "annotations": {
                "paragraph": json.dumps([span(body, "Text [1]."), span(body, "Lead.")]),
                "section_header": json.dumps([span(body, "Head", n=2)]),
                "bib_ref": json.dumps([span(body, "[1]", ref_id=0)]),
                "sentence": "never read {",
            },
        },
        "bibliography": {
            "text": bibliography,
            "annotations": {
                "bib_entry": json.dumps([span(bibliography, "Two.", id=1), span(bibliography, "One.", id=0)]),
                "bib_title": None,
            },
        },
    }
    notes: Counter[str] = Counter()
    found = decode_s2orc_v2(record, notes)
    assert found == FullText(
        5,
        "Given",
        None,
        [("2", "Head")],
        [(-1, "Lead."), (0, "Text [1].")],
        [("0", "One.", None, None, 1), ("1", "Two.", None, None, 0)],
    )
    assert notes == {}


@pytest.mark.parametrize("full_text", [decode_s2orc, decode_s2orc_v2])
def test_a_paper_without_any_text_stays(full_text: Any) -> None:
    notes: Counter[str] = Counter()
    record = {"corpusid": 1, "content": None, "body": {"text": None, "annotations": None}}
    assert full_text(record, notes) == FullText(1, None, None, [], [], [])
    assert notes == {"papers_without_paragraph": 1}


@pytest.mark.parametrize(
    ("bad", "note"),
    [
        ({"start": 3, "end": 99}, "spans_out_of_range"),
        ({"start": -1, "end": 2}, "spans_out_of_range"),
        ({"start": 3, "end": 2}, "spans_out_of_range"),
        ({"start": 3, "end": 3}, "spans_empty"),
        ({"start": None, "end": 3}, "spans_unreadable"),
        ({"start": 1.5, "end": 3}, "spans_unreadable"),
        ({"end": 3}, "spans_unreadable"),
        (7, "spans_unreadable"),
        (None, "spans_unreadable"),
    ],
)
def test_a_bad_span_is_left_out_and_counted(bad: Any, note: str) -> None:
    found, notes = version_1("One.Two.", paragraph=[{"start": "0", "end": "4"}, bad, {"start": 4, "end": 8}])
    assert [text for _, text in found.paragraphs] == ["One.", "Two."]
    assert notes == {note: 1}


@pytest.mark.parametrize("value", ["{not json", '{"start": 1}', "5", '"x"'])
def test_an_unreadable_annotation_is_counted(value: str) -> None:
    found, notes = version_1("One.Two.", paragraph=[{"start": 0, "end": 4}], sectionheader=value)
    assert (found.sections, len(found.paragraphs)) == ([], 1)
    assert notes == {"annotations_unreadable": 1}


@pytest.mark.parametrize("attributes", [None, "x", [], {"id": None}, {"id": [], "matched_paper_id": None}])
def test_an_entry_needs_no_attributes(attributes: Any) -> None:
    found, notes = version_1(
        "P.E.", paragraph=[{"start": 0, "end": 2}], bibentry=[{"start": 2, "end": 4, "attributes": attributes}]
    )
    assert found.entries == [(None, "E.", None, None, 0)]
    assert notes == {}


def test_matches_and_mentions_that_fit_nothing_are_counted() -> None:
    found, notes = version_1(
        "P.E.F.",
        paragraph=[{"start": 0, "end": 2}],
        bibentry=[
            {"start": 2, "end": 4, "attributes": {"id": "b0", "matched_paper_id": "x"}},
            {"start": 4, "end": 6, "attributes": {"id": "b0", "matched_paper_id": -1}},
        ],
        bibref=[
            {"start": 0, "end": 1},
            {"start": 0, "end": 1, "attributes": {"ref_id": "b0"}},
            {"start": 0, "end": 1, "attributes": {"ref_id": "b9", "matched_paper_id": 5}},
        ],
    )
    assert found.entries == [("b0", "E.", None, None, 1), ("b0", "F.", None, None, 0)]
    assert notes == {"matches_unreadable": 2, "mentions_without_entry": 1}


@pytest.mark.parametrize(
    ("record", "field"),
    [
        ({"content": []}, "content"),
        ({"content": {"text": 5}}, "text"),
        ({"content": {"annotations": "x"}}, "annotations"),
    ],
)
def test_a_mistyped_field_is_counted_and_the_paper_stays(record: Record, field: str) -> None:
    notes: Counter[str] = Counter()
    assert decode_s2orc({"corpusid": 1} | record, notes) == (1, None, None, [], [], [])
    assert notes == {f"mistyped:{field}": 1, "papers_without_paragraph": 1}


@given(
    text=st.text(alphabet="ab é測😀\n", max_size=60),
    pairs=st.lists(st.tuples(st.integers(-5, 70), st.integers(-5, 70)), max_size=20),
    quoted=st.booleans(),
)
def test_every_span_is_kept_or_counted(text: str, pairs: list[tuple[int, int]], quoted: bool) -> None:
    spans: Spans = [{"start": str(a) if quoted else a, "end": str(b) if quoted else b} for a, b in pairs]
    found, notes = version_1(text, paragraph=spans)
    usable = sorted((a, b) for a, b in pairs if 0 <= a < b <= len(text))
    assert sorted(content for _, content in found.paragraphs) == sorted(
        t for a, b in usable if (t := text[a:b].strip())
    )
    assert sum(n for note, n in notes.items() if note.startswith("spans_")) == len(pairs) - len(usable)


@pytest.mark.parametrize("number", [11, 22, 77, 91, 119, 133, 407])
def test_both_versions_say_the_same_of_a_synthetic_paper(number: int) -> None:
    """Numbers with numeric strings, unsorted, empty and out-of-range spans and integer ids among them."""
    paper = PaperGenerator(seed=1, full_text_share=1, paragraphs=2).paper(number)
    notes: tuple[Counter[str], Counter[str]] = Counter(), Counter()
    first, second = decode_s2orc(format_s2orc(paper), notes[0]), decode_s2orc_v2(format_s2orc_v2(paper), notes[1])
    assert first._replace(abstract=None) == second
    assert notes[0] == notes[1]
    assert first.abstract == paper.abstract
    assert [heading for _, heading in first.sections] == [heading for heading, _ in paper.sections]
    assert [mentions for *_, mentions in first.entries] == [reference.mentions for reference in paper.references]
    assert [match for *_, match, _ in first.entries] == [
        None if reference.match == "none" else reference.head.corpus_id for reference in paper.references
    ]
    assert len(first.paragraphs) == sum(len(paragraphs) for _, paragraphs in paper.sections)


def test_official_samples_decode_as_a_plain_reading_says(shared: Path) -> None:
    lines = gzip.decompress((shared / "data/s2ag_official_samples/s2orc.gz").read_bytes()).splitlines()
    assert len(lines) == 3
    for line in lines:
        record = json.loads(line)
        text, raw = record["content"]["text"], record["content"]["annotations"]
        spans = {name: json.loads(value or "[]") for name, value in raw.items()}
        cut = {name: [text[int(s["start"]) : int(s["end"])].strip() for s in found] for name, found in spans.items()}
        notes: Counter[str] = Counter()
        found = decode_s2orc(record, notes)
        assert (found.title, found.abstract) == (cut["title"][0], "\n".join(cut["abstract"]) or None)
        assert [heading for _, heading in found.sections] == cut["sectionheader"]
        assert [content for _, content in found.paragraphs] == cut["paragraph"]
        assert [entry for _, entry, *_ in found.entries] == cut["bibentry"]
        assert [match for *_, match, _ in found.entries] == [
            s["attributes"].get("matched_paper_id") for s in spans["bibentry"]
        ]
        targets = Counter(s.get("attributes", {}).get("ref_id") for s in spans["bibref"])
        assert {label: n for label, *_, n in found.entries} == {
            e["attributes"]["id"]: targets[e["attributes"]["id"]] for e in spans["bibentry"]
        }
        assert all(title in entry for _, entry, title, *_ in found.entries if title)
        assert sum(title is not None for _, _, title, *_ in found.entries) == len(cut["bibtitle"])
