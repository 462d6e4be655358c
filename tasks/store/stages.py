"""Every stage by name, in the order in which data flows.

A stage is declared once, by `@stage(...)` above its function. The declarations are read from the source files, so that
nothing is imported (some stages need an optional package) before a stage is asked for.
"""

import ast
import importlib.util
import re
from collections.abc import Iterator
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import NamedTuple

from schemas.errors import MissingDependency, UsageError
from schemas.identifiers import StageName
from tasks.store.stage import AnyStage, Stage

PACKAGE = "tasks"
ENTRY_POINTS = "arena.stages"
"""Another package names a module with a stage in this entry point group."""


_DECORATED = re.compile(r"^(@(?:\w+\.)*stage\(.*?^)(?=def )", re.MULTILINE | re.DOTALL)
"""Decorators of a function, of which the first is `@stage`: only they are parsed, because every start needs them."""


class Declaration(NamedTuple):
    """Where a stage is declared, and the stage that it follows in the order of data."""

    name: StageName
    module: str
    after: str | None


@cache
def declared_stages() -> dict[StageName, Declaration]:
    """Returns the stages of this project and of installed packages, in the order in which data flows.

    Raises:
        UsageError: Two stages have the same name, or an installed package names a module that does not exist.
    """
    found: dict[StageName, Declaration] = {}
    for declaration in _find_declarations():
        other = found.setdefault(declaration.name, declaration)
        if other.module != declaration.module:
            raise UsageError(
                f"two stages are named {declaration.name}: in {other.module} and in {declaration.module}; rename one"
            )
    return {name: found[name] for name in _in_order(found)}


def stage_position(name: str) -> int:
    """Returns the place of a stage in the order of data; stages that are not installed come last."""
    names = list(declared_stages())
    return names.index(StageName(name)) if name in names else len(names)


def find_stage(name: str) -> AnyStage:
    """Imports the module of a stage and returns the stage.

    Raises:
        UsageError: There is no such stage; the message lists those there are.
        MissingDependency: The stage needs a package that is not installed.
    """
    declaration = declared_stages().get(StageName(name))
    if declaration is None:
        raise UsageError(f"no stage is named {name!r}; there are: {', '.join(declared_stages())}")
    try:
        module = importlib.import_module(declaration.module)
    except MissingDependency:
        raise
    except ImportError as error:
        raise MissingDependency(
            f"stage {name}: {error}; install the package that {declaration.module} needs"
        ) from error
    return next(found for found in vars(module).values() if isinstance(found, Stage) and found.name == name)


def all_stages() -> dict[StageName, AnyStage]:
    """Imports every stage and returns them by name, in the order in which data flows.

    Raises:
        MissingDependency: A stage needs a package that is not installed.
    """
    return {name: find_stage(name) for name in declared_stages()}


def _find_declarations() -> Iterator[Declaration]:
    root = Path(__file__).parents[1]
    for path in sorted(root.rglob("*.py")):
        yield from _read_declarations(path, ".".join([PACKAGE, *path.relative_to(root).with_suffix("").parts]))
    for point in sorted(entry_points(group=ENTRY_POINTS)):
        spec = importlib.util.find_spec(point.module)
        if spec is None or spec.origin is None:
            raise UsageError(
                f"entry point {point.name} of {ENTRY_POINTS}: there is no module {point.module}; "
                "reinstall or remove the package that names it"
            )
        yield from _read_declarations(Path(spec.origin), point.module)


def _read_declarations(path: Path, module: str) -> Iterator[Declaration]:
    for decorators in _DECORATED.findall(path.read_text(encoding="utf-8")):
        (function,) = ast.parse(f"{decorators}def decorated(): ...").body
        for call in function.decorator_list if isinstance(function, ast.FunctionDef) else ():
            if isinstance(call, ast.Call) and ast.unparse(call.func).rpartition(".")[2] == "stage":
                after = next((ast.literal_eval(word.value) for word in call.keywords if word.arg == "after"), None)
                yield Declaration(StageName(ast.literal_eval(call.args[0])), module, after)


def _in_order(found: dict[StageName, Declaration]) -> list[StageName]:
    """Puts every stage right behind the one that it follows; a stage that follows none that is installed comes last."""
    followers: dict[str | None, list[StageName]] = {}
    for item in found.values():
        followers.setdefault(item.after if item.after in found else None, []).insert(0, item.name)
    order: list[StageName] = []
    waiting = followers[None]
    while waiting:
        order.append(waiting.pop())
        waiting += reversed(followers.get(order[-1], []))
    return order + [name for name in found if name not in order]
