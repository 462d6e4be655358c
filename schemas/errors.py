"""Every error that this project raises on purpose: few named types, each with a message that says what to do."""


class ArenaError(Exception):
    """Base of all expected failures; the CLI prints its message as one line and exits with 1."""


class BadInput(ArenaError, ValueError):
    """Something handed to us is not usable as it is: a file, a record, a label, an argument."""


class UsageError(ArenaError):
    """A command or a form was filled with values that do not fit together (exit code 2)."""


class MissingDependency(ArenaError, ImportError):
    """An optional package is needed for what was asked; the message holds the install line."""


class ReleaseError(ArenaError):
    """A release or one of its files cannot be read: absent, empty, truncated, not of the expected form."""


class StoreError(ArenaError):
    """The store cannot do what was asked: unwritable, full, newer format, damaged, pinned by an edition."""


class StageFailed(ArenaError):
    """A stage ended without a dataset; the message names the stage, the cause and the remedy."""


class ModelError(ArenaError):
    """No call to the model can succeed: no or a refused key, an unknown model, a call that the replay file lacks."""


class OverBudget(ArenaError):
    """What may be spent on models leaves too little for the next call: an outcome of one subject, never of a run."""


class TransientError(ArenaError):
    """A failure that may pass by itself (a network, a rate limit): the only kind that is retried."""
