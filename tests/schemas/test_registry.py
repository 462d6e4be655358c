"""A registry finds a package's modules by itself, and says clearly what is wrong."""

import sys
from pathlib import Path

import pytest

from schemas.errors import MissingDependency, UsageError
from schemas.registry import Registry


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package whose modules register themselves in `found.registry`."""
    folder = tmp_path / "found_things"
    folder.mkdir()
    (folder / "__init__.py").write_text("registry = None\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield folder.name  # pyright: ignore[reportReturnType]
    for name in [name for name in sys.modules if name.startswith(folder.name)]:
        del sys.modules[name]


def write_module(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / "found_things" / f"{name}.py").write_text(text)


def test_a_new_file_is_enough(package: str, tmp_path: Path) -> None:
    registry: Registry[int] = Registry("thing", package)
    for number, name in enumerate(["second", "first"]):
        write_module(tmp_path, name, f"import {package}\n{package}.registry.add({name!r}, {number})\n")
    __import__(package).registry = registry
    assert registry.all() == {"first": 1, "second": 0}
    assert list(registry.all()) == ["first", "second"]
    assert registry.find("first") == 1


def test_unknown_names_are_answered_with_the_known_ones(package: str) -> None:
    registry: Registry[int] = Registry("thing", package)
    registry.add("a", 1)
    with pytest.raises(UsageError, match="no thing is named 'b'; there are: a"):
        registry.find("b")
    with pytest.raises(ValueError, match="two things are named a"):
        registry.add("a", 2)


def test_a_missing_library_is_named_with_its_remedy(package: str, tmp_path: Path) -> None:
    write_module(tmp_path, "needy", "import a_library_that_is_not_there\n")
    with pytest.raises(MissingDependency, match=r"thing needy: .*a_library.*research-arena\[dense\]"):
        Registry("thing", package, extra="dense").all()
    with pytest.raises(ModuleNotFoundError):
        Registry("thing", package).all()
