"""What became of each trial: one JSON line a trial, so that an interrupted soak goes on where it stopped."""

import json
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple


class Verdict(StrEnum):
    """How a trial ended. The first three are what is promised."""

    EQUAL = "equal"
    """The results have the digests of an undisturbed run."""
    REFUSED = "refused"
    """A one-line error with a remedy; after it the undisturbed digests could be reached."""
    ACCOUNTED = "accounted"
    """Of damaged input, each record that was not used is counted, and all others are there."""
    DIFFERENT = "DIFFERENT"
    """The command said that all is well, and its results are others."""
    LOST = "LOST"
    """What the message advises did not lead back to the undisturbed digests."""
    RAW = "RAW"
    """The error is a traceback, more than one line, or names no remedy."""
    HANGING = "HANGING"
    """The command did not end in time, or left processes behind."""
    BROKEN = "BROKEN"
    """The trial itself failed; its detail says how."""


GOOD = (Verdict.EQUAL, Verdict.REFUSED, Verdict.ACCOUNTED)


class Outcome(NamedTuple):
    """The end of a trial: what was disturbed, how it ended, and in a bad case what was seen."""

    subject: str
    verdict: Verdict
    detail: str = ""


class Trial(NamedTuple):
    """A trial that has ended. Equal kinds and numbers with an equal seed are equal trials."""

    kind: str
    number: int
    outcome: Outcome
    seconds: float


class Ledger:
    """The trials of a soak, in a file that several processes append to."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, trial: Trial) -> None:
        """Appends a trial in one write."""
        subject, verdict, detail = trial.outcome
        line = {"kind": trial.kind, "number": trial.number, "subject": subject, "verdict": verdict}
        text = json.dumps(line | {"detail": detail[-2000:], "seconds": round(trial.seconds, 2)})
        with self.path.open("a", encoding="utf-8") as file:
            file.write(text + "\n")

    def trials(self) -> list[Trial]:
        """Returns all trials, without the line that a kill may have cut."""
        found: list[Trial] = []
        if self.path.exists():
            for line in self.path.read_text(encoding="utf-8").splitlines():
                try:
                    told = json.loads(line)
                except json.JSONDecodeError:
                    continue
                outcome = Outcome(told["subject"], Verdict(told["verdict"]), told["detail"])
                found.append(Trial(told["kind"], told["number"], outcome, told["seconds"]))
        return found


def summarise(trials: Sequence[Trial]) -> str:
    """Returns the table of counts by kind as Markdown, with each bad trial below it."""
    kinds = list(dict.fromkeys(trial.kind for trial in trials))
    lines = [
        "| trials | number | undisturbed digests | one-line error with a remedy | accounted for | anything else |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for kind in [*kinds, "all"]:
        counts = Counter(trial.outcome.verdict for trial in trials if kind in (trial.kind, "all"))
        good = [counts[verdict] for verdict in GOOD]
        lines.append(f"| {kind} | " + " | ".join(map(str, [counts.total(), *good, counts.total() - sum(good)])) + " |")
    for kind in kinds:
        subjects = Counter(trial.outcome.subject for trial in trials if trial.kind == kind)
        lines += ["", f"{kind}: " + ", ".join(f"{name} {count}" for name, count in sorted(subjects.items()))]
    bad = [trial for trial in trials if trial.outcome.verdict not in GOOD]
    lines += [""] if bad else []
    lines += [f"- {t.kind} {t.number} ({t.outcome.subject}): {t.outcome.verdict}: {t.outcome.detail}" for t in bad]
    return "\n".join(lines)
