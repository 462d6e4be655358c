"""The pages of one edition: leaderboards, comparison, topics, systems, questions, queries, downloads."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import orjson

from schemas import spreadsheets
from tasks.exports.edition import RUN, Edition
from tasks.exports.exporter import find_exporter
from tasks.metrics.ranking import RankingTask, all_measures
from tasks.reports import paperqa_report, report, search_report
from tasks.reports.blocks import Label, Section, TableBlock, counted
from tasks.reports.leaderboard import Leaderboard
from tasks.reports.render import plain_cell
from tasks.reports.sections import corpus, lineage, organization, paperqa, retrieval, search
from tasks.reports.source import ReportSource
from tasks.site.pages import Page, Part, Shelf
from tasks.site.pictures import leaderboard_pictures, write_heat_map
from tasks.site.query_pages import QueryData, engine_pages, query_list, query_pages
from tasks.site.question_pages import QuestionData, answerer_pages, question_list, question_pages
from tasks.site.sources import paperqa_source, ranking_source, search_sources
from tasks.site.system_pages import builder_pages, system_page
from tasks.site.time_pages import fresh_page
from tasks.site.topic_data import TopicData
from tasks.site.topic_pages import topic_list, topic_page
from tasks.store.dataset import Dataset

TASKS: tuple[RankingTask, ...] = ("discovery", "selection")


@dataclass(frozen=True)
class EditionSite:
    """An edition, and the shelf that its pages go to.

    Attributes:
        name: The edition's name.
        release: The release that it was made from.
        published: Whether it is published.
        slots: Its datasets by slot.
        shelf: Where its pages go.
    """

    name: str
    release: str
    published: bool
    slots: Mapping[str, Dataset]
    shelf: Shelf

    @property
    def title(self) -> str:
        """The edition's name as headings and links show it; a draft is called one."""
        return f"Edition {self.name}{'' if self.published else ' (draft)'}"

    @cached_property
    def ranking(self) -> ReportSource:
        """Topics, runs and trees."""
        return ranking_source(self.slots)

    @cached_property
    def searches(self) -> dict[str, ReportSource]:
        """Judged search engines by test set."""
        return search_sources(self.slots)

    @cached_property
    def questions(self) -> QuestionData | None:
        """Questions over papers."""
        source = paperqa_source(self.slots)
        return QuestionData(source) if source else None

    @cached_property
    def boards(self) -> dict[RankingTask, Leaderboard]:
        """The leaderboards over all topics; none without a scored run."""
        return {task: Leaderboard(self.ranking, task) for task in TASKS} if self.ranking.tags else {}

    @cached_property
    def links(self) -> tuple[tuple[str, str], ...]:
        """The pages beside each other: name and path."""
        found = [("Edition", "index.html")]
        if self.boards:
            found += [("Discovery", "discovery.html"), ("Selection", "selection.html")]
        if organization.sections(self.ranking):
            found.append(("Organization", "organization.html"))
        found += [(f"Search: {name}", f"search/{name}/index.html") for name in self.searches]
        if self.questions:
            found.append(("Questions", "questions.html"))
        if self.boards:
            found += [("Compare two runs", "compare.html"), ("Topics", "topics.html"), ("Fresh topics", "fresh.html")]
        return (*found, ("Corpus and lineage", "corpus.html"))

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What makes the edition's figures unfit for comparison."""
        return tuple(report.warnings(self.ranking)) if self.boards else ()

    def write(self) -> None:
        """Writes all pages and files of the edition."""
        for page in self._pages():
            self._write(self.shelf, page)
        for name, source in self.searches.items():
            shelf = Shelf(self.shelf.root, f"{self.shelf.base}/search/{name}", self.shelf.foot)
            for page in self._search_pages(name, source):
                self._write(shelf, page)
        if self.boards:
            self._write_files()

    def _write(self, shelf: Shelf, page: Page) -> None:
        """Writes a page with the way to it and, unless it is one of many of its kind, the pages beside it."""
        deep = "../" * shelf.base.count("/")
        way = [("All editions", f"{deep}../index.html")]
        if deep or page.path != "index":
            way.append((self.title, f"{deep}index.html"))
        links = tuple((name, deep + href) for name, href in self.links) if "/" not in page.path else ()
        shelf.write(replace(page, way=(*way, *page.way), links=links))

    def _pages(self) -> Iterator[Page]:
        yield self._overview()
        yield Page("corpus", f"{self.title}: corpus and lineage", parts=tuple(_parts(self._about())))
        for task, board in self.boards.items():
            yield from self._leaderboards(task, board)
        if self.boards:
            yield from self._topic_pages()
            yield self._comparison()
            yield fresh_page(self.name, self.boards["discovery"])
        if sections := organization.sections(self.ranking):
            main, drawings = sections
            parts = _parts([main, drawings], leads=True)
            yield Page("organization", f"Organization, edition {self.name}", main.lead, tuple(parts), self.warnings)
            yield from builder_pages(self.name, self.ranking)
        if self.questions:
            yield from self._question_pages(self.questions)

    def _overview(self) -> Page:
        source = self.ranking
        lead = f"Made from Semantic Scholar's release {self.release}; {counted(len(source.topics), 'topic')}, "
        cards = [
            {"title": title, "href": href, "rows": rows, "measure": measure}
            for title, href, rows, measure in self.summary()
        ]
        return Page(
            "index",
            self.title,
            lead + f"{counted(len(source.tags), 'run')}.",
            warnings=self.warnings,
            extra={"cards": cards},
            template="edition.html.jinja",
        )

    def summary(self) -> Iterator[tuple[str, str, list[tuple[Label, str]], str]]:
        """Yields for each leaderboard its title, page, first three systems with their scores, and measure."""
        tables: list[tuple[str, str, TableBlock]] = []
        for task, board in self.boards.items():
            tables.append((retrieval.TITLES[task], f"{task}.html", board.table(task, "")))
        if sections := organization.sections(self.ranking):
            tables.append((sections[0].title, "organization.html", _first(sections[0])))
        if self.questions:
            section = paperqa.sections(self.questions.source)[0]
            tables.append((section.title, "questions.html", _first(section)))
        for name, source in self.searches.items():
            section = search.sections(source)[0]
            tables.append((f"{section.title}: {name}", f"search/{name}/index.html", _first(section)))
        for title, href, table in tables:
            rows = [
                (row[1], plain_cell(row[2], table.largest[2])) for row in table.rows[:3] if isinstance(row[1], Label)
            ]
            yield title, href, rows, table.columns[2]

    def _about(self) -> list[Section]:
        has_statistics = "statistics" in self.ranking.datasets
        return [*(corpus.sections(self.ranking) if has_statistics else ()), *lineage.sections(self.ranking)]

    def _leaderboards(self, task: RankingTask, board: Leaderboard) -> Iterator[Page]:
        """Yields the leaderboard of a task over all topics, and one for each field of study."""
        section = retrieval.task_section(self.ranking, task)
        first, *others = section.blocks
        scores = f"files/{task}-scores.csv"
        files = {task: {"scores by topic (CSV)": scores, "all scores (Parquet)": "files/scores.parquet"}}
        parts = [
            Part("", (first,)),
            Part("Pictures", tuple(leaderboard_pictures(board, self.data))),
            Part("Topics by runs", (write_heat_map(self.shelf, board),)),
            Part("Further tables", tuple(others), open=False),
        ]
        fields = sorted({row.group for row in self.ranking.summaries if row.group != "all"})
        paths = {group: f"{task}/{slug(group.partition(':')[2])}" for group in fields}
        choice = [("All fields of study", f"{task}.html")]
        choice += [(group.partition(":")[2], f"{path}.html") for group, path in paths.items()]
        title = retrieval.TITLES[task]
        yield Page(
            task, f"{title}, edition {self.name}", section.lead, tuple(parts), self.warnings, files=files,
            extra={"choice": choice}, template="leaderboard.html.jinja",
        )  # fmt: skip
        for group, path in paths.items():
            one = Leaderboard(self.ranking, task, group=group)
            if one.ranked:
                table = one.table(task, f"{retrieval.CAPTIONS[task]}; only topics of {group.partition(':')[2]}")
                yield Page(
                    path, f"{title}: {group.partition(':')[2]}", section.lead, (Part("", (table,)),), self.warnings,
                    way=((title, f"{task}.html"),), extra={"choice": choice}, template="leaderboard.html.jinja",
                )  # fmt: skip

    @cached_property
    def data(self) -> TopicData:
        """The runs topic by topic."""
        return TopicData(self.ranking, self.boards["discovery"].order)

    def _topic_pages(self) -> Iterator[Page]:
        board, topics = self.boards["discovery"], self.ranking.topics
        labels = {tag: board.system(tag).label for tag in board.order}
        files = {"qrels (TREC)": "files/qrels.txt"}
        files |= {f"{name} (Parquet)": f"files/{name}.parquet" for name in ("topics", "qrels")}
        parts = (Part("", (topic_list(self.data, topics),)),)
        lead = "Surveys: a system is given a title, and finds what the survey cites."
        yield Page("topics", f"Topics, edition {self.name}", lead, parts, files={"topics": files})
        drawings = organization.drawings_by_topic(self.ranking)
        for topic in topics:
            page = topic_page(self.data, labels, topic, drawings.get(topic.topic_id, []))
            yield replace(page, way=(("Topics", "topics.html"),))
        for tag in board.order:
            page = system_page(self.name, board, self.data, topics, tag)
            yield replace(page, way=(("Discovery", "discovery.html"),))

    def _comparison(self) -> Page:
        """Writes the values that the page of comparisons reads, and returns the page."""
        board = self.boards["discovery"]
        about = {topic.topic_id: topic for topic in self.ranking.topics}
        content: dict[str, object] = {
            "runs": [[tag, board.system(tag).label.text] for tag in board.order],
            "topics": [[topic, about[topic].title, str(about[topic].horizon)] for topic in sorted(about)],
            "measures": [],
        }
        measures: list[object] = []
        for one in self.boards.values():
            topics, values = self.ranking.matrix(one.headline, "graded", board.order)
            rows = np.full((len(about), len(board.order)), np.nan)
            place = {topic: at for at, topic in enumerate(sorted(about))}
            rows[[place[topic] for topic in topics]] = values
            shown = [[None if np.isnan(value) else round(value, 4) for value in row] for row in rows.tolist()]
            at = {tag: number for number, tag in enumerate(board.order)}
            p_values = [
                [at[one.ranked[a]], at[one.ranked[b]], round(p, 4)] for (a, b), p in one.p_values(one.headline).items()
            ]
            label = all_measures()[one.headline].label
            measures.append({"name": one.headline, "label": label, "values": shown, "p": p_values})
        content["measures"] = measures
        self.shelf.path("compare.js").write_bytes(b"window.arenaRuns = " + orjson.dumps(content) + b";\n")
        lead = "Which topics does one run win over another, and by how much?"
        title = f"Two runs, edition {self.name}"
        return Page("compare", title, lead, scripts=("compare.js",), template="compare.html.jinja")

    def _question_pages(self, data: QuestionData) -> Iterator[Page]:
        sections = paperqa.sections(data.source)
        parts = [*_parts(sections, leads=True), Part("Question by question", (question_list(data),))]
        warnings = tuple(paperqa_report.warnings(data.source))
        yield Page("questions", f"Questions over papers, edition {self.name}", sections[0].lead, tuple(parts), warnings)
        for page in (*question_pages(data), *answerer_pages(data)):
            yield replace(page, way=(("Questions", "questions.html"),))

    def _search_pages(self, name: str, source: ReportSource) -> Iterator[Page]:
        data, sections = QueryData(source), search.sections(source)
        first, *others = sections
        parts = [*_parts([first], leads=True), Part("Queries", (query_list(data),)), *_parts(others)]
        title = f"Search engines on {name}, edition {self.name}"
        yield Page("index", title, first.lead, tuple(parts), tuple(search_report.warnings(source)))
        for page in (*query_pages(data), *engine_pages(data)):
            yield replace(page, way=((name, "index.html"),))

    def _write_files(self) -> None:
        """Writes the runs and judgments for other tools, and all scores."""
        runs = {RUN + tag: self.ranking.datasets[f"run:{tag}"] for tag in self.ranking.tags}
        edition = Edition(self.name, {"topics": self.slots["topics"], **runs})
        for form in ("trec", "parquet"):
            find_exporter(form).write(edition, self.shelf.path(f"files/{form}").parent)
        values = self.ranking.all_values.sort("tag", "labels", "measure", "topic_id")
        values.write_parquet(self.shelf.path("files/scores.parquet"), compression="zstd")
        for task, board in self.boards.items():
            topics, columns = self.ranking.matrix(board.headline, "graded", board.order)
            lines = ([topic, *map(_blank, row)] for topic, row in zip(topics, columns.tolist(), strict=True))
            text = spreadsheets.to_csv([["topic_id", *board.order], *lines])
            self.shelf.path(f"files/{task}-scores.csv").write_text(text, encoding="utf-8")


def slug(text: str) -> str:
    """Returns a file name for a field of study."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "other"


def _blank(value: float) -> float | None:
    return None if np.isnan(value) else value


def _first(section: Section) -> TableBlock:
    return next(block for block in section.blocks if isinstance(block, TableBlock))


def _parts(sections: list[Section], *, leads: bool = False) -> Iterator[Part]:
    """Yields sections as folded parts; when they lead a page, the first table stands open and alone."""
    if leads:
        first, *sections = sections
        yield Part("", first.blocks[:1])
        yield Part("Further tables", first.blocks[1:], open=False)
    for section in sections:
        yield Part(section.title, section.blocks, section.lead, open=section.open and not leads)
