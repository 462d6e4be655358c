"""Sphinx configuration; `make docs` builds the site from nothing but this repository, without a network."""

import os
import sys
from importlib.metadata import version as installed_version
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
for variable in [name for name in os.environ if name.startswith("ARENA_")]:
    del os.environ[variable]  # defaults on the pages are the program's, not this machine's

from reference_pages import write_pages  # noqa: E402

write_pages(HERE / "reference")

project = "Research Arena"
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
autodoc_typehints = "signature"
napoleon_google_docstring = True

html_theme = "furo"
html_title = "Research Arena"
html_show_sourcelink = False
html_copy_source = False
