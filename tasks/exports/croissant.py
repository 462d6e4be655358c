"""Croissant metadata: which tables an export holds, in which files, with which columns."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.exports.edition import Edition
from tasks.exports.public import LICENCE, RULES, TERMS
from tasks.store.hashes import sha256_file

CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "dct": "http://purl.org/dc/terms/",
    "conformsTo": "dct:conformsTo",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "recordSet": "cr:recordSet",
    "repeated": "cr:repeated",
    "source": "cr:source",
}

TABLES = {
    "topics": "A topic: the title of a literature survey, its horizon, and what a system is told.",
    "qrels": "A judgment: a document that a topic's survey cites.",
    "documents": "A document of the corpus.",
    "mindmaps": "The mind-map that the authors of a topic's survey drew.",
    "questions": "A question over papers, as a system sees it.",
}
"""What a row of each table is."""


def write_croissant(edition: Edition, folder: Path, tables: Mapping[str, Path]) -> Path:
    """Writes `croissant.json` and returns its path.

    Args:
        edition: What is exported.
        folder: Folder of the export.
        tables: Parquet files by table.

    Source: Croissant 1.0, https://docs.mlcommons.org/croissant/docs/croissant-spec.html.
    """
    described = {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": f"research-arena-{edition.name}",
        "description": f"A benchmark of literature search over the references of surveys. {RULES} {TERMS}",
        "license": LICENCE,
        "citeAs": "ResearchArena, arXiv 2406.10291",
        "version": "1.0.0",
        "url": "https://arxiv.org/abs/2406.10291",
        "distribution": [_file(name, path) for name, path in tables.items()],
        "recordSet": [_records(name, path) for name, path in tables.items()],
    }
    path = folder / "croissant.json"
    path.write_text(json.dumps(described, indent=1) + "\n", encoding="utf-8")
    return path


def _file(name: str, path: Path) -> dict[str, Any]:
    return {
        "@type": "cr:FileObject",
        "@id": f"{name}-file",
        "name": f"{name}-file",
        "contentUrl": path.name,
        "encodingFormat": "application/x-parquet",
        "sha256": sha256_file(path),
    }


def _records(name: str, path: Path) -> dict[str, Any]:
    fields = [
        {
            "@type": "cr:Field",
            "@id": f"{name}/{column.name}",
            "name": f"{name}/{column.name}",
            "dataType": _kind(column.type),
            **({"repeated": True} if pa.types.is_list(column.type) else {}),
            "source": {"fileObject": {"@id": f"{name}-file"}, "extract": {"column": column.name}},
        }
        for column in pq.read_schema(path)
    ]
    return {"@type": "cr:RecordSet", "@id": name, "name": name, "description": TABLES[name], "field": fields}


def _kind(column: pa.DataType) -> str:
    if pa.types.is_boolean(column):
        return "sc:Boolean"
    return "sc:Integer" if pa.types.is_integer(column) else "sc:Text"
