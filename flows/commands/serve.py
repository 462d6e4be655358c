"""`arena serve`: serves the desk of a store to systems from outside, or its pages to people."""

import os
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from flows.commands.options import FLAT, Count, Decimal, Whole
from flows.commands.terminal import show_text
from flows.pipeline.machine import Machine
from flows.pipeline.secrets import learn_environment
from flows.service.serve import DESK_PORT, KEY, PAGES_PORT, Address, serve_desk, serve_pages
from schemas.errors import UsageError
from schemas.service import Quotas
from schemas.split import Split
from tasks.service.editions import Means
from tasks.service.service import ServiceSettings
from tasks.store.store import Store


def serve(
    *,
    port: Annotated[
        Whole | None,
        Parameter(
            help=f"Port to listen on; 0: any free port; left out: {DESK_PORT}, of pages {PAGES_PORT}.",
            validator=Number(gte=0, lte=65_535),
        ),
    ] = None,
    host: str = "127.0.0.1",
    quotas: Annotated[Quotas | None, FLAT] = None,
    leases: Count = 1000,
    rate: Count = 1000,
    max_usd: Decimal | None = None,
    pdfs: Path | None = None,
    split: Annotated[Split | None, FLAT] = None,
    pages: bool = False,
    site: Path | None = None,
    machine: Annotated[Machine | None, FLAT] = None,
) -> None:
    """Serve the desk of the store's editions over REST and MCP, or their pages, until Ctrl-C or SIGTERM.

    Systems open runs, lease topics, search, read, follow citations and hand in; every call is recorded. The desk
    answers on this machine only, unless the environment has a server key (ARENA_SERVE_KEY) that clients must send. It
    tells the scores of a finished run over public topics alone: draw them as `arena export --split public` does.

    With --pages the server has no desk: it shows reports at /reports/EDITION/ and, with --site, the leaderboards. They
    hold judgments and need no key; others than this machine see reports of published editions only.

    Args:
        host: Address to listen on.
        leases: Topics of a run that can be leased at once.
        max_usd: What a run may spend on language models that its agents ask at /v1/llm/chat/completions, in USD.
        rate: Requests a second that one token may make.
        pdfs: Folder with UUID.pdf at any depth: pages of the papers that questions are about.
        pages: Serve the pages instead of the desk; of the options, only address, folders and --site count.
        site: With --pages: folder that `arena site` has written; it is served at /site/.
    """
    if site and not pages:
        raise UsageError("--site: the desk serves no pages, which show judgments; add --pages to serve them instead")
    machine = machine or Machine()
    store = Store(machine.root)

    def announce(url: str) -> None:
        what = "pages" if pages else "desk"
        show_text(f"the {what} of {machine.root} answer{'' if pages else 's'} at {url}")
        sys.stdout.flush()

    address = Address(host, port if port is not None else PAGES_PORT if pages else DESK_PORT)
    if pages:
        serve_pages(store, site, address, announce)
        return
    learn_environment()
    settings = ServiceSettings(
        quotas=quotas or Quotas(), most_leases=leases, rate=rate, most_usd=max_usd, split=split or Split()
    )
    means = Means(machine, tuple(sorted(pdfs.rglob("*.pdf"))) if pdfs else ())
    serve_desk(store, means, settings, address, os.environ.get(KEY) or None, announce)
