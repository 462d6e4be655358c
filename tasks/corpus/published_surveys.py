"""Stage `published_surveys`: takes the surveys of a published set, in place of candidates and a selector."""

from hashlib import sha256

from schemas.manifest import Counts
from schemas.settings import Settings
from schemas.tables.surveys import SURVEYS, SurveyRow
from tasks.release.decode import read_text
from tasks.release.lines import parse_line, read_lines
from tasks.store.parquet import write_rows
from tasks.store.stage import stage
from tasks.store.workspace import Workspace


class PublishedSurveySettings(Settings):
    """No settings."""


@stage("published_surveys", version=1, settings=PublishedSurveySettings, after="papers")
def published_surveys(work: Workspace[PublishedSurveySettings]) -> None:
    """Writes every survey of the release's dataset `surveys` as accepted; the selector is `published`.

    Raises:
        BadInput: A line is no JSON object with `corpusid`.
    """
    for shard in work.pending(["part-00000"]):
        with shard:
            files = work.release("files")
            lines = [parse_line(line) for file in files.files for line in read_lines(files.directory / file.name)]
            titles = {int(str(record["corpusid"])): read_text(record, "title") or "" for record in lines}
            rows = [_row(paper, title) for paper, title in sorted(titles.items())]
            kept = write_rows(shard.file("part-00000.parquet"), SURVEYS, rows)
            shard.counts.add(Counts(read=len(lines), kept=kept))


def _row(paper: int, title: str) -> SurveyRow:
    digest = sha256(f"{title}\x1f".encode()).digest()[:16]
    return SurveyRow(paper, title, digest, True, "published as a survey", "published", None, None, "ok")
