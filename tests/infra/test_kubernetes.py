"""Job templates and chart values, rendered as Prefect's Kubernetes worker renders them."""

import asyncio
import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml

from flows.service.serve import DESK_PORT, PAGES_PORT

KUBERNETES = Path(__file__).parents[2] / "infra" / "kubernetes"
POOLS = ("cpu", "gpu")
DIFFERENT = {"image", "cpu", "memory", "gpus", "node_selector", "tolerations", "pod_watch_timeout_seconds"}


def template(pool: str) -> dict[str, Any]:
    return json.loads((KUBERNETES / f"{pool}-job-template.json").read_text())


def values(name: str) -> dict[str, Any]:
    return yaml.safe_load((KUBERNETES / f"{name}-values.yaml").read_text())


def job(pool: str, **variables: Any) -> dict[str, Any]:
    """The manifest that a worker of the pool would create for a run."""
    worker = pytest.importorskip("prefect_kubernetes.worker", reason="pip install prefect-kubernetes")
    from prefect.client.orchestration import PrefectClient
    from prefect.client.schemas.objects import FlowRun

    async def render() -> dict[str, Any]:
        offline = PrefectClient("http://127.0.0.1:9/api")  # nothing of the template is asked for
        made = await worker.KubernetesWorkerJobConfiguration.from_template_and_values(
            template(pool), variables, client=offline
        )
        made.prepare_for_flow_run(FlowRun(id=uuid4(), flow_id=uuid4(), name="weekly-1"))
        return made.job_manifest

    return asyncio.run(render())


@pytest.mark.parametrize("pool", POOLS)
def test_a_job_is_one_that_kubernetes_knows(pool: str) -> None:
    models = pytest.importorskip("kubernetes_asyncio.client", reason="pip install prefect-kubernetes")
    manifest = job(pool, env={"PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30"})
    api = models.ApiClient.__new__(models.ApiClient)  # its serializer alone, without a session
    api.configuration = models.Configuration()
    known = api.sanitize_for_serialization(api._ApiClient__deserialize(manifest, "V1Job"))
    # What the models do not know falls out on the way there and back; a quantity may be a number or a text.
    assert _as_texts(known) == _as_texts(manifest)


def _as_texts(value: Any) -> Any:
    return json.loads(json.dumps(value), parse_int=str)


@pytest.mark.parametrize("pool", POOLS)
def test_a_job_gets_gpus_volumes_and_tolerations(pool: str) -> None:
    pod = job(pool)["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["image"] == f"research-arena-{pool}:0.1.0"
    assert container["resources"]["limits"]["nvidia.com/gpu"] == (1 if pool == "gpu" else 0)
    assert [t["key"] for t in pod["tolerations"]] == (["nvidia.com/gpu"] if pool == "gpu" else [])
    assert {v["name"] for v in container["volumeMounts"]} == {v["name"] for v in pod["volumes"]}
    assert pod["securityContext"]["runAsNonRoot"]
    image = (KUBERNETES.parent / "docker" / f"{pool}.Dockerfile").read_text()
    (state,) = (mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] == "state")
    assert f"ARENA_STATE={state}" in image, "jobs on all machines keep one pace of calls to Semantic Scholar"
    other = job(pool, gpus=2, store_claim="fast", tolerations=[{"key": "spot", "operator": "Exists"}])
    pod = other["spec"]["template"]["spec"]
    assert pod["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] == 2
    assert pod["tolerations"] == [{"key": "spot", "operator": "Exists"}]
    assert {"name": "store", "persistentVolumeClaim": {"claimName": "fast"}} in pod["volumes"]


def test_the_pools_differ_in_defaults_only() -> None:
    cpu, gpu = (template(pool) for pool in POOLS)
    assert cpu["job_configuration"] == gpu["job_configuration"]
    for name in DIFFERENT:
        assert cpu["variables"]["properties"][name].pop("default") != gpu["variables"]["properties"][name].pop(
            "default"
        )
    assert cpu["variables"]["properties"] == gpu["variables"]["properties"]
    placed = json.dumps(cpu["job_configuration"])
    assert all(f"{{{{ {name} }}}}" in placed for name in cpu["variables"]["properties"])


def test_only_the_uis_own_pages_may_call_the_api() -> None:
    server = values("server")["server"]
    given = {entry["name"]: entry["value"] for entry in server["env"]}
    origin = given["PREFECT_SERVER_CORS_ALLOWED_ORIGINS"]
    assert server["uiConfig"]["prefectUiApiUrl"] == f"{origin}/api"
    assert origin.startswith("http")


def test_pages_and_desk_are_two_services() -> None:
    items = yaml.safe_load((KUBERNETES / "serve.yaml").read_text())["items"]
    found = {(item["kind"], item["metadata"]["name"]): item["spec"] for item in items}
    assert found.keys() == {(kind, f"arena-{name}") for kind in ("Deployment", "Service") for name in ("desk", "pages")}
    claims = {claim["metadata"]["name"] for claim in yaml.safe_load_all((KUBERNETES / "storage.yaml").read_text())}
    for name, port in (("arena-desk", DESK_PORT), ("arena-pages", PAGES_PORT)):
        pod = found["Deployment", name]["template"]["spec"]
        (container,) = pod["containers"]
        assert container["args"][:2] == ["arena", "serve"]
        assert ("--pages" in container["args"]) == (name == "arena-pages")
        assert container["ports"] == [{"containerPort": port}]
        assert container["readinessProbe"]["httpGet"]["port"] == port
        assert found["Service", name] == {"selector": {"app": name}, "ports": [{"port": port}]}
        assert {v["name"] for v in container["volumeMounts"]} == {v["name"] for v in pod["volumes"]}
        assert {v["persistentVolumeClaim"]["claimName"] for v in pod["volumes"]} < claims


def test_claims_secrets_and_pools_have_one_name_everywhere() -> None:
    claims = {claim["metadata"]["name"] for claim in yaml.safe_load_all((KUBERNETES / "storage.yaml").read_text())}
    properties = template("cpu")["variables"]["properties"]
    assert claims == {properties[f"{name}_claim"]["default"] for name in ("store", "releases", "models", "state")}
    server = values("server")
    auth = server["server"]["basicAuth"]["existingSecret"]
    for pool in POOLS:
        worker = values(f"{pool}-worker")["worker"]
        assert worker["config"]["workPool"] == pool
        assert worker["selfHostedServerApiConfig"]["basicAuth"]["existingSecret"] == auth
        assert auth in [entry["value"] for entry in worker["extraEnvVars"]]
    texts = "".join(path.read_text() for path in KUBERNETES.iterdir())
    assert "authString" not in texts
    assert "password" not in texts.replace("name:password", "").replace("user:password", "")
