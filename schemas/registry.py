"""Registries of plug-ins: found by a decorator in a file of a room, or by an entry point of another package."""

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

from schemas.errors import MissingDependency, UsageError

T = TypeVar("T")


class Registry(Generic[T]):
    """Things by name, filled by importing every module of a package.

    Args:
        kind: What a thing is called in messages, for example `baseline`.
        package: Each of its modules is imported at the first look; the modules call `add`.
        group: Entry point group through which other packages add theirs.
        extra: Extra of this project that the package's modules may need, for the message when it is not installed.
        load: Returns what an entry point registers, without importing it here; None: entry points are imported.
    """

    def __init__(
        self,
        kind: str,
        package: str,
        *,
        group: str | None = None,
        extra: str | None = None,
        load: Callable[[EntryPoint], Mapping[str, T]] | None = None,
    ) -> None:
        self._kind, self._package, self._group, self._extra, self._load = kind, package, group, extra, load
        self._things: dict[str, T] = {}
        self._complete = False

    def add(self, name: str, thing: T) -> T:
        """Registers a thing and returns it.

        Raises:
            ValueError: Another thing has the name.
        """
        if self._things.setdefault(name, thing) is not thing:
            raise ValueError(f"two {self._kind}s are named {name}")
        return thing

    def collect(self, load: Callable[[], object]) -> dict[str, T]:
        """Returns the things that something adds while it is loaded, and keeps none of them."""
        before, self._things = self._things, {}
        try:
            load()
            return self._things
        finally:
            self._things = before

    def all(self) -> dict[str, T]:
        """Everything by name, sorted.

        Raises:
            MissingDependency: A module needs a library that is not installed.
        """
        if not self._complete:
            self._discover()
            self._complete = True
        return dict(sorted(self._things.items()))

    def find(self, name: str) -> T:
        """The thing of that name.

        Raises:
            UsageError: There is none; the message lists those there are.
        """
        known = self.all()
        if name not in known:
            raise UsageError(f"no {self._kind} is named {name!r}; there are: {', '.join(known)}")
        return known[name]

    def _discover(self) -> None:
        for module in pkgutil.iter_modules(importlib.import_module(self._package).__path__):
            try:
                importlib.import_module(f"{self._package}.{module.name}")
            except ImportError as error:
                if self._extra is None:
                    raise
                remedy = f"pip install 'research-arena[{self._extra}]'"
                raise MissingDependency(f"{self._kind} {module.name}: {error}; {remedy}") from error
        for point in entry_points(group=self._group) if self._group else ():
            if self._load is None:
                point.load()
                continue
            for name, thing in self._load(point).items():
                self.add(name, thing)
