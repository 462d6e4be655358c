"""Files become tables; what does not fit its paper is left out with its reason."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.errors import BadInput
from tasks.paperqa.chunks import split_text
from tasks.paperqa.files import open_folder, open_questions
from tasks.paperqa.pdf import extract_folder, extract_pdf
from tasks.paperqa.store import QuestionSettings, StoreSettings, paperqa_questions, paperqa_store
from tasks.store.store import Request, Store
from tests.paperqa.conftest import minimal_pdf, paper, write_records

FIRST, SECOND, THIRD = paper("First"), paper("Second", "iclr", 2024), paper("Third", num_pages=2)
ITEMS = {
    "tables": [{"table_caption": "T", "table_html": "<table></table>", "table_bbox": [0, 0, 1, 1], "page_number": 2}],
    "figures": [{"figure_caption": "F", "figure_bbox": [0, 0, 1, 1], "page_number": 1, "figure_path": "f.png"}],
    "equations": [{"equation_text": "$$ x $$", "page_number": 1}],
    "references": [{"reference_text": "R"}],
    "TOC": [{"title": "S", "text": "said", "level": 2, "page_number": 1, "page_numbers": [1, 2]}],
}


def build(folder: Path, records: list, processed: dict[str, object]):
    metadata = write_records(folder / "metadata", records)
    (folder / "processed").mkdir()
    for name, found in processed.items():
        (folder / "processed" / f"{name}.json").write_text(found if isinstance(found, str) else json.dumps(found))
    store = Store(folder / "root")
    inputs = {
        "metadata": open_folder("airqa_metadata", metadata),
        "processed": open_folder("airqa_processed", folder / "processed"),
    }
    return store.open(store.build(Request(paperqa_store, StoreSettings(), inputs)).ref)


def test_both_nestings_give_the_same_rows(tmp_path: Path):
    nested = {"pdf_path": f"x/{SECOND['uuid']}.pdf", "info_from_mineru": ITEMS}
    found = build(tmp_path, [FIRST, SECOND], {FIRST["uuid"]: ITEMS, SECOND["uuid"]: nested})
    assert found.table()["extraction"].to_pylist() == ["published", "published"]
    assert found.table()["conference"].to_pylist() == ["acl2023", "iclr2024"]
    for name in ("sections", "tables", "figures", "equations", "references"):
        rows = found.table(name).to_pylist()
        one, two = ({k: v for k, v in row.items() if k != "paper_id"} for row in rows)
        assert one == two
        assert {row["paper_id"] for row in rows} == {FIRST["uuid"], SECOND["uuid"]}
    assert found.table("tables")["bbox"].to_pylist()[0] == [0, 0, 1, 1]


def test_processed_data_that_does_not_fit_is_left_out_with_its_reason(tmp_path: Path):
    other = {"pdf_path": f"x/{FIRST['uuid']}.pdf", "info_from_mineru": ITEMS}
    longer = {"TOC": [{"title": "S", "text": "t", "page_number": 3}]}
    stranger = paper("Stranger")["uuid"]
    found = build(
        tmp_path,
        [FIRST, SECOND, THIRD],
        {FIRST["uuid"]: "{]", SECOND["uuid"]: other, THIRD["uuid"]: longer, stranger: ITEMS},
    )
    (tmp_path / "metadata" / "broken.json").write_text("{}")
    reasons = {row["file"]: row["reason"] for row in found.table("problems").to_pylist()}
    assert reasons == {
        f"{FIRST['uuid']}.json": "bad_processed",
        f"{SECOND['uuid']}.json": "other_paper",
        f"{THIRD['uuid']}.json": "more_pages",
        f"{stranger}.json": "no_metadata",
    }
    assert found.table()["extraction"].to_pylist() == [None, None, None]
    assert found.table("sections").num_rows == 0
    assert found.manifest.counts.dropped == dict.fromkeys(reasons.values(), 1)


def test_null_and_missing_lists_read_as_empty(tmp_path: Path):
    empty = {"TOC": None, "tables": [{"table_caption": None, "page_number": None}]}
    found = build(tmp_path, [FIRST], {FIRST["uuid"]: empty})
    assert found.table("tables").to_pylist()[0]["caption"] == ""
    assert found.table("problems").num_rows == 0


def test_an_empty_folder_is_told(tmp_path: Path):
    with pytest.raises(BadInput, match="no folder with json files"):
        open_folder("airqa_metadata", tmp_path)


def test_the_table_that_systems_read_has_nothing_hidden(tmp_path: Path):
    hidden = ("SECRET-REFERENCE", "secret step")
    reference = paper("Hidden evidence")["uuid"]
    line = {
        "uuid": "0" * 8 + "-0000-5000-8000-" + "0" * 12,
        "question": "What\x08 is it?",
        "answer_format": "",
        "tags": ["single", "text", "objective"],
        "anchor_pdf": [],
        "reference_pdf": [reference],
        "conference": [],
        "evaluator": {"eval_func": "eval_string_exact_match", "eval_kwargs": {"gold": hidden[0]}},
        "reasoning_steps": [hidden[1]],
        "state": {"gpt": True},
        "annotator": "human",
    }
    (tmp_path / "q.jsonl").write_text(json.dumps(line))
    store = Store(tmp_path / "root")
    request = Request(paperqa_questions, QuestionSettings(), {"questions": open_questions(tmp_path / "q.jsonl")})
    found = store.open(store.build(request).ref)
    visible = json.dumps(found.table().to_pylist())
    assert not [secret for secret in (*hidden, reference, "human", "objective") if secret in visible]
    assert set(found.table().column_names) == {"uuid", "question", "answer_format", "anchor_pdf", "conference"}
    assert reference in found.table("annotations")["reference_pdf"].to_pylist()[0]


@given(st.text(alphabet=st.sampled_from("ab. \n"), max_size=400), st.integers(8, 60))
@settings(max_examples=50)
def test_passages_hold_every_word_in_order_and_none_is_too_long(text: str, most: int):
    pieces = list(split_text(text, most))
    assert "".join("".join(piece.split()) for piece in pieces) == "".join(text.split())
    assert all(0 < len(piece) <= most for piece in pieces)


def test_processed_data_from_pdfs_says_so_and_bad_pdfs_are_told(tmp_path: Path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "good.pdf").write_bytes(minimal_pdf("A sparrow sings"))
    (tmp_path / "in" / "bad.pdf").write_bytes(b"%PDF-1.4 nothing")
    found = extract_pdf(tmp_path / "in" / "good.pdf")
    assert found["extraction"] == "pypdfium2"
    assert [(s["title"], s["text"].strip(), s["page_number"]) for s in found["TOC"]] == [
        ("Opening", "A sparrow sings", 1)
    ]
    failed = extract_folder(tmp_path / "in", tmp_path / "out")
    assert list(failed) == ["bad.pdf"]
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["good.json"]
