"""Damaged releases and diffs, drawn by hypothesis from the records' own fields: nothing is skipped without a count."""

import json
import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from isal import igzip

from tests.soak.commands import run_arena
from tests.soak.ledger import Outcome, Verdict
from tests.soak.world import CHAPTERS, NEW, OLD, World

DATASETS = {"papers": "corpusid", "abstracts": "corpusid", "citations": "citationid"}
"""Datasets that are damaged, with the field that identifies a record."""

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=6,
)
_WRONG = st.one_of(
    _JSON,
    st.integers(min_value=2**53, max_value=2**70),
    st.just([[[[]]]] * 3),
    st.text(alphabet="\x00\ud800\u202e\ufeff[]{}\"'=\\", min_size=1).map(
        lambda text: text.encode("utf-8", "replace").decode()
    ),
)


def damage_a_release(world: World, chance: random.Random, folder: Path) -> Outcome:
    """Damages lines or a file of a release or of a diff, builds from it, and counts what became of every line."""
    releases = shutil.copytree(world.releases, folder / "releases")
    diff = chance.random() < 0.3
    dataset = chance.choice(sorted(DATASETS))
    if diff:
        dataset = "papers"
        path = releases / "diffs" / f"{OLD}_{NEW}" / dataset / "updates" / "part"
    else:
        path = chance.choice(sorted((releases / OLD / dataset).glob("*.gz")))
    action = chance.choice([*_LINES, *_FILES])
    subject = f"{'diff' if diff else 'release'}: {action}"
    before = _read(path)
    touched = _LINES[action](path, before, dataset, chance) if action in _LINES else _FILES[action](path, chance)
    root = world.copy(1, folder) if diff else folder / "store"
    way = ("--from-edition", OLD, "--release", NEW) if diff else ("--release", OLD)
    command = ("build", *way, "--buckets", "2", "--workers", "1", "--until", "papers")
    environment = world.environment(root) | {"ARENA_RELEASES": str(releases)}
    built = run_arena(command, environment, folder)
    if built.late or built.left:
        return Outcome(subject, Verdict.HANGING, built.complaint or "")
    if built.code:
        return Outcome(subject, Verdict.RAW if built.complaint else Verdict.REFUSED, built.complaint or "")
    edition = NEW if diff else OLD
    undisturbed = _stored(world.snapshot(len(CHAPTERS) if diff else 1), edition, dataset)
    missing = (undisturbed & {_key(line, dataset) for line in _without(before, touched)}) - _stored(
        root, edition, dataset
    )
    if missing:
        detail = f"{dataset}: {len(missing)} untouched records are not there: {sorted(missing)[:5]}"
        return Outcome(subject, Verdict.DIFFERENT, detail)
    counts = _counts(root, edition, dataset)
    if not diff and counts["read"] != counts["kept"] + sum(counts["dropped"].values()):
        return Outcome(subject, Verdict.DIFFERENT, f"{dataset}: not every line is counted: {counts}")
    return Outcome(subject, Verdict.ACCOUNTED)


Lines = list[bytes]


def _draw(strategy: st.SearchStrategy[Any], number: int) -> Any:
    """Returns a value that hypothesis draws for a number; equal numbers give equal values."""
    drawn: list[Any] = []

    @seed(number)
    @settings(
        max_examples=12,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )
    @given(strategy)
    def draw(value: Any) -> None:
        drawn.append(value)

    draw()
    return drawn[-1]


def _change(
    make: Callable[[bytes, str, random.Random], bytes],
) -> Callable[[Path, Lines, str, random.Random], set[int]]:
    """Returns an action that rewrites up to five lines; it returns their places."""

    def act(path: Path, lines: Lines, dataset: str, chance: random.Random) -> set[int]:
        places = set(chance.sample(range(len(lines)), min(len(lines), chance.randint(1, 5))))
        _write(path, [make(line, dataset, chance) if place in places else line for place, line in enumerate(lines)])
        return places

    return act


def _replace_field(line: bytes, dataset: str, chance: random.Random) -> bytes:
    record = _record(line)
    if record:
        record[chance.choice(sorted(record))] = _draw(_WRONG, chance.randrange(2**32))
    return json.dumps(record).encode()


def _remove_field(line: bytes, dataset: str, chance: random.Random) -> bytes:
    record = _record(line)
    if record:
        del record[chance.choice(sorted(record))]
    return json.dumps(record).encode()


