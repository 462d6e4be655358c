"""`arena serve`: serves the desk of a store to systems from outside."""

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
from flows.service.serve import KEY, Address, serve_desk
from schemas.service import Quotas
from tasks.service.editions import Means
from tasks.service.service import ServiceSettings
from tasks.store.store import Store


def serve(
    *,
    port: Annotated[
        Whole, Parameter(help="Port to listen on; 0: any free port.", validator=Number(gte=0, lte=65_535))
    ] = 8642,
    host: str = "127.0.0.1",
    quotas: Annotated[Quotas | None, FLAT] = None,
    leases: Count = 1000,
    rate: Count = 1000,
    max_usd: Decimal | None = None,
    pdfs: Path | None = None,
    site: Path | None = None,
    machine: Annotated[Machine | None, FLAT] = None,
) -> None:
    """Serve the desk of the store's editions over REST and MCP, until Ctrl-C or SIGTERM.

    Systems open runs, lease topics, search, read, follow citations and hand in; every call is recorded. The desk
    answers on this machine only, unless the environment has a server key (ARENA_SERVE_KEY) that clients must send.
    Reports of editions are pages at /reports/EDITION/, which need no key; others than this machine see published ones.

    Args:
        host: Address to listen on.
        leases: Topics of a run that can be leased at once.
        max_usd: What a run may spend on language models that its agents ask at /v1/llm/chat/completions, in USD.
        rate: Requests a second that one token may make.
        pdfs: Folder with UUID.pdf at any depth: pages of the papers that questions are about.
        site: Folder with the pages that `arena site` has written; they are served at /site/.
    """
    machine = machine or Machine()
    learn_environment()
    settings = ServiceSettings(quotas=quotas or Quotas(), most_leases=leases, rate=rate, most_usd=max_usd)
    means = Means(machine, tuple(sorted(pdfs.rglob("*.pdf"))) if pdfs else ())

    def announce(url: str) -> None:
        show_text(f"the desk of {machine.root} answers at {url}")
        sys.stdout.flush()

    key = os.environ.get(KEY) or None
    serve_desk(Store(machine.root), means, settings, Address(host, port), key, announce, site)
