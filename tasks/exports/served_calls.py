"""The record of served runs as JSON lines."""

from pathlib import Path

from schemas.errors import UsageError
from tasks.exports.edition import Edition
from tasks.exports.exporter import exporter
from tasks.service.record import FILE, export_calls, open_record, served_runs


@exporter(
    "served_calls", "Every call of the served desk, one JSON object a line, each with the hash of the one before."
)
class ServedCallsExporter:
    """Writes `<run>.jsonl`."""

    def write(self, edition: Edition, folder: Path) -> list[Path]:
        """Writes the files and returns their paths.

        Raises:
            UsageError: The desk has served no run of the edition.
        """
        roots = {dataset.folder.parents[1] for dataset in edition.datasets.values()}
        written: list[Path] = []
        for root in (root for root in roots if (root / FILE).is_file()):
            record = open_record(root)
            for run in served_runs(record, edition.name):
                folder.mkdir(parents=True, exist_ok=True)
                written.append(folder / f"{run}.jsonl")
                written[-1].write_bytes(b"".join(line + b"\n" for line in export_calls(record, edition.name, run)))
            record.close()
        if not written:
            raise UsageError(f"edition {edition.name} has no served runs; run: arena serve")
        return written
