"""What the code imports is declared in pyproject.toml, and what is declared is imported."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
OURS = {"arena", "schemas", "tasks", "flows", "tests"}
BESIDE = {path.stem for path in (REPOSITORY / "docs").glob("*.py")}
"""Modules that the pages are made with; they are on the path where the pages are built."""

NEVER_IMPORTED = {
    "sqlalchemy": "a dependency of Prefect, in versions that work with it",
    "onnx": "a dependency of quantization in onnxruntime, which does not declare it",
    "faiss-gpu-cu12": "another build of the module faiss",
}
BY_COMMAND_OR_PLUG_IN = {
    "furo", "import-linter", "myst-nb", "pyright", "pytest-benchmark", "pytest-timeout", "ruff",
}  # fmt: skip
LOADERS = ("import_module", "importorskip", "__import__")
BY_MAKE_ALONE = {"playwright"}
"""Installed by `make e2e`: it is of no use without a browser."""


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def declared(requirements: list[str]) -> set[str]:
    return {normal(re.split(r"[<>=\[;! ]", requirement, maxsplit=1)[0]) for requirement in requirements}


BASE = declared(PROJECT["dependencies"])
EXTRAS = {name: declared(found) for name, found in PROJECT["optional-dependencies"].items()}
INSTALLED = packages_distributions()


@cache
def imported(path: Path) -> set[str]:
    """Names of the distributions that a module imports, anywhere in it; not the standard library, not our own."""
    modules = {name.partition(".")[0] for name in _names(ast.parse(path.read_text()))}
    modules -= OURS | BESIDE | set(sys.stdlib_module_names)
    return {normal(INSTALLED[module][0]) if module in INSTALLED else normal(module) for module in modules}


def _names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                yield from (name.name for name in node.names)
            case ast.ImportFrom(module=str(module), level=0):
                yield module
            case ast.Call(args=[ast.Constant(value=str(module)), *_]) if (
                ast.unparse(node.func).rpartition(".")[2] in LOADERS
            ):
                yield module
            case _:
                pass


def sources(*rooms: str) -> list[Path]:
    return [REPOSITORY / "arena.py", *(path for room in rooms for path in sorted((REPOSITORY / room).rglob("*.py")))]


def test_every_module_runs_with_the_base_or_with_one_extra_alone():
    missing = {
        str(path.relative_to(REPOSITORY)): needed - BASE
        for path in sources("schemas", "tasks", "flows")
        if (needed := imported(path)) and not any(needed <= BASE | extra for extra in EXTRAS.values())
    }
    assert missing == {}


def test_tests_and_docs_import_what_is_declared():
    everything = BASE.union(*EXTRAS.values()) | BY_MAKE_ALONE
    found = {str(path.relative_to(REPOSITORY)): imported(path) - everything for path in sources("tests", "docs")}
    assert {path: names for path, names in found.items() if names} == {}


def test_what_is_declared_is_imported():
    used = set[str]().union(*map(imported, sources("schemas", "tasks", "flows", "tests", "docs")))
    assert BASE.union(*EXTRAS.values()) - used == NEVER_IMPORTED.keys() | BY_COMMAND_OR_PLUG_IN


@pytest.mark.parametrize("extra", sorted(EXTRAS.keys() - {"gpu"}))
def test_every_declared_package_has_one_version_that_is_tested(extra: str):
    lines = (REPOSITORY / "constraints.txt").read_text().splitlines()
    pinned = {normal(line.partition("==")[0]) for line in lines if "==" in line}
    assert BASE | EXTRAS[extra] <= pinned


def locked(path: Path) -> dict[str, str]:
    """Versions in a file with hashes, of which every entry has one."""
    entries = re.split(r"\n(?=\S)", path.read_text().strip())
    found = [re.fullmatch(r"([\w.-]+)==(\S+)((?: \\\n    --hash=sha256:[0-9a-f]{64})+)", entry) for entry in entries]
    assert all(found), path
    return {normal(match[1]): match[2] for match in found if match}


@pytest.mark.parametrize(
    ("file", "extras", "without"),
    [
        ("requirements.lock", EXTRAS.keys() - {"gpu"}, {"torch"}),
        ("infra/docker/cpu.lock", {"dense", "organize", "llm", "pdf"}, {"torch"}),
        ("infra/docker/gpu.lock", {"dense", "organize", "llm", "pdf", "ray", "gpu"}, {"faiss-cpu"}),
    ],
)
def test_every_locked_version_has_hashes_and_is_the_tested_one(file: str, extras: set[str], without: set[str]):
    lines = (REPOSITORY / "constraints.txt").read_text().splitlines()
    pinned = {normal(name): version for name, _, version in (line.partition("==") for line in lines) if version}
    found = locked(REPOSITORY / file)
    assert {name: version for name, version in found.items() if pinned.get(name, version) != version} == {}
    needed = BASE.union({"setuptools"}, *(EXTRAS[extra] for extra in extras)) - without  # PyTorch asks for setuptools
    assert needed - found.keys() == set(), "run: make lock"
    assert not without & found.keys()
