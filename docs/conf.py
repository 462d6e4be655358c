"""Sphinx configuration; `make docs` builds the site from nothing but this repository, without a network."""

import os
import re
import sys
from importlib.metadata import version as installed_version
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
for variable in [name for name in os.environ if name.startswith("ARENA_")]:
    del os.environ[variable]  # defaults on the pages are the program's, not this machine's

from reference_pages import write_pages  # noqa: E402
from small_edition import make_small_edition  # noqa: E402

write_pages(HERE / "reference")
os.environ["ARENA_ROOT"] = str(make_small_edition(HERE / "_build" / "edition"))  # what the notebook opens

project = "Research Arena"
html_show_copyright = False
author = "The Research Arena authors"
release = version = installed_version("research-arena")

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
nitpicky = False
suppress_warnings = ["misc.highlighting_failure"]

myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist"]
myst_heading_anchors = 4

nb_execution_mode = "force"
nb_execution_timeout = 120
nb_execution_raise_on_error = True
nb_merge_streams = True

autodoc_member_order = "bysource"
napoleon_use_ivar = True
napoleon_custom_sections = ["Source", "Deviates", "Settings"]
default_role = "code"  # single backticks in docstrings are code, as in Markdown

html_theme = "furo"
html_title = "Research Arena"
html_show_sourcelink = False
html_copy_source = False


def setup(app: Sphinx) -> None:
    """Adapts docstrings, which use Markdown's backticks, to reStructuredText; checks that pages load nothing remote."""
    app.connect("autodoc-skip-member", _skip_tuple_fields)
    app.connect("autodoc-process-docstring", _escape_bars, priority=400)
    app.connect("build-finished", _refuse_remote_files)


def _skip_tuple_fields(app: Sphinx, what: str, name: str, member: object, skip: bool, options: object) -> bool:
    return skip or type(member).__name__ == "_tuplegetter"  # documented as "Alias for field number 0"


def _escape_bars(app: Sphinx, what: str, name: str, member: object, options: object, lines: list[str]) -> None:
    lines[:] = [re.sub(r"(`[^`]*`)|\|", lambda found: found[1] or r"\|", line) for line in lines]


def _refuse_remote_files(app: Sphinx, error: Exception | None) -> None:
    remote = re.compile(r'<(?:script|img|link|iframe)\b[^>]*\b(?:src|href)="(?:https?:)?//[^"]*"')
    found = {match for page in Path(app.outdir).rglob("*.html") for match in remote.findall(page.read_text())}
    if found and not error:
        raise ExtensionError(f"pages load files from other servers: {sorted(found)}")
