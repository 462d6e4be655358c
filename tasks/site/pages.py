"""What a page of the site is, and how it is written; foreign text on it is never markup."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tasks.reports.blocks import Cell, FigureBlock, Label, TableBlock
from tasks.reports.html import page_templates
from tasks.reports.render import to_csv


class Facts(NamedTuple):
    """What is known of one thing: cells by what they are."""

    facts: Mapping[str, Cell]


class Text(NamedTuple):
    """Foreign or long text as it is: a query, an answer, a command."""

    caption: str
    text: str


class Picture(NamedTuple):
    """A picture in a file of its own, relative to the part's folder, as pixels that the page enlarges."""

    caption: str
    file: str


class Step(NamedTuple):
    """One thing that a system did: what it asked for, and the first papers that came back."""

    told: str
    papers: tuple[Label, ...] = ()


class Trail(NamedTuple):
    """What one system did, step by step; folded."""

    system: Label
    told: str
    steps: tuple[Step, ...]


SiteBlock = TableBlock | FigureBlock | Facts | Text | Picture | Trail


@dataclass(frozen=True)
class Part:
    """A part of a page: heading, lead and blocks; folded unless `open`, without heading when the title is empty."""

    title: str
    blocks: tuple[SiteBlock, ...]
    lead: str = ""
    open: bool = True


@dataclass(frozen=True)
class Page:
    """A page.

    Attributes:
        path: Below its part's folder, without ending: `topics/12`.
        title: Headline.
        lead: One sentence below it.
        parts: What is on it, in order.
        warnings: What makes the figures unfit for comparison.
        way: Pages above it, the site's first: name and path below the part's folder.
        links: Pages beside it.
        files: Downloads by the name of the table that they belong to: address by name.
        script: Names of scripts that it needs, below the part's folder.
        extra: What a template of its own shows.
        template: Which template draws it.
    """

    path: str
    title: str
    lead: str = ""
    parts: tuple[Part, ...] = ()
    warnings: tuple[str, ...] = ()
    way: tuple[tuple[str, str], ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    files: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    scripts: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    template: str = "page.html.jinja"


class Shelf:
    """A folder of the site: writes pages and files, and knows the way from each page to the folder and to the site.

    Args:
        root: The site's folder.
        base: The folder below it, for example an edition's name; empty: the site's own.
        foot: What stands below every page: how to cite, licence, command.
    """

    def __init__(self, root: Path, base: str, foot: Mapping[str, str]) -> None:
        self.root, self.base, self.foot = root, base, foot
        self.folder = root / base
        self._templates = page_templates("tasks.site", "tasks.reports")

    def write(self, page: Page) -> None:
        """Writes a page, and a CSV file of each table on it that has a name for files."""
        at = "../" * page.path.count("/")
        up = at + "../" * (self.base.count("/") + 1 if self.base else 0)
        tables = [block for part in page.parts for block in part.blocks if isinstance(block, TableBlock)]
        files = {table.name: self._table_file(page, table, at) for table in tables}
        target = self.path(f"{page.path}.html")
        text = self._templates.get_template(page.template).render(
            page=page, at=at, up=up, foot=self.foot, files=files, kind_of=_kind_of
        )
        target.write_text("\n".join(line for line in text.splitlines() if line.strip()) + "\n", encoding="utf-8")

    def _table_file(self, page: Page, table: TableBlock, at: str) -> dict[str, str]:
        name = f"tables/{page.path.replace('/', '-')}-{table.name}.csv"
        self.path(name).write_text(to_csv(table), encoding="utf-8")
        further = {what: at + where for what, where in page.files.get(table.name, {}).items()}
        return {"CSV": at + name, **further}

    def path(self, name: str) -> Path:
        """Returns the path of a file below the folder, and makes the folders above it."""
        found = self.folder / name
        found.parent.mkdir(parents=True, exist_ok=True)
        return found


def _kind_of(block: SiteBlock) -> str:
    return type(block).__name__
