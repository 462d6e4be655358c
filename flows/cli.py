"""The command line `arena`: the names of the commands, the options they share, and how errors are shown."""

import reprlib
import sys
from importlib.metadata import version
from typing import Annotated

from cyclopts import App, CycloptsError, Group, Parameter
from pydantic import ValidationError

from flows.commands.terminal import show_error, show_logs
from schemas.errors import ArenaError, UsageError

OK, FAILED, BAD_USAGE, INTERRUPTED = 0, 1, 2, 130
_USAGE = (CycloptsError, ValidationError, UsageError)

app = App(
    name="arena",
    help="Turns Semantic Scholar releases into benchmark editions, and runs systems on them.",
    version=lambda: version("research-arena"),
    default_parameter=Parameter(negative=(), consume_multiple=True),
    result_action="return_value",
)
app.command("flows.commands.build:build")
app.command("flows.commands.build:index")
app.command(run := App(name="run", help="Run systems on an edition's topics and score them."))
run.command("flows.commands.run:discovery")
run.command("flows.commands.run:selection")
run.command("flows.commands.run:organization")
app.command("flows.commands.build:report")
app.command("flows.commands.search:search")
app.command("flows.commands.judge:judge")
app.command(score := App(name="score", help="Score files of rankings."))
score.command("flows.commands.score:ranking")
score.command("flows.commands.score:tree")
score.command("flows.commands.score:headings")
app.command(corpus := App(name="corpus", help="Check the stages that make the corpus."))
corpus.command("flows.commands.corpus:selector", name="score-selector")
app.command(audit := App(name="audit", help="Draw samples of an edition for people to check, and score their answers."))
audit.command("flows.commands.audit:surveys")
audit.command("flows.commands.audit:mindmaps")
audit.command("flows.commands.audit:judgments")
audit.command("flows.commands.audit:score")
app.command(release := App(name="release", help="Fetch releases and check them."))
release.command("flows.commands.release:list_found", name="list")
release.command("flows.commands.release:fetch")
release.command("flows.commands.release:check")
release.command("flows.commands.release:diff")
app.command(edition := App(name="edition", help="Show, check and publish editions."))
edition.command("flows.commands.edition:list_editions", name="list")
edition.command("flows.commands.edition:show")
edition.command("flows.commands.edition:diff")
edition.command("flows.commands.edition:fresh")
edition.command("flows.commands.edition:verify")
edition.command("flows.commands.edition:mindmap")
edition.command("flows.commands.edition:publish")
app.command("flows.commands.export:export")
app.command("flows.commands.import_set:import_set", name="import")
app.command("flows.commands.plugins:plugins")
app.command("flows.commands.edition:gc")
app.command(llm := App(name="llm", help="Work with language models."))
llm.command("flows.commands.llm:stand_in", name="stand-in")
llm.command("flows.commands.llm:cost")
llm.command("flows.commands.llm:seal")
llm.command("flows.commands.llm:export")
llm.command("flows.commands.llm:why_miss", name="why-miss")
app.command("flows.commands.status:status")
app.command("flows.commands.status:rerun")
app.command("flows.commands.deploy:deploy")
app.command("flows.commands.ui:ui")
app.command(airqa := App(name="airqa", help="Ask questions about papers, and score the answers."))
airqa.command("flows.commands.airqa:run")
airqa.command("flows.commands.airqa:check")
airqa.command("flows.commands.airqa:score")
airqa.command("flows.commands.airqa:extract")
airqa.command("flows.commands.airqa:synthesize", alias="make-up")
app.command("flows.commands.demo:demo")

_ANYWHERE = Group("Everywhere")


@app.meta.default
def _launch(
    *tokens: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)],
    debug: Annotated[bool, Parameter(group=_ANYWHERE)] = False,
    verbose: Annotated[bool, Parameter(group=_ANYWHERE)] = False,
) -> int | None:
    """Turns Semantic Scholar releases into benchmark editions, and runs systems on them.

    Args:
        tokens: The command with its options.
        debug: Show the traceback of an error instead of one line.
        verbose: Log what happens.
    """
    if verbose or debug:
        show_logs()
    try:
        return app(tokens, exit_on_error=False, print_error=False)
    except KeyboardInterrupt:
        show_error("interrupted; finished shards are kept, run the same command to continue")
        return INTERRUPTED
    except Exception as error:
        if debug:
            raise
        show_error(_one_line(error))
        return BAD_USAGE if isinstance(error, _USAGE) else FAILED


def main() -> None:
    """Runs the command line and exits: 0 done, 1 failed, 2 used wrongly."""
    _import_shown_commands(sys.argv[1:])
    try:
        sys.exit(app.meta(exit_on_error=False, print_error=False) or OK)
    except CycloptsError as error:
        show_error(_one_line(error))
        sys.exit(BAD_USAGE)


def _import_shown_commands(tokens: list[str]) -> None:
    """Imports the commands of the group whose help is shown; otherwise only the command that runs is imported."""
    named = [found for found in app.parse_commands(tokens)[1] if found.name != ("help-print",)]
    if named[-1].default_command is None:
        named[-1].resolved_commands()


def _one_line(error: Exception) -> str:
    """Returns what is wrong and what to do about it, on one line."""
    refused = error.__cause__ if isinstance(error, CycloptsError) else error
    if isinstance(refused, ValidationError):  # options; files of others are validated where they are read
        named = getattr(getattr(error, "argument", None), "name", "the value")
        wrong = [(f"--{e['loc'][0]}".replace("_", "-") if e["loc"] else named, e) for e in refused.errors()]
        told = [f"{name} {reprlib.repr(e['input'])}: {e['msg'].removeprefix('Value error, ')}" for name, e in wrong]
        return "; ".join(told) + "; see --help"
    if isinstance(error, (*_USAGE, ArenaError)):
        return str(error)
    return f"{type(error).__name__}: {error}; run it again with --debug to see where this comes from"


if __name__ == "__main__":
    main()
