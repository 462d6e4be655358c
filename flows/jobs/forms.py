"""Run forms: the few fields that people change stand first, all others in one group that is closed at first.

A form is the JSON schema of a flow's parameters, written for people. The server checks every value of a run against it,
so what a form refuses starts no run. Values that the form shows in the group `expert` may also be given at the place
where the flow has them: `machine` and `expert.machine` are the same.
"""

import copy
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import httpx
from prefect import Flow, get_run_logger
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import DeploymentUpdate
from prefect.utilities.callables import parameter_schema

from flows.jobs.limits import is_deployed
from flows.jobs.parameters import CHOICES, NEWEST
from flows.pipeline.machine import Machine
from tasks.release.mirror import list_releases
from tasks.store.editions import Editions
from tasks.store.store import Store

Schema = dict[str, Any]

BASIC: Mapping[str, Sequence[str]] = {
    "weekly": ("source", "way", "index.encoder.model", "runs.baselines", "runs.retrievers"),
    "resync": ("corpus",),
    "build-corpus": ("corpus", "survey_selector", "mindmaps", "model"),
    "build-index": ("bm25_fields", "dense_fields", "encoder.model", "ann"),
    "discovery": ("baselines", "retrievers", "field", "cutoff", "model"),
    "selection": ("baselines", "retrievers", "field", "cutoff", "model"),
    "organization": ("builders", "oracle", "runs", "field", "model"),
    "paper-search": ("engines", "judges", "model", "field"),
    "paperqa": ("baselines", "model", "judge", "protocol"),
}
"""The settings of each flow that stand first in its form; the others are in the group `expert`."""

LISTS: Mapping[str, str] = {
    "survey_selector": "survey selector",
    "builders": "builder",
    "baselines": "baseline",
    "sample_systems": "system",
}
"""Settings whose values are names of plug-ins: the list that each takes them from, named by the kind of plug-in."""

WORDS = {
    "usd": "USD", "mib": "MiB", "gib": "GiB", "url": "URL", "bm25": "BM25", "pdfs": "PDFs", "ids": "ids", "mb": "MB",
    "s": "(seconds)",
}  # fmt: skip
TITLES = {
    "ann": "Exact or approximate search", "max_usd": "Most to spend (USD)", "bandwidth_mb_s": "Bandwidth (MB a second)",
    "control": "Stages", "machine": "Folders and resources", "upstream": "Semantic Scholar",
    "expert": "Expert settings", "line_mib": "Longest line (MiB)", "folder": "Store",
    "interval_s": "Interval (seconds)", "memory_gib": "Memory (GiB)", "spare_gib": "Spare disk (GiB)",
    "fetch": "Fetching", "gate": "Checks of a release",
}  # fmt: skip


def title(name: str) -> str:
    """Returns a field's name in words."""
    first, *others = (WORDS.get(word, word) for word in name.split("_"))
    return TITLES.get(name) or " ".join([first[:1].upper() + first[1:], *others])


def form_of(flow: Flow[Any, Any], choices: Mapping[str, Sequence[str]]) -> Schema:
    """Returns the form of a flow's parameters.

    Args:
        flow: A flow of the catalogue.
        choices: Values to choose from, by the name of their list; a list that is absent takes any text.
    """
    raw = parameter_schema(flow).model_dump_for_openapi()
    whole = cast(Schema, _without_references(raw, raw.get("definitions", {})))
    whole.pop("definitions", None)
    form = cast(Schema, _for_people(whole))
    if "expert" in form["properties"]:
        _gather(form, whole, BASIC[flow.name])
    _offer(form, "AirQA system" if flow.name == "paperqa" else "baseline")
    fill_choices(form, choices)
    return form


def fill_choices(form: object, choices: Mapping[str, Sequence[str]]) -> None:
    """Puts values to choose from into every field of a form that takes them from one of the lists."""
    if isinstance(form, dict):
        node = cast(Schema, form)
        if node.get(CHOICES) in choices:
            node["enum"] = list(choices[node[CHOICES]])
        for part in node.values():
            fill_choices(part, choices)
    elif isinstance(form, list):
        for part in cast(list[object], form):
            fill_choices(part, choices)


def stored_choices(root: Path, releases: Path) -> dict[str, list[str]]:
    """Returns the editions of a store and the releases of a mirror, as far as there are some."""
    editions = Editions(Store(root)).names() if (root / "editions").is_dir() else []
    mirrored = list_releases(releases) if releases.is_dir() else []
    return {name: [NEWEST, *found] for name, found in (("editions", editions), ("releases", mirrored)) if found}


def offered_choices(form: object) -> dict[str, list[str]]:
    """Returns the choices that a form offers, by the names of their lists."""
    found: dict[str, list[str]] = {}
    if isinstance(form, dict):
        node = cast(Schema, form)
        if CHOICES in node and "enum" in node:
            found[node[CHOICES]] = node["enum"]
        for part in node.values():
            found |= offered_choices(part)
    elif isinstance(form, list):
        for part in cast(list[object], form):
            found |= offered_choices(part)
    return found


