"""What commands print about files that others wrote badly: one bounded line that names the file and what to do."""

import json
from pathlib import Path

import pytest

from schemas.messages import LONGEST
from tests.flows.conftest import Arena

LONG = 200_000
SECRET = "https://me:pw@host/file?X-Amz-Signature=0123456789abcdef"

DAMAGES = {
    "folder": None,
    "empty": b"",
    "binary": bytes(range(256)) * 20,
    "cut": b'{"uuid": "',
    "list": b"[]",
    "null": b"null",
    "text": b'"text"',
    "number": b"1e999",
    "deep": b"[" * 20_000,
    "deep member": b'{"tree": ' + b'{"a": ' * 20_000,
    "surrogate": b'{"uuid": "\\ud800", "answer": 1, "tree": {"label": "\\ud800"}}',
    "long": json.dumps({"uuid": "x" * LONG, "question": ["y" * LONG], "tags": {"z": SECRET}}).encode(),
    "long key": json.dumps({"x" * LONG: {"search_query": {"settings": SECRET}}}).encode(),
    "long line": b"x " * (LONG // 2),
    "secret": json.dumps({SECRET: [SECRET]}).encode() + b"\n{",
    "escape": b"\x1b[2J\x1b]0;title\x07,\xff\xfe",
}
"""Contents of a file that no command can use."""

VERBS = {
    "qrels": ("score", "ranking", "FILE", "good-run"),
    "run": ("score", "ranking", "good-qrels", "FILE"),
    "gold tree": ("score", "tree", "--gold", "FILE", "--pred", "FILE"),
    "headings": ("score", "headings", "--gold", "good-tree", "--pred", "FILE"),
    "questions": ("airqa", "score", "FILE", "FILE"),
    "metadata": ("airqa", "synthesize", "folder", "made"),
    "labels": ("corpus", "score-selector", "FILE"),
    "queries": ("judge", "FILE", "--list"),
    "sheet": ("audit", "score", "FILE"),
    "edition": ("status",),
    "recipe": ("status",),
    "model settings": ("llm", "seal"),
}
"""Commands that read a file of somebody else (`FILE`, or the one that `_place` writes)."""

USABLE = {
    "gold tree": ("long", "long key"),  # keys of an object are headings
    "headings": ("long", "long key"),
    "edition": ("folder",),  # no edition has that name
    "recipe": ("folder",),
}


def _place(folder: Path, verb: str) -> Path:
    """Returns where the damaged file of a command lies."""
    places = {
        "metadata": "folder/x.json",
        "edition": "store/editions/e.json",
        "recipe": "store/recipes/2026-01-06.json",
    }
    path = folder / places.get(verb, "damaged.json")
    path.parent.mkdir(exist_ok=True)
    return path


def _damage(path: Path, content: bytes | None) -> None:
    if path.is_dir():
        path.rmdir()
    for each in (path, path.with_suffix(".copy")):
        each.unlink(missing_ok=True)
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)


@pytest.mark.parametrize("verb", VERBS)
def test_a_damaged_file_is_one_bounded_line_with_file_and_remedy(
    arena: Arena, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    path = _place(arena.folder, verb)
    if verb == "model settings":
        monkeypatch.setenv("ARENA_LLM_SETTINGS", str(path))
        monkeypatch.setenv("ARENA_LLM_BASE_URL", "http://127.0.0.1:9")
    (arena.folder / "good-run").write_text("t1 Q0 a 1 2.0 x\n")
    (arena.folder / "good-qrels").write_text("t1 0 a 1\n")
    (arena.folder / "good-tree").write_text('{"label": "a", "children": [{"label": "b"}]}')
    monkeypatch.chdir(arena.folder)
    found: dict[str, str] = {}
    for damage, content in DAMAGES.items():
        if damage in USABLE.get(verb, ()):
            continue
        _damage(path, content)
        code, out, err = arena(*(path if token == "FILE" else token for token in VERBS[verb]))
        kept = {
            "exit code": code in (1, 2),
            "one line": err.count("\n") == 1 and err.rstrip("\n").isprintable(),
            "bounded": len(err) <= LONGEST + len("arena: \n"),
            "file": path.name in err,
            "remedy": "; " in err,
            "no raw error": "--debug" not in err,
            "no secret": "pw@" not in out + err and "Signature" not in out + err,
        }
        if broken := [rule for rule, keeps in kept.items() if not keeps]:
            found[damage] = f"{broken} {code} {err[:300]} {out[:200]}"
    assert not found, "\n".join(f"{damage}: {what}" for damage, what in found.items())
