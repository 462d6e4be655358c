"""Decodes blocks of lines in one go: records whose fields all have the documented types, several times as fast.

A block with any other line is refused as a whole; the caller halves it and reads what remains line by line. A block
gives exactly what its lines would give one by one.

Source: https://jcristharif.com/msgspec (typed decoders skip fields that are not declared).
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import Meta, Struct
from numpy.typing import NDArray

from tasks.release.decode import MAX_ID, MAX_INT, unless_blank
from tasks.release.s2orc import Part, assemble_s2orc, assemble_s2orc_v2

Id = Annotated[int, Meta(ge=0, le=MAX_ID)]
Count = Annotated[int, Meta(ge=-MAX_INT, le=MAX_INT)]
Notes = Counter[str]
Columns = Sequence[Sequence[Any]]
"""Values of each column of a table, in the order of its columns."""

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


def _papers(found: Sequence[_Paper], _: Notes) -> Columns:
    ids = [paper.externalids or NO_IDS for paper in found]
    return (
        [paper.corpusid for paper in found],
        [paper.title for paper in found],
        [[author.name for author in paper.authors if author.name] if paper.authors else () for paper in found],
        [paper.venue for paper in found],
        [paper.year for paper in found],
        [paper.publicationdate for paper in found],
        [_categories(paper.s2fieldsofstudy) if paper.s2fieldsofstudy else () for paper in found],
        [[kind for kind in kinds if kind is not None] if (kinds := paper.publicationtypes) else () for paper in found],
        [paper.referencecount for paper in found],
        [paper.citationcount for paper in found],
        [paper.influentialcitationcount for paper in found],
        [one.DOI for one in ids],
        [one.ArXiv for one in ids],
        [paper.url for paper in found],
    )


def _categories(fields: list[_Field]) -> Sequence[str]:
    return list(dict.fromkeys([field.category for field in fields if field.category]))


def _abstracts(found: Sequence[_Abstract], _: Notes) -> Columns:
    return [one.corpusid for one in found], [unless_blank(one.abstract) for one in found]


def _citations(found: Sequence[_Citation], _: Notes) -> Columns:
    return (
        [one.citingcorpusid for one in found],
        [one.citedcorpusid for one in found],
        [one.isinfluential for one in found],
        [one.citationid for one in found],
    )


def _full_texts(found: Sequence[_FullText], notes: Notes) -> Columns:
    return tuple(zip(*(assemble_s2orc(one.corpusid, _part(one.content, notes)) for one in found), strict=True))


def _full_texts_v2(found: Sequence[_FullTextV2], notes: Notes) -> Columns:
    rows = (
        assemble_s2orc_v2(one.corpusid, one.title, _part(one.body, notes), _part(one.bibliography, notes))
        for one in found
    )
    return tuple(zip(*rows, strict=True))


def _part(found: _Content | _Body | _Bibliography | None, notes: Notes) -> Part:
    if found is None:
        return Part("", {}, notes)
    return Part(found.text or "", msgspec.structs.asdict(found.annotations) if found.annotations else {}, notes)


class Lines(NamedTuple):
    """Columns of the rows of a block's lines, and the offset of each line in the block, `(n,) int64`."""

    columns: Columns
    starts: NDArray[np.int64]


class BlockDecoder(Generic[RecordT]):
    """Decodes blocks of one dataset's lines.

    Args:
        form: The fields that are read, with their types.
        columns: Turns records into columns, and counts what it leaves out in the second argument.
    """

    def __init__(self, form: type[RecordT], columns: Callable[[Sequence[RecordT], Notes], Columns]) -> None:
        self._decoder, self._columns = msgspec.json.Decoder(form), columns

    def decode(self, data: bytes, limit: int, notes: Notes) -> Lines | None:
        """Returns the rows of whole lines; None when any of them is not as documented, or longer than `limit`.

        A decoder takes what separates lines for any other space, and does not look at the encoding of what it skips.
        """
        starts = _split(data, limit)
        if starts is None:
            return None
        try:
            if not data.isascii():
                pa.array([data], pa.large_binary()).cast(pa.large_string())  # several times as fast as data.decode()
            found = self._decoder.decode_lines(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, pa.ArrowInvalid, RecursionError):
            return None
        return Lines(self._columns(found, notes), starts) if len(found) == len(starts) else None


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
    "papers": BlockDecoder(_Paper, _papers),
    "abstracts": BlockDecoder(_Abstract, _abstracts),
    "citations": BlockDecoder(_Citation, _citations),
    "s2orc": BlockDecoder(_FullText, _full_texts),
    "s2orc_v2": BlockDecoder(_FullTextV2, _full_texts_v2),
}
