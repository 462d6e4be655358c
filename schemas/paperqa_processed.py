"""Data extracted from a paper's PDF, in both published layouts."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

PUBLISHED = "published"
"""Extraction method of files that do not name one: the published files (MinerU)."""

NESTED_UNDER = "info_from_mineru"
"""Key that contains the lists in the older layout."""


def _text(value: object) -> object:
    return "" if value is None else value


def _items(value: object) -> object:
    return () if value is None else value


Text = Annotated[str, BeforeValidator(_text)]
Page = Annotated[int | None, Field(default=None, validation_alias="page_number", description="1-based.")]
Box = tuple[float, float, float, float]


class _Item(BaseModel):
    model_config = ConfigDict(frozen=True, populate_by_name=True)


class ProcessedTable(_Item):
    """A table found on a page."""

    caption: Text = Field(default="", validation_alias=AliasChoices("table_caption", "caption"))
    html: Text = Field(default="", validation_alias=AliasChoices("table_html", "html"))
    box: Box | None = Field(default=None, validation_alias=AliasChoices("table_bbox", "bbox"), description="x0y0x1y1")
    page: Page


class ProcessedFigure(_Item):
    """A figure found on a page; the picture path of the older layout is ignored."""

    caption: Text = Field(default="", validation_alias=AliasChoices("figure_caption", "caption"))
    box: Box | None = Field(default=None, validation_alias=AliasChoices("figure_bbox", "bbox"), description="x0y0x1y1")
    page: Page


class ProcessedEquation(_Item):
    """LaTeX with its delimiters."""

    text: Text = Field(default="", validation_alias=AliasChoices("equation_text", "text"))
    page: Page


class ProcessedReference(_Item):
    """An entry of the bibliography."""

    text: Text = Field(default="", validation_alias=AliasChoices("reference_text", "text"))


class ProcessedSection(_Item):
    """A heading with the text below it."""

    title: Text = ""
    text: Text = ""
    level: int = 1
    page: Page
    pages: Annotated[tuple[int, ...], BeforeValidator(_items)] = Field(default=(), validation_alias="page_numbers")


class ProcessedPaper(_Item):
    """One paper's processed data; missing or null lists are empty."""

    extraction: str = Field(default=PUBLISHED, description="What made it: published, pypdfium2, synthetic.")
    pdf_path: str | None = Field(default=None, description="Of the PDF it was made from; the older form names it.")
    sections: Annotated[tuple[ProcessedSection, ...], BeforeValidator(_items)] = Field(
        default=(), validation_alias="TOC"
    )
    tables: Annotated[tuple[ProcessedTable, ...], BeforeValidator(_items)] = ()
    figures: Annotated[tuple[ProcessedFigure, ...], BeforeValidator(_items)] = ()
    equations: Annotated[tuple[ProcessedEquation, ...], BeforeValidator(_items)] = ()
    references: Annotated[tuple[ProcessedReference, ...], BeforeValidator(_items)] = ()

    @model_validator(mode="before")
    @classmethod
    def _unnest(cls, value: Any) -> Any:
        if isinstance(value, Mapping) and isinstance(inner := value.get(NESTED_UNDER), Mapping):
            return {**inner, **{name: value[name] for name in ("extraction", "pdf_path") if name in value}}
        return value

    @property
    def last_page(self) -> int:
        """The highest page number of any element; 0 if no element has one."""
        items = (*self.tables, *self.figures, *self.equations, *self.sections)
        pages = [item.page for item in items if item.page] + [page for s in self.sections for page in s.pages]
        return max(pages, default=0)