def refresh_choices(machine: Machine) -> None:
    """Lets the forms of all deployments offer the editions and releases that are there now.

    A run that works on another store than its worker's changes no form.
    """
    if not is_deployed() or machine.root != Machine().root:
        return
    try:
        with get_client(sync_client=True) as client:
            _refresh(client, stored_choices(machine.root, machine.releases))
    except httpx.HTTPError as error:
        get_run_logger().warning("forms still offer the editions of before: %s; run: arena deploy", error)


def _refresh(client: SyncPrefectClient, choices: Mapping[str, Sequence[str]]) -> None:
    for deployment in client.read_deployments():
        form = copy.deepcopy(deployment.parameter_openapi_schema or {})
        fill_choices(form, choices)
        if form != deployment.parameter_openapi_schema:
            client.update_deployment(deployment.id, DeploymentUpdate(parameter_openapi_schema=form))


def _without_references(node: object, definitions: Mapping[str, Any]) -> object:
    if isinstance(node, list):
        return [_without_references(part, definitions) for part in cast(list[object], node)]
    if not isinstance(node, dict):
        return node
    plain = {
        key: _without_references(value, definitions)
        for key, value in cast(Schema, node).items()
        if key not in ("$ref", "definitions")
    }
    if reference := cast(Schema, node).get("$ref"):
        named = cast(Schema, _without_references(definitions[reference.rpartition("/")[2]], definitions))
        plain = named | plain
    return plain


def _for_people(node: object, name: str | None = None) -> object:
    """Returns a schema with titles in words, and with no choice between a value and none where empty says the same."""
    if isinstance(node, list):
        return [_for_people(part) for part in cast(list[object], node)]
    if not isinstance(node, dict):
        return node
    field = dict(cast(Schema, node))
    options = field.get("anyOf", ())
    if len(options) == 2 and {"type": "null"} in options and field.get("default") is None:
        (value,) = (option for option in options if option != {"type": "null"})
        del field["anyOf"]
        field.pop("default", None)
        if value.get("type") == "object":
            field |= {"anyOf": [{"type": "null", "title": "As usual"}, value | {"title": "Change"}], "default": None}
        else:
            field = value | field
            if "pattern" in field:
                field["pattern"] = f"^$|{field['pattern']}"
    elif not options and field.get("default", "") is None:
        del field["default"]
    properties = cast(Schema, field.get("properties", {}))
    shown = {key: _for_people(value) for key, value in field.items() if key != "properties"}
    if properties:
        shown["properties"] = {key: _for_people(value, key) for key, value in properties.items()}
        shown.pop("default", None)  # each field has its own
    return shown | ({"title": title(name)} if name else {})


def _gather(form: Schema, whole: Schema, basic: Sequence[str]) -> None:
    """Moves what is not basic into the group `expert`. The server still takes it where the flow has it."""
    fields = cast(Schema, form["properties"])
    group = next(option for option in fields["expert"]["anyOf"] if option["type"] == "object")
    inner = cast(Schema, group["properties"])
    hidden: Schema = {}
    for name in ("control", "machine", "upstream"):
        if name in fields:
            hidden[name] = whole["properties"][name]
            shown = fields.pop(name)
            inner[name] = shown if "anyOf" in shown else inner[name]
        else:
            del inner[name]
    form["patternProperties"] = {_exactly(name): schema for name, schema in hidden.items()}
    first, others = _split(fields["settings"], whole["properties"]["settings"], basic)
    fields["settings"] = first
    if others.get("properties"):
        inner["settings"] = others | {"title": "More settings", "description": "The other settings of the job."}
    else:
        del inner["settings"]
    group["properties"] = {name: inner[name] for name in ("settings", *hidden) if name in inner}


def _split(shown: Schema, whole: Schema, basic: Sequence[str]) -> tuple[Schema, Schema]:
    """Returns a group of fields as two: the basic ones, which also accept the hidden others, and the others."""
    below: dict[str, list[str]] = {}
    for path in basic:
        head, _, rest = path.partition(".")
        below.setdefault(head, []).extend([rest] if rest else [])
    first: Schema = {}
    others = {name: field for name, field in shown["properties"].items() if name not in below}
    hidden = {_exactly(name): whole["properties"][name] for name in others}
    for name, paths in below.items():
        first[name] = shown["properties"][name]
        if paths:
            first[name], left = _split(first[name], whole["properties"][name], paths)
            others |= {name: left} if left["properties"] else {}
    return shown | {"properties": first, "patternProperties": hidden}, shown | {"properties": others}


def _exactly(name: str) -> str:
    return f"^{re.escape(name)}$"


def _offer(node: object, systems: str) -> None:
    """Marks the fields whose values are names of plug-ins with the list they come from."""
    if isinstance(node, list):
        for part in cast(list[object], node):
            _offer(part, systems)
        return
    if not isinstance(node, dict):
        return
    for key, value in cast(Schema, node).items():
        kind = LISTS.get(key)
        if kind and isinstance(value, dict) and "type" in value:
            field = cast(Schema, value)
            (field["items"] if field["type"] == "array" else field)[CHOICES] = systems if kind == "baseline" else kind
        _offer(value, systems)
