"""Reads from an edition's datasets which calls they made to language models, and what those cost."""

from collections.abc import Mapping
from typing import NamedTuple

import polars as pl

from tasks.store.dataset import Dataset

CALLS = "calls"
"""Prefix of the side table `model_calls`."""


class CallCost(NamedTuple):
    """Calls of one dataset with one prompt, and their cost when they were first made."""

    slot: str
    model: str
    prompt: str
    calls: int
    ok: int
    input_tokens: int
    output_tokens: int
    usd: float


def call_costs(datasets: Mapping[str, Dataset]) -> list[CallCost]:
    """Returns the calls and costs of each dataset that asked a model, by prompt.

    Args:
        datasets: By slot.
    """
    found: list[CallCost] = []
    for slot, dataset in datasets.items():
        if not (files := dataset.files(CALLS)):
            continue
        model = (dataset.manifest.parameters.get("model") or {}).get("model", "")
        grouped = (
            pl.read_parquet(files)
            .group_by(pl.col("prompt").fill_null("(none)"))
            .agg(
                calls=pl.col("keys").list.len().sum(),
                ok=(pl.col("outcome") == "ok").sum(),
                input_tokens=pl.col("input_tokens").sum(),
                output_tokens=pl.col("output_tokens").sum(),
                usd=pl.col("cost_usd").sum(),
            )
            .sort("prompt")
        )
        found += [CallCost(slot, model, *row) for row in grouped.iter_rows()]
    return found


def call_keys(datasets: Mapping[str, Dataset]) -> set[str]:
    """Returns the keys of every call that the datasets depend on, without those that a cap prevented."""
    keys: set[str] = set()
    for dataset in datasets.values():
        if files := dataset.files(CALLS):
            made = pl.read_parquet(files).filter(pl.col("outcome") != "over_budget")
            keys.update(made["keys"].explode().drop_nulls())
    return keys
