"""Ends runs whose process is gone: those that a stopped or killed `arena ui` has left under way."""

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterState, FlowRunFilterStateType
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.states import Cancelled, Crashed

UNDER_WAY = [StateType.RUNNING, StateType.PENDING, StateType.CANCELLING]

MESSAGE = "its process was stopped with arena ui; press Retry: what is finished is kept"


def end_interrupted_runs() -> list[str]:
    """Ends every run of the server of PREFECT_API_URL that is under way. No worker of the server may be running.

    A run that was being cancelled becomes Cancelled, any other Crashed.

    Returns:
        The names of these runs.
    """
    with get_client(sync_client=True) as client:
        found = _under_way(client)
        for run in found:
            ended = Cancelled if run.state and run.state.is_cancelling() else Crashed
            client.set_flow_run_state(run.id, ended(message=MESSAGE), force=True)
        return [run.name for run in found]


def _under_way(client: SyncPrefectClient) -> list[FlowRun]:
    states = FlowRunFilterState(type=FlowRunFilterStateType(any_=UNDER_WAY))  # pyright: ignore[reportCallIssue]
    return client.read_flow_runs(flow_run_filter=FlowRunFilter(state=states))  # pyright: ignore[reportCallIssue]
