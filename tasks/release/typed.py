"""Decodes blocks of lines in one go: records whose fields all have the documented types, several times as fast.

A block with any other line is refused as a whole; the caller halves it and reads what remains line by line. A block
gives exactly what its lines would give one by one.

Source: https://jcristharif.com/msgspec (typed decoders skip fields that are not declared).
"""

from collections import Counter
from collections.abc import Callable
from operator import attrgetter
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

import msgspec
import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from tasks.release.decode import MAX_ID, MAX_INT, Row, unless_blank
from tasks.release.s2orc import Part, assemble_s2orc, assemble_s2orc_v2

Id = Annotated[int, Meta(ge=0, le=MAX_ID)]
Count = Annotated[int, Meta(ge=-MAX_INT, le=MAX_INT)]
Notes = Counter[str]
RecordT = TypeVar("RecordT", bound=Struct)

BREAK, OPEN, CLOSE = b"\n{}"


class _Ids(Struct, gc=False):
    DOI: str | None = None
    ArXiv: str | None = None


class _Author(Struct, gc=False):
    name: str | None = None


class _Field(Struct, gc=False):
    category: str | None = None


class _Paper(Struct, gc=False):
    corpusid: Id
    title: str | None = None
    authors: list[_Author] | None = None
    venue: str | None = None
    year: Count | None = None
    publicationdate: str | None = None
    s2fieldsofstudy: list[_Field] | None = None
    publicationtypes: list[str | None] | None = None
    referencecount: Count | None = None
    citationcount: Count | None = None
    influentialcitationcount: Count | None = None
    externalids: _Ids | None = None
    url: str | None = None


class _Abstract(Struct, gc=False):
    corpusid: Id
    abstract: str | None = None


class _Citation(Struct, gc=False):
    citingcorpusid: Id
    citedcorpusid: Id | None = None
    isinfluential: bool | None = None
    citationid: Id | None = None


class _AnnotationsV1(Struct, gc=False):
    title: str | None = None
    abstract: str | None = None
    sectionheader: str | None = None
    paragraph: str | None = None
    bibentry: str | None = None
    bibtitle: str | None = None
    bibref: str | None = None


class _Content(Struct, gc=False):
    text: str | None = None
    annotations: _AnnotationsV1 | None = None


class _FullText(Struct, gc=False):
    corpusid: Id
    content: _Content | None = None


class _BodyAnnotations(Struct, gc=False):
    abstract: str | None = None
    section_header: str | None = None
    paragraph: str | None = None
    bib_ref: str | None = None


class _Body(Struct, gc=False):
    text: str | None = None
    annotations: _BodyAnnotations | None = None


class _BibliographyAnnotations(Struct, gc=False):
    bib_entry: str | None = None
    bib_title: str | None = None


class _Bibliography(Struct, gc=False):
    text: str | None = None
    annotations: _BibliographyAnnotations | None = None


class _FullTextV2(Struct, gc=False):
    corpusid: Id
    title: str | None = None
    body: _Body | None = None
    bibliography: _Bibliography | None = None


NO_IDS = _Ids()


def _paper(found: _Paper, _: Notes) -> Row:
    ids = found.externalids or NO_IDS
    fields = [field.category for field in found.s2fieldsofstudy or () if field.category]
    return (
        found.corpusid,
        found.title,
        [author.name for author in found.authors or () if author.name],
        found.venue,
        found.year,
        found.publicationdate,
        list(dict.fromkeys(fields)),
        [kind for kind in found.publicationtypes or () if kind is not None],
        found.referencecount,
        found.citationcount,
        found.influentialcitationcount,
        ids.DOI,
        ids.ArXiv,
        found.url,
    )


def _abstract(found: _Abstract, _: Notes) -> Row:
    return found.corpusid, unless_blank(found.abstract)


_citation_fields = attrgetter("citingcorpusid", "citedcorpusid", "isinfluential", "citationid")


def _citation(found: _Citation, _: Notes) -> Row:
    return _citation_fields(found)


def _full_text(found: _FullText, notes: Notes) -> Row:
    return assemble_s2orc(found.corpusid, _part(found.content, notes))


def _full_text_v2(found: _FullTextV2, notes: Notes) -> Row:
    parts = _part(found.body, notes), _part(found.bibliography, notes)
    return assemble_s2orc_v2(found.corpusid, found.title, *parts)


def _part(found: _Content | _Body | _Bibliography | None, notes: Notes) -> Part:
    if found is None:
        return Part("", {}, notes)
    return Part(found.text or "", msgspec.structs.asdict(found.annotations) if found.annotations else {}, notes)


class Lines(NamedTuple):
    """Rows of a block's lines, with the offset of each line in the block, `(n,) int64`."""

    rows: list[Row]
    starts: NDArray[np.int64]


class BlockDecoder(Generic[RecordT]):
    """Decodes blocks of one dataset's lines.

    Args:
        form: The fields that are read, with their types.
        row: Turns a record into a row, and counts what it leaves out in the second argument.
    """

    def __init__(self, form: type[RecordT], row: Callable[[RecordT, Notes], Row]) -> None:
        self._decoder, self._row = msgspec.json.Decoder(form), row

    def decode(self, data: bytes, limit: int, notes: Notes) -> Lines | None:
        """Returns the rows of whole lines; None when any of them is not as documented, or longer than `limit`.

        A decoder takes what separates lines for any other space, and does not look at the encoding of what it skips.
        """
        starts = _split(data, limit)
        if starts is None:
            return None
        try:
            if not data.isascii():
                data.decode()
            found = self._decoder.decode_lines(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        if len(found) != len(starts):
            return None
        row = self._row
        return Lines([row(record, notes) for record in found], starts)


def _split(data: bytes, limit: int) -> NDArray[np.int64] | None:
    """Returns where lines begin; None unless each is one object or several, from its first byte to its last.

    An object that ends a line cannot go on in the next line when that begins with another object: values inside an
    object or array have a comma between them.
    """
    array = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(array == BREAK)
    if not len(ends) or ends[-1] != len(array) - 1:
        ends = np.append(ends, len(array))
    starts = np.empty_like(ends)
    starts[0], starts[1:] = 0, ends[:-1] + 1
    lengths = ends - starts
    if lengths.min() < 2 or lengths.max() > limit:
        return None
    if (array[starts] != OPEN).any() or (array[ends - 1] != CLOSE).any():
        return None
    return starts


DECODERS: dict[str, BlockDecoder[Any]] = {
    "papers": BlockDecoder(_Paper, _paper),
    "abstracts": BlockDecoder(_Abstract, _abstract),
    "citations": BlockDecoder(_Citation, _citation),
    "s2orc": BlockDecoder(_FullText, _full_text),
    "s2orc_v2": BlockDecoder(_FullTextV2, _full_text_v2),
}
