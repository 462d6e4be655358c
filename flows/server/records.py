"""Remembers on the server what was deployed last, in variables: what differs from it was set by a person."""

from collections.abc import Sequence

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import VariableCreate, VariableUpdate

from flows.server.deployments import TAG
from flows.server.kept import ABSENT, Difference


def read_record(client: SyncPrefectClient, name: str) -> object:
    """Returns what was deployed last under a name; ABSENT: nothing is known."""
    found = client.read_variable_by_name(_variable(name))
    return found.value if found else ABSENT


def write_record(client: SyncPrefectClient, name: str, value: object) -> None:
    """Writes down what was deployed, unless that is known already."""
    known = read_record(client, name)
    if known is ABSENT:
        client.create_variable(VariableCreate(name=_variable(name), value=value, tags=[TAG]))  # pyright: ignore[reportArgumentType]
    elif known != value:
        client.update_variable(VariableUpdate(name=_variable(name), value=value))  # pyright: ignore[reportArgumentType]


def describe(kept: Sequence[Difference]) -> str:
    """Returns what people have set and keep, as one line; empty: nothing."""
    return "; ".join(f"{path} is {there} on the server, {wanted} in the installation" for path, there, wanted in kept)


def _variable(name: str) -> str:
    return f"arena_deployed_{name.replace('-', '_')}"
