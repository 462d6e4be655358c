"""`arena plugins`: what is registered, of this project and of installed packages."""

import arena
from flows.commands.terminal import show_list


def plugins(kind: str | None = None, /, *, json: bool = False) -> None:
    """List the systems, measures, formats and stages that can be chosen by name.

    Args:
        kind: Only this kind, for example baseline, "search engine" or exporter.
        json: Print as JSON.
    """
    found = [plugin._asdict() for plugin in arena.plugins(kind)]
    show_list(found, json=json)