def _record(line: bytes) -> dict[str, Any]:
    """Returns a line's record; the synthetic release has some lines without one."""
    try:
        found = orjson.loads(line)
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def _any_bytes(line: bytes, dataset: str, chance: random.Random) -> bytes:
    return chance.randbytes(chance.randint(1, 200)).replace(b"\n", b"")


def _deep(line: bytes, dataset: str, chance: random.Random) -> bytes:
    return b'{"corpusid": 5, "title": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"


_LINES: dict[str, Callable[[Path, Lines, str, random.Random], set[int]]] = {
    "another value": _change(_replace_field),
    "another value ": _change(_replace_field),
    "field removed": _change(_remove_field),
    "any JSON": _change(lambda line, _, chance: json.dumps(_draw(_JSON, chance.randrange(2**32))).encode()),
    "any bytes": _change(_any_bytes),
    "line cut": _change(lambda line, _, chance: line[: chance.randrange(len(line))]),
    "nested deep": _change(_deep),
    "empty line": _change(lambda *_: b""),
    "byte order mark": _change(lambda line, *_: b"\xef\xbb\xbf" + line),
    "carriage return": _change(lambda line, *_: line + b"\r"),
    "not a number": _change(lambda line, *_: line[:-1] + b', "year": NaN}'),
}


def _damage(make: Callable[[bytes, random.Random], bytes]) -> Callable[[Path, random.Random], None]:
    def act(path: Path, chance: random.Random) -> None:
        path.write_bytes(make(path.read_bytes(), chance))

    return act


def _flip_byte(data: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(len(data))
    return data[:place] + bytes([data[place] ^ (1 << chance.randrange(8))]) + data[place + 1 :]


def _become_folder(path: Path, chance: random.Random) -> None:
    path.rename(path.with_name("was"))
    path.mkdir()
    path.with_name("was").rename(path / path.name)


def _dangle(path: Path, chance: random.Random) -> None:
    path.unlink()
    path.symlink_to("/nowhere/at/all")


def _hide(path: Path, chance: random.Random) -> None:
    (path.parent / "more").mkdir()
    path.rename(path.parent / "more" / path.name)


_FILES: dict[str, Callable[[Path, random.Random], None]] = {
    "file cut": _damage(lambda data, chance: data[: chance.randrange(len(data))]),
    "file's byte flipped": _damage(_flip_byte),
    "file empty": _damage(lambda *_: b""),
    "garbage behind": _damage(lambda data, chance: data + chance.randbytes(100)),
    "not packed": _damage(lambda data, chance: chance.randbytes(len(data))),
    "dangling link": _dangle,
    "folder in its place": _become_folder,
    "in a subfolder": _hide,
}


def _read(path: Path) -> Lines:
    data = path.read_bytes()
    return (igzip.decompress(data) if path.suffix == ".gz" else data).splitlines()


def _write(path: Path, lines: Sequence[bytes]) -> None:
    data = b"".join(line + b"\n" for line in lines)
    path.write_bytes(igzip.compress(data) if path.suffix == ".gz" else data)


def _without(lines: Lines, touched: set[int] | None) -> Lines:
    """Returns the lines that nothing was done to; of a file that was damaged as a whole, all must be there."""
    return [line for place, line in enumerate(lines) if place not in (touched or set())]


def _key(line: bytes, dataset: str) -> int:
    """Returns the id of a record; 0: it has none."""
    key = _record(line).get(DATASETS[dataset])
    return key if isinstance(key, int) else 0


_RECORDS = {"papers": "paper_records", "abstracts": "abstract_records", "citations": "citation_records"}


def _stored(root: Path, edition: str, dataset: str) -> set[int]:
    """Returns the ids of the records that an edition holds."""
    column = {"papers": "corpus_id", "abstracts": "corpus_id", "citations": "citation_id"}[dataset]
    found = _folder(root, edition, dataset).glob("*.parquet")
    files = [path for path in found if not path.name.startswith("quarantine")]
    return {value for path in files for value in pq.read_table(path, columns=[column])[column].to_pylist()}


def _counts(root: Path, edition: str, dataset: str) -> dict[str, Any]:
    """Returns what the stage counted that read the records."""
    return json.loads((_folder(root, edition, dataset) / "manifest.json").read_text())["counts"]


def _folder(root: Path, edition: str, dataset: str) -> Path:
    ref = json.loads((root / "editions" / f"{edition}.json").read_text())["slots"][_RECORDS[dataset]]
    return root / ref["stage"] / ref["key"]
