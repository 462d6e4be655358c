"""The command line `arena`: the names of the commands, the options they share, and how errors are shown."""

import re
import reprlib
import signal
import sys
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

from cyclopts import App, CycloptsError, Group, Parameter

from flows.commands.terminal import show_error, show_logs
from schemas.errors import ArenaError, UsageError
from schemas.messages import describe_refusal

if TYPE_CHECKING:
    from pydantic import ValidationError

OK, FAILED, BAD_USAGE, INTERRUPTED, TERMINATED = 0, 1, 2, 130, 143

app = App(
    name="arena",
    help="Turns Semantic Scholar releases into benchmark editions, and runs systems on them.",
    version=lambda: version("research-arena"),
    default_parameter=Parameter(negative=(), consume_multiple=True),
    result_action="return_value",
    help_format="plaintext",
    suppress_keyboard_interrupt=False,
)


def _add(group: App, path: str, **names: str) -> None:
    """Adds the command `<module>:<function>`, which is imported when it runs or shows its own help."""
    group.command(f"flows.commands.{path}", help=_summary(*path.split(":")), **names)


def _summary(module: str, function: str) -> str:
    """Returns the first paragraph of a command's docstring, read from its file, so that help imports no command."""
    text = Path(__file__).with_name("commands").joinpath(f"{module}.py").read_text(encoding="utf-8")
    found = re.search(rf'^def {function}\(.*?^    """(.*?)(?:"""|\n\n)', text, re.MULTILINE | re.DOTALL)
    return " ".join(found[1].split()) if found else ""


_add(app, "build:build")
_add(app, "build:index")
app.command(run := App(name="run", help="Run systems on an edition's topics and score them."))
_add(run, "run:discovery")
_add(run, "run:selection")
_add(run, "run:organization")
_add(app, "submit:submit")
_add(app, "serve:serve")
_add(app, "build:report")
_add(app, "search:search")
_add(app, "judge:judge")
app.command(score := App(name="score", help="Score files of rankings."))
_add(score, "score:ranking")
_add(score, "score:tree")
_add(score, "score:headings")
app.command(corpus := App(name="corpus", help="Check the stages that make the corpus."))
_add(corpus, "corpus:selector", name="score-selector")
app.command(audit := App(name="audit", help="Draw samples of an edition for people to check, and score their answers."))
_add(audit, "audit:surveys")
_add(audit, "audit:mindmaps")
_add(audit, "audit:judgments")
_add(audit, "audit:score")
app.command(release := App(name="release", help="Fetch releases and check them."))
_add(release, "release:list_found", name="list")
_add(release, "release:fetch")
_add(release, "release:check")
_add(release, "release:diff")
app.command(edition := App(name="edition", help="Show, check and publish editions."))
_add(edition, "edition:list_editions", name="list")
_add(edition, "edition:show")
_add(edition, "edition:diff")
_add(edition, "edition:fresh")
_add(edition, "edition:verify")
_add(edition, "edition:mindmap")
_add(edition, "edition:publish")
_add(app, "site:site")
_add(app, "export:export")
_add(app, "import_set:import_set", name="import")
_add(app, "plugins:plugins")
_add(app, "edition:gc")
app.command(llm := App(name="llm", help="Work with language models."))
_add(llm, "llm:stand_in", name="stand-in")
_add(llm, "llm:local")
_add(llm, "llm_check:check")
_add(llm, "llm:cost")
_add(llm, "llm:seal")
_add(llm, "llm:export")
_add(llm, "llm:forget")
_add(llm, "llm:why_miss", name="why-miss")
_add(app, "status:status")
_add(app, "status:rerun")
_add(app, "deploy:deploy")
_add(app, "ui:ui")
app.command(airqa := App(name="airqa", help="Ask questions about papers, and score the answers."))
_add(airqa, "airqa:run")
_add(airqa, "airqa:check")
_add(airqa, "airqa:score")
_add(airqa, "airqa:extract")
_add(airqa, "airqa:synthesize", alias="make-up")
_add(app, "demo:demo")

app.register_install_completion_command(help="Let the shell complete commands and options with the Tab key.")

app.meta.suppress_keyboard_interrupt = False
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
    except Exception as error:
        if debug:
            raise
        show_error(_one_line(error))
        return _exit_code(error)


class Terminated(KeyboardInterrupt):
    """Another process asked this one to end."""


def main() -> None:
    """Runs the command line and exits: 0 done, 1 failed, 2 used wrongly, 130 interrupted, 143 terminated."""
    signal.signal(signal.SIGTERM, _terminate)
    try:
        sys.exit(app.meta(exit_on_error=False, print_error=False) or OK)
    except CycloptsError as error:
        show_error(_one_line(error))
        sys.exit(BAD_USAGE)
    except KeyboardInterrupt as stopped:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C while everything is closed
        ended = "terminated" if isinstance(stopped, Terminated) else "interrupted"
        where = f" in {stopped}" if str(stopped) else ""
        show_error(f"{ended}{where}; what is finished is kept: run the same command again to go on")
        sys.exit(TERMINATED if isinstance(stopped, Terminated) else INTERRUPTED)


def _terminate(_number: int, _frame: object) -> NoReturn:
    raise Terminated


def _refused(error: BaseException | None) -> "ValidationError | None":
    """Returns what pydantic found wrong with options; files of others are validated where they are read."""
    from pydantic import ValidationError

    found = error.__cause__ if isinstance(error, CycloptsError) else error
    return found if isinstance(found, ValidationError) else None


def _exit_code(error: Exception) -> int:
    return BAD_USAGE if isinstance(error, CycloptsError | UsageError) or _refused(error) else FAILED


def _one_line(error: Exception) -> str:
    """Returns what is wrong and what to do about it, on one line."""
    if refused := _refused(error):
        named = getattr(getattr(error, "argument", None), "name", "the value")
        wrong = [(f"--{e['loc'][0]}".replace("_", "-") if e["loc"] else named, e) for e in refused.errors()]
        told = [f"{name} {reprlib.repr(e['input'])}: {e['msg'].removeprefix('Value error, ')}" for name, e in wrong]
        return "; ".join(told) + "; see --help"
    if isinstance(error, CycloptsError | ArenaError):
        return str(error)
    if isinstance(error, OSError) and (refused_path := describe_refusal(error)):
        return refused_path
    return f"{type(error).__name__}: {error}; run it again with --debug to see where this comes from"


if __name__ == "__main__":
    main()
