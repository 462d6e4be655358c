"""Workers and servers get the variables that they need, and no others."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows import cli
from flows.commands.ui import worker
from flows.pipeline.services import API_KEYS
from flows.server.environment import for_flows, server_environment, worker_environment
from tests.conftest import REPOSITORY

NEEDED = {
    "PATH": "/bin",
    "LC_ALL": "C.UTF-8",
    "HTTPS_PROXY": "http://proxy",
    "ARENA_ROOT": "store",
    "ARENA_LLM_API_KEY": "k1",
    "ARENA_OWN_PLUGIN": "v",
    "S2_API_KEY": "k2",
    "OPENAI_API_KEY": "k3",
    "CUDA_VISIBLE_DEVICES": "1",
    "HF_HOME": "models",
    "PREFECT_API_URL": "http://127.0.0.1:1/api",
    "PREFECT_API_AUTH_STRING": "arena:x",
}
OTHERS = {
    "AWS_SECRET_ACCESS_KEY": "s",
    "GITHUB_TOKEN": "s",
    "HF_TOKEN": "s",
    "PREFECT_API_KEY": "s",
    "PREFECT_SERVER_DATABASE_PASSWORD": "s",
    "SSH_AUTH_SOCK": "s",
    "PGPASSWORD": "s",
    "MY_S2_API_KEY": "s",
}


def test_a_worker_gets_what_flows_need_and_no_other_secret():
    assert worker_environment(NEEDED | OTHERS) == NEEDED


def test_a_server_gets_its_own_settings_and_no_key_of_a_service():
    got = server_environment(NEEDED | OTHERS, PREFECT_HOME="here")
    assert got == {"PATH": "/bin", "LC_ALL": "C.UTF-8", "HTTPS_PROXY": "http://proxy", "PREFECT_HOME": "here"}


def variables_read(path: Path) -> Iterator[str]:
    """Names that a module looks up in the environment by a literal."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and re.fullmatch(r"os\.environ\.\w+", ast.unparse(node.func)):
            yield from (arg.value for arg in node.args[:1] if isinstance(arg, ast.Constant))
        elif isinstance(node, ast.Subscript) and ast.unparse(node.value) == "os.environ":
            yield from ([node.slice.value] if isinstance(node.slice, ast.Constant) else [])


def test_every_variable_that_flows_read_reaches_a_worker():
    sources = [path for room in ("schemas", "tasks", "flows") for path in (REPOSITORY / room).rglob("*.py")]
    read = {name for path in sources for name in variables_read(path)} | set(API_KEYS.values())
    assert {"ARENA_ROOT", "S2_API_KEY", "XDG_STATE_HOME", "RAY_ADDRESS"} <= read
    assert {name for name in read if not for_flows(name)} == set()


def test_the_process_of_a_worker_holds_no_planted_secret(tmp_path, monkeypatch):
    show = tmp_path / "prefect"  # stands in the place of the program: it says what it was given
    show.mkdir()
    (show / "__init__.py").touch()
    (show / "__main__.py").write_text("import os; print(*(f'{k}={v}' for k, v in os.environ.items()), sep='\\n')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("GITHUB_TOKEN", "planted")
    monkeypatch.setenv("S2_API_KEY", "needed")
    with worker("cpu", tmp_path / "log") as process:
        process.wait(60)
    found = dict(line.split("=", 1) for line in (tmp_path / "log").read_text().splitlines() if "=" in line)
    assert found["S2_API_KEY"] == "needed"
    assert "GITHUB_TOKEN" not in found and "planted" not in found.values()


@pytest.mark.parametrize("port", ["-1", "65536"])
def test_a_port_that_does_not_exist_is_refused(port, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.app.meta(["ui", "--port", port], exit_on_error=False) == 2
    assert "--port" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
