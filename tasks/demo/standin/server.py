"""An OpenAI-compatible local endpoint that answers by rules."""

import hashlib
import logging
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self, cast

import orjson
from pydantic import BaseModel, Field

from schemas.errors import BadInput
from schemas.llm import STAND_IN
from schemas.settings import Settings
from tasks.demo.standin.recognition import read_question
from tasks.demo.standin.rule import Asked, ToolCall, all_rules

log = logging.getLogger(__name__)

NAME = STAND_IN
"""Name of its provider and its only model, in every reply, key and table."""

BYTES_PER_TOKEN = 4

_POLL_S = 0.02
"""Seconds until `close` takes effect."""

_TOKENS = re.compile(r"\s*(?:\[[^\]\n]*\]|\[|[^\s\[]+)|\s+")


class StandInSettings(Settings):
    """Address and artificial delay of the stand-in."""

    host: str = Field(default="127.0.0.1", description="Address to listen on; the default answers this machine alone.")
    port: int = Field(default=0, ge=0, le=65535, description="0: any free one.")
    log: Path | None = Field(default=None, description="File to which a line is added for every question answered.")
    delay_s: float = Field(default=0.0, ge=0, le=3600, description="Seconds that every answer takes.")
    max_body_bytes: int = Field(default=64 * 2**20, ge=1, description="A longer request is refused.")


class StandIn:
    """A server that starts listening at once and answers in threads until it is closed.

    Replies name the stand-in: its only model is `stand-in`, and a request for another model fails. Equal requests get
    equal bytes. It accepts any API key.

    Args:
        settings: Address and delay.

    Raises:
        OSError: The address is not available.
    """

    def __init__(self, settings: StandInSettings) -> None:
        self.settings = settings
        self._rules = all_rules()
        self._writing = threading.Lock()
        self._server = _Server((settings.host, settings.port), self)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL_S,), name="stand-in", daemon=True
        )
        self._thread.start()

    @property
    def url(self) -> str:
        """Base URL including `/v1`."""
        return f"http://{self.settings.host}:{self._server.server_address[1]}/v1"

    def wait(self) -> None:
        """Waits until the stand-in is closed."""
        self._thread.join()

    def close(self) -> None:
        """Stops the server."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def complete(self, body: bytes) -> tuple[int, bytes]:
        """Returns status and body of the reply to a chat-completions request."""
        try:
            request = orjson.loads(body)
            if not isinstance(request, dict):
                raise BadInput("the body must be a JSON object")
            request = cast("dict[str, Any]", request)
            if request.get("model") != NAME:
                return _error(
                    404, f"no model {request.get('model')!r}: this is the offline stand-in, its only one is {NAME!r}"
                )
            if request.get("stream"):
                raise BadInput("the stand-in does not stream")
            asked = read_question(request)
            reply = _reply(request, asked, self._answer(asked), hashlib.sha256(body).hexdigest())
        except (BadInput, orjson.JSONDecodeError) as error:
            return _error(400, str(error))
        except Exception as error:
            log.exception("the rule failed")
            return _error(422, f"the rule failed: {type(error).__name__}: {error}")
        time.sleep(self.settings.delay_s)
        self._note(body, asked)
        return 200, orjson.dumps(reply)

    def _answer(self, asked: Asked) -> str | ToolCall:
        rule = self._rules.get(asked.prompt)
        if rule is None:
            raise BadInput(f"the stand-in has no rule for prompt {asked.prompt}")
        answer = rule(asked)
        if isinstance(answer, ToolCall) and answer.name not in asked.tools:
            raise BadInput(f"the rule for {asked.prompt} calls {answer.name}, which is not among {list(asked.tools)}")
        return answer.model_dump_json() if isinstance(answer, BaseModel) else answer

    def _note(self, body: bytes, asked: Asked) -> None:
        if self.settings.log is None:
            return
        line = {"sha256": hashlib.sha256(body).hexdigest(), "prompt": asked.prompt}
        with self._writing, self.settings.log.open("ab") as file:
            file.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512

    def __init__(self, address: tuple[str, int], stand_in: StandIn) -> None:
        self.stand_in = stand_in
        super().__init__(address, _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        log.info("a connection of %s ended early", client_address, exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    """Handles one connection; `http.server` dictates the method names."""

    server: _Server  # pyright: ignore[reportIncompatibleVariableOverride]
    protocol_version = "HTTP/1.1"
    server_version = NAME
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body leave together

    def do_GET(self) -> None:
        if self.path.rstrip("/") == "/v1/models":
            model = {"id": NAME, "object": "model", "created": 0, "owned_by": NAME}
            self._send(200, orjson.dumps({"object": "list", "data": [model]}))
        else:
            self._send(*_error(404, "there are /v1/models and /v1/chat/completions"))

    def do_POST(self) -> None:
        length = self.headers.get("content-length", "")
        limit = self.server.stand_in.settings.max_body_bytes
        if not length.isdecimal() or int(length) > limit:
            self.close_connection = True
            self._send(*_error(413, f"the request must tell its length, at most {limit} bytes"))
            return
        body = self.rfile.read(int(length))
        if self.path == "/v1/chat/completions":
            self._send(*self.server.stand_in.complete(body))
        else:
            self._send(*_error(404, "there are /v1/models and /v1/chat/completions"))

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        if self.close_connection:
            self.send_header("connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        log.debug(format, *args)


def _error(status: int, message: str) -> tuple[int, bytes]:
    code = "model_not_found" if status == 404 else "invalid_request"
    return status, orjson.dumps({"error": {"message": message, "type": "invalid_request_error", "code": code}})


def _reply(request: dict[str, Any], asked: Asked, answer: str | ToolCall, sha256: str) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": None}
    if isinstance(answer, ToolCall):
        arguments = orjson.dumps(dict(answer.arguments)).decode()
        function = {"name": answer.name, "arguments": arguments}
        message["tool_calls"] = [{"id": f"call_{sha256[:24]}", "type": "function", "function": function}]
        finish, written = "tool_calls", arguments
    else:
        limit = request.get("max_tokens") or request.get("max_completion_tokens")
        written = _cut(answer, limit)
        message["content"] = written
        finish = "stop" if written == answer else "length"
    choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": finish}
    if request.get("logprobs"):
        choice["logprobs"] = {"content": _logprobs(written)}
    read = sum(_tokens(turn.text) for turn in asked.messages)
    usage = {"prompt_tokens": read, "completion_tokens": _tokens(written), "total_tokens": read + _tokens(written)}
    told = {"id": f"chatcmpl-{sha256[:24]}", "object": "chat.completion", "created": 0, "model": NAME}
    return {**told, "choices": [choice], "usage": usage}


def _cut(text: str, limit: Any) -> str:
    return text if not isinstance(limit, int) else text.encode()[: limit * BYTES_PER_TOKEN].decode(errors="ignore")


def _tokens(text: str) -> int:
    return -(-len(text.encode()) // BYTES_PER_TOKEN)


def _logprobs(text: str) -> list[dict[str, Any]]:
    """Returns the words and bracketed tokens of a reply with log probabilities of certainty."""
    words = _TOKENS.findall(text)
    return [{"token": word, "logprob": 0.0, "top_logprobs": [{"token": word, "logprob": 0.0}]} for word in words]
