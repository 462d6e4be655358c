"""The HTTP client under the official package's, which the batch service is asked with."""

from typing import Any

import httpx2


class BoundedClient(httpx2.AsyncClient):
    """An HTTP client that stops reading a body at a limit.

    It asks for uncompressed bodies, because a few compressed bytes could unpack to any size.

    Args:
        limit: Longest body, in bytes.
        settings: As for `httpx2.AsyncClient`.
    """

    def __init__(self, limit: int, **settings: Any) -> None:
        super().__init__(headers={"Accept-Encoding": "identity"}, **settings)
        self._limit = limit

    async def send(self, request: httpx2.Request, *, stream: bool = False, **options: Any) -> httpx2.Response:
        """Sends a request and reads the response body, unless a successful response is requested as a stream."""
        response = await super().send(request, stream=True, **options)
        if stream and response.is_success:
            return response
        body = bytearray()
        try:
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > self._limit:
                    break
        finally:
            await response.aclose()
        headers = [(name, value) for name, value in response.headers.multi_items() if name not in _BODY_HEADERS]
        return httpx2.Response(
            response.status_code,
            headers=headers,
            content=bytes(body[: self._limit]),
            request=request,
            extensions=response.extensions,
        )


_BODY_HEADERS = frozenset({"content-encoding", "content-length", "transfer-encoding"})
