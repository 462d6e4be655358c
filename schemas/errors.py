"""The errors that this project raises on purpose; each message says what to do."""

from schemas.messages import one_line


class ArenaError(Exception):
    """Base of all expected failures: the command line prints the message and exits with 1.

    The message is one line of bounded length and shows no query of a URL, whatever text it quotes.
    """

    def __init__(self, message: object = "") -> None:
        super().__init__(one_line(str(message)))


class BadInput(ArenaError, ValueError):
    """An input cannot be used: a file, a record, a label or an argument is wrong."""


class UsageError(ArenaError):
    """The options of a command or the values of a form do not fit together (exit code 2)."""


class MissingDependency(ArenaError, ImportError):
    """An optional package is not installed; the message shows how to install it."""


class ReleaseError(ArenaError):
    """A release or one of its files is missing, empty, truncated or of another form than expected."""


class StoreError(ArenaError):
    """The store cannot be used: it is read-only, full, damaged or of a newer format."""


class StageFailed(ArenaError):
    """A stage failed; the message names the stage, the cause and the remedy."""


class ModelError(ArenaError):
    """No model call can succeed: the key is missing or refused, the model is unknown, or the replay file lacks it."""


class OverBudget(ArenaError):
    """The budget is too small for the next model call. It ends one topic or question, never a whole run."""


class TransientError(ArenaError):
    """A temporary failure, such as a network error or a rate limit. Only these are retried."""
