"""The refusals of the served desk, each with its HTTP status."""

from http import HTTPStatus
from typing import Any

from schemas.errors import ArenaError


class Refused(ArenaError):
    """A request that cannot be answered; the message is shown to the client.

    Args:
        status: HTTP status.
        detail: What is wrong and what to do; names nothing that is hidden.
        retry_after: Seconds after which the same request may be answered; None: not by waiting.
        more: Further members of the answer: `field` or `quota`.
    """

    def __init__(self, status: int, detail: str, retry_after: int | None = None, **more: str) -> None:
        super().__init__(detail)
        self.status = status
        self.retry_after = retry_after
        self.more = more

    @property
    def body(self) -> dict[str, Any]:
        """The answer in the form of RFC 9457."""
        title = HTTPStatus(self.status).phrase
        return {"type": "about:blank", "title": title, "status": self.status, "detail": str(self), **self.more}


def unavailable() -> Refused:
    """Returns the one answer for what does not exist and for what the topic may not see."""
    return Refused(404, "There is nothing of that id for this topic.")


def unauthorized() -> Refused:
    """Returns the answer to a token that is missing or unknown."""
    return Refused(401, "The token is missing or unknown; send it as: Authorization: Bearer TOKEN")


def over_quota(quota: str) -> Refused:
    """Returns the answer when a quota is used up."""
    return Refused(429, f"The quota of {quota} is used up for this topic; hand in what was found.", quota=quota)


def too_many(seconds: int) -> Refused:
    """Returns the answer to requests that come too fast."""
    return Refused(429, "Too many requests; wait as long as Retry-After says.", seconds)


def is_over() -> Refused:
    """Returns the answer to the token of a lease that has ended."""
    return Refused(410, "The lease of this topic has ended; lease topics again.")


def is_done(what: str) -> Refused:
    """Returns the answer when something was done already."""
    return Refused(409, f"{what} already.")
