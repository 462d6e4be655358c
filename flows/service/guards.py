"""Keeps large requests out, and gives every error the form of RFC 9457."""

import hmac
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import orjson
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError

from tasks.service.problems import Refused, unauthorized

log = logging.getLogger(__name__)

MOST_BYTES = 2**20
"""Bytes of a request's body."""

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Scope]]
Send = Callable[[Scope], Awaitable[None]]
Asgi = Callable[[Scope, Receive, Send], Awaitable[None]]


def answer(value: Any, status: int = 200) -> Response:
    """Returns a value as JSON."""
    return Response(orjson.dumps(value), status, media_type="application/json")


def problem(refused: Refused) -> Response:
    """Returns a refusal in the form of RFC 9457."""
    headers = {"Retry-After": str(refused.retry_after)} if refused.retry_after is not None else {}
    if refused.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return Response(orjson.dumps(refused.body), refused.status, headers, media_type="application/problem+json")


def bearer(request: Request) -> str:
    """Returns the token of a request.

    Raises:
        Refused: There is none.
    """
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise unauthorized()
    return token.strip()


def require_key(request: Request, key: str | None) -> None:
    """Checks the server's key, where it has one.

    Raises:
        Refused: The key is missing or wrong.
    """
    given = request.headers.get("x-arena-key", "")
    if key is not None and not hmac.compare_digest(given.encode(errors="replace"), key.encode()):
        raise Refused(401, "The server asks for its key; send it as: X-Arena-Key: KEY")


def handle_errors(app: FastAPI) -> None:
    """Makes every refusal of an app a problem, without a value of the request."""

    async def refuse(_: Request, error: Exception) -> Response:
        assert isinstance(error, Refused)
        return problem(error)

    async def invalid(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return problem(_invalid(error.errors()))

    async def unreadable(_: Request, __: Exception) -> Response:
        return problem(_invalid([]))

    async def no_page(_: Request, __: Exception) -> Response:
        return problem(Refused(404, "There is no such page; see /docs."))

    async def wrong_method(_: Request, __: Exception) -> Response:
        return problem(Refused(405, "The page takes another method; see /docs."))

    app.add_exception_handler(Refused, refuse)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(400, unreadable)  # what FastAPI makes of a body that no reader of JSON takes
    app.add_exception_handler(404, no_page)
    app.add_exception_handler(405, wrong_method)


def _invalid(errors: Any) -> Refused:
    first = next(iter(errors), {"loc": ("body",), "msg": "is not JSON"})
    places = [str(place) for place in first["loc"] if place != "body" or len(first["loc"]) == 1]
    named = ".".join(places) if first.get("type") != "json_invalid" else "body"
    text = f"{named}: {first['msg']}"[:500].encode(errors="replace").decode()
    return Refused(422, text, field=named[:100].encode(errors="replace").decode())


class Guard:
    """Answers 413 to a request whose body is too large, however it is sent, and 503 where the app fails.

    Args:
        app: What answers the others.
        most: Bytes of a body.
    """

    def __init__(self, app: Asgi, most: int = MOST_BYTES) -> None:
        self._app = app
        self._most = most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Reads the body up to the limit, then hands the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = await self._read(scope, receive)
        if body is None:
            refused = problem(Refused(413, f"The body has more than {self._most:,} bytes."))
            refused.headers["Connection"] = "close"
            await refused(scope, receive, send)
            return
        waiting: list[Scope] = [{"type": "http.request", "body": body, "more_body": False}]
        began = False

        async def replay() -> Scope:
            return waiting.pop() if waiting else await receive()

        async def note(message: Scope) -> None:
            nonlocal began
            began = True
            await send(message)

        try:
            await self._app(scope, replay, note)
        except Exception:
            log.exception("a request failed")
            if began:
                raise
            await failed()(scope, receive, send)

    async def _read(self, scope: Scope, receive: Receive) -> bytes | None:
        """Returns the body; None: it is too large."""
        declared = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if declared.isdigit() and int(declared) > self._most:
            return None
        body, more = bytearray(), True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > self._most:
                return None
        return bytes(body)


def failed() -> Response:
    """Returns the answer to a request that failed, which says nothing of the reason."""
    return problem(Refused(503, "The server cannot answer this now; its operator finds the reason in its log."))
