"""A package of plug-ins, written into a folder as an installer would: one file a plug-in, each importing `arena`."""

from pathlib import Path

FILES = {
    "arena.metrics": '''
from arena import Judged, measure


@measure("success_5", label="Success@5", k=5)
def success(judged: Judged, k: int):
    """Whether one of the first `k` documents is relevant: 1 or 0."""
    return (judged.retrieved[:, :k] > 0).any(axis=1).astype(float)
''',
    "arena.baselines": """
from arena import Kit, Ranking, Topic, baseline


@baseline("first_words", "Searches for the first three words of the title.")
def first_words(topic: Topic, kit: Kit) -> Ranking:
    return Ranking(kit.desk.search(" ".join(topic.title.split()[:3]), kit.cutoff))
""",
    "arena.builders": """
from arena import Material, Organized, Tree, builder, load_tree


@builder("flat", "Puts every reference right below the title.", needs=["references"])
def flat(material: Material) -> Organized:
    leaves = [Tree(label=title, children=[]) for title in material.references.titles]
    return Organized(load_tree(Tree(label=material.topic.title, children=leaves)))
""",
    "arena.engines": """
from arena import EngineKit, Found, engine


class Echo:
    def search(self, query: str, n: int) -> list[Found]:
        return [Found(f"{query}, part {place}", "An abstract.", f"echo:{place}") for place in range(1, n + 1)]


@engine("echo", "Returns the query as titles.")
def echo(kit: EngineKit) -> Echo:
    return Echo()
""",
    "arena.judges": '''
from arena import Parameters, Settings, Verdict, judge, read_prompt

PROMPT = read_prompt("""---
id: judge_thumbs
version: 1
---
## system
Answer with a JSON object: is the paper relevant to the query? {{ foreign_notice }}
## user
{{ query }}
{{ title }}
{{ abstract }}
""")


class Thumb(Settings):
    up: bool


@judge("thumbs", "Up or down.", prompt=PROMPT, answer=Thumb, parameters=Parameters(max_tokens=16))
def thumbs(answer: Thumb) -> Verdict:
    return Verdict(5 if answer.up else 0)
''',
    "arena.exporters": """
from pathlib import Path

from arena import Edition, exporter, write_lines


@exporter("titles", "The topics' titles, one a line.")
class Titles:
    def write(self, edition: Edition, folder: Path) -> list[Path]:
        return [write_lines(folder / "titles.txt", edition.topics()["title"])]
""",
    "arena.selectors": '''
from arena import Candidate, ModelConnection, SurveyVerdict, survey_selector


@survey_selector("everything")
class Everything:
    """Accepts every candidate."""

    name = "everything"
    prompt_id = None

    def select(self, candidates: list[Candidate], connection: ModelConnection | None = None) -> list[SurveyVerdict]:
        return [SurveyVerdict(True, "it is a candidate") for _ in candidates]
''',
    "arena.paperqa_baselines": """
from arena import Answered, PaperQaKit, PaperQaQuestion, paperqa_baseline


@paperqa_baseline("yes", "Answers yes.")
def yes(question: PaperQaQuestion, kit: PaperQaKit) -> Answered:
    return Answered("yes")
""",
    "arena.stages": '''
from arena import Settings, Workspace, stage


class LengthSettings(Settings):
    shortest: int = 1


@stage("title_lengths", version=1, settings=LengthSettings, after="topics", inputs={"topics": "topics"})
def title_lengths(work: Workspace[LengthSettings]) -> None:
    """Writes the number of letters of every title."""
    titles = work.dataset("topics").table(columns=["title"])["title"].to_pylist()
    for shard in work.pending(["all"]):
        with shard:
            lengths = [len(title) for title in titles if len(title) >= work.settings.shortest]
            shard.file("lengths.txt").write_text(" ".join(map(str, lengths)))
            shard.counts.read = shard.counts.kept = len(lengths)
''',
}
"""The text of each plug-in by its entry-point group."""


def install(folder: Path) -> Path:
    """Writes the package and its metadata; returns the folder to put on PYTHONPATH."""
    package, metadata = folder / "plugged", folder / "plugged-1.0.dist-info"
    package.mkdir(parents=True)
    metadata.mkdir()
    (package / "__init__.py").touch()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: plugged\nVersion: 1.0\n")
    groups: list[str] = []
    for group, text in FILES.items():
        module = group.removeprefix("arena.")
        (package / f"{module}.py").write_text(text.lstrip())
        groups.append(f"[{group}]\n{module} = plugged.{module}\n")
    (metadata / "entry_points.txt").write_text("\n".join(groups))
    return folder
