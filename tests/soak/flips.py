"""One bit flipped in a stored file: what uses it refuses or is unharmed, and a rerun of what is damaged restores it."""

import random
from pathlib import Path

from tests.soak.commands import Finished, run_arena
from tests.soak.ledger import Outcome, Verdict
from tests.soak.world import CHAPTERS, CORPUS, OLD, World

USES = (
    ("edition", "verify", "{edition}"),
    ("run", "discovery", "--edition", OLD, "--baselines", "title", "--retrievers", "bm25", "--force", "run", "scores"),
    (*CORPUS, "--force", "topics", "documents"),
    ("edition", "publish", "{edition}"),
    ("search", "graph learning", "--edition", OLD),
)
HEAL = ("rerun", "--damaged", "--edition", "{edition}")
CHECK = ("edition", "verify", "{edition}")


def flip_a_bit(world: World, chance: random.Random, folder: Path) -> Outcome:
    """Flips a bit of a stored file; uses it, heals what is damaged, and compares with the undisturbed digests."""
    last = len(CHAPTERS)
    root = world.copy(last, folder)
    kinds: dict[str, list[Path]] = {}
    for path in sorted(path for path in root.rglob("*") if path.is_file() and not path.is_symlink()):
        relative = path.relative_to(root)
        kind = relative.parts[0] if path.suffix == ".parquet" else f"{relative.parts[0]}/*{path.suffix or path.name}"
        if path.stat().st_size and "draft" not in kind and not kind.endswith(".lock"):
            kinds.setdefault(kind, []).append(path)
    kind = chance.choice(sorted(kinds))
    path = chance.choice(kinds[kind])
    _flip(path, chance)
    use, edition = chance.choice(USES), _edition_of(path, root)

    def run(command: tuple[str, ...]) -> Finished:
        return run_arena([word.replace("{edition}", edition) for word in command], world.environment(root), folder)

    subject = f"{kind} ({' '.join(use[:2])})"
    used = run(use)
    if wrong := _judge(used, world, root, without=edition if edition not in " ".join(use) else ""):
        return Outcome(subject, wrong, f"{path.relative_to(root)}: {used.complaint or used.last_line or 'no word'}")
    if path.name == "format" and used.code:
        path.unlink()  # as the message says
    healed = run(HEAL)
    if healed.code:
        return Outcome(subject, Verdict.LOST, f"{path.relative_to(root)}: {used.last_line}; then: {healed.last_line}")
    if differences := world.differences(last - 1, root):
        return Outcome(subject, Verdict.LOST, f"{path.relative_to(root)}: healed, and {differences}")
    checked = run(CHECK)
    if checked.code:
        return Outcome(subject, Verdict.LOST, f"{path.relative_to(root)}: healed, and then {checked.last_line}")
    return Outcome(subject, Verdict.REFUSED if used.code else Verdict.EQUAL)


def _edition_of(path: Path, root: Path) -> str:
    """Returns the edition that a file belongs to, or the first one."""
    parts = path.relative_to(root).parts
    if len(parts) == 1:
        return OLD
    if parts[0] == "editions":
        return parts[1].split(".")[0]
    names = [
        one.stem for one in sorted((root / "editions").glob("*.json")) if parts[1] in one.read_text("utf-8", "replace")
    ]
    return names[0] if names else OLD


def _judge(used: Finished, world: World, root: Path, without: str) -> Verdict | None:
    """Returns what is wrong with a use of a damaged store: other results in silence, or an error nobody can use.

    The edition `without` was not used: when its file is damaged, nobody could notice yet.
    """
    if used.code == 0:
        return Verdict.DIFFERENT if world.differences(len(CHAPTERS) - 1, root, without) else None
    if used.late or used.left:
        return Verdict.HANGING
    return Verdict.RAW if used.complaint else None


def _flip(path: Path, chance: random.Random) -> None:
    data = bytearray(path.read_bytes())
    place = chance.randrange(len(data) * 8)
    data[place // 8] ^= 1 << place % 8
    path.chmod(0o644)
    path.write_bytes(data)
