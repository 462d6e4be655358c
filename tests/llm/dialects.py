"""Twelve dialects of the chat-completions protocol, as scripted endpoints: what each refuses, and how it answers.

The replies follow the pages that `docs/reference/endpoints.md` cites; that page's table is checked against this file.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.llm.conftest import GOOD
from tests.llm.scripted_server import Answer, Seen, as_json, error

COLUMNS = ("chat", "JSON schema", "tools", "images", "reasoning", "usage", "errors", "limits")

Refuses = Callable[[Seen], Answer | None]


@dataclass(frozen=True)
class Dialect:
    """One endpoint.

    Attributes:
        title: Name in the table.
        provider: Name of the endpoint, by which profiles are chosen.
        refuses: Answers a request that the endpoint does not take.
        reasoned: The reply of a model that reasons; its text is `fine`.
        failed: An error of the endpoint's own form, and the outcome, the error or the retry that it must give.
        limited: How the endpoint turns a call away, and the seconds that it asks to wait (None: it does not say).
        usage: The reply's usage, and the tokens read and written that it means.
        told: What the table says of each column.
        message, more: Further members of every message, and of every reply.
        path: Path and query of the endpoint's URL.
        forms: How the form of an answer arrives: the type of `response_format`, or `words`.
        images: Whether pictures are taken.
        call_id: Id of a tool call; None: the endpoint gives none.
        call_arguments: Arguments of a tool call, as text or as an object.
        context: Entry of the list of models that states the context.
    """

    title: str
    provider: str
    refuses: Refuses
    reasoned: Mapping[str, Any]
    failed: tuple[Answer, str]
    limited: tuple[Answer, float | None]
    usage: tuple[Mapping[str, Any], tuple[int, int]]
    told: tuple[str, ...]
    model: str = "m"
    message: Mapping[str, Any] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)
    path: str = "/v1"
    forms: str = "json_schema"
    images: bool = True
    call_id: str | None = "call_1"
    call_arguments: Any = '{"at": "x"}'
    context: Mapping[str, Any] = field(default_factory=dict)

    def reply(self, message: Mapping[str, Any], finish: str = "stop") -> Answer:
        """A reply with a message."""
        told = {"id": "c", "object": "chat.completion", "created": 1, "model": f"{self.model}-2026", **self.more}
        whole = {"role": "assistant", **self.message, **message}
        choice = {"index": 0, "message": whole, "finish_reason": finish}
        return as_json({**told, "choices": [choice], "usage": self.usage[0]})

    def play(self, seen: Seen, number: int) -> Answer:
        """Answers a request: a call where functions are offered, an object where a form is asked for, else `fine`."""
        if refused := self.refuses(seen):
            return refused
        if "tools" in seen.json:
            call = {"type": "function", "function": {"name": "look", "arguments": self.call_arguments}}
            call |= {"id": self.call_id} if self.call_id is not None else {}
            return self.reply({"content": None, "tool_calls": [call]}, "tool_calls")
        if "response_format" in seen.json or "JSON object" in str(seen.last):
            return self.reply({"content": GOOD})
        return self.reply({"content": "fine"})


def nothing(seen: Seen) -> Answer | None:
    """Takes every request."""
    return None


def _schema(seen: Seen) -> Mapping[str, Any]:
    form = seen.json.get("response_format") or {}
    return form.get("json_schema") or {}


def unsupported(*names: str) -> Refuses:
    """Refuses members, as OpenAI does."""

    def refuses(seen: Seen) -> Answer | None:
        found = next((name for name in names if name in seen.json), None)
        told = f"Unsupported parameter: '{found}' is not supported with this model."
        return error(400, told, "unsupported_parameter") if found else None

    return refuses


def openai(seen: Seen) -> Answer | None:
    """A reasoning model of OpenAI's, whose strict schemas know no lengths of texts."""
    if "Length" in json.dumps(_schema(seen)):
        return error(400, "Invalid schema for response_format 'Rated': 'minLength' is not permitted.")
    return unsupported("max_tokens", "temperature", "logprobs")(seen)


def azure(seen: Seen) -> Answer | None:
    """A deployment that wants its key in `api-key`, a version in the URL, and schemas without bounds."""
    if "api-key" not in seen.headers or "authorization" in seen.headers:
        return error(401, "Access denied due to missing subscription key.", "401")
    if not seen.path.endswith("/chat/completions?api-version=2024-10-21"):
        return error(404, "Resource not found", "404")
    if any(word in json.dumps(_schema(seen)) for word in ("Length", "minimum", "maximum")):
        return error(400, "Invalid schema for response_format 'Rated': 'minimum' is not permitted.")
    return None


def mistral(seen: Seen) -> Answer | None:
    """An endpoint that refuses members that it does not know."""
    unknown = {"seed", "logprobs", "max_completion_tokens"} & seen.json.keys()
    detail = [
        {"type": "extra_forbidden", "loc": ["body", name], "msg": "Extra inputs are not permitted"} for name in unknown
    ]
    return as_json({"object": "error", "message": {"detail": detail}}, 422) if unknown else None


def deepseek(seen: Seen) -> Answer | None:
    """An endpoint with JSON mode alone, which wants the word in the prompt."""
    form = seen.json.get("response_format", {}).get("type")
    if form == "json_schema":
        return error(400, "This response_format type is unavailable now", "invalid_request_error")
    if form == "json_object" and "json" not in str(seen.json["messages"]).lower():
        return error(400, "Prompt must contain the word 'json'", "invalid_request_error")
    return None


def anthropic(seen: Seen) -> Answer | None:
    """An endpoint that takes strict schemas without bounds alone."""
    if schema := _schema(seen):
        if schema.get("strict") is not True:
            return error(400, "response_format.json_schema.strict: Input should be True")
        if any(word in json.dumps(schema) for word in ("Length", "minimum", "maximum")):
            return error(400, "output_format.schema: For 'integer' type, properties maximum, minimum are not supported")
    return None


PLAIN = {"prompt_tokens": 20, "completion_tokens": 7, "total_tokens": 27}
READ = (PLAIN, (20, 7))
REASONED = (PLAIN | {"completion_tokens_details": {"reasoning_tokens": 5}}, (20, 7))
OVER = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}
GOOGLE_LIMIT = [{"error": {"code": 429, "message": "Quota", "status": "RESOURCE_EXHAUSTED", "details": [OVER]}}]
AZURE_FILTER = {
    "message": "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
    "param": "prompt",
    "code": "content_filter",
    "status": 400,
    "innererror": {"code": "ResponsibleAIPolicyViolation"},
}

DIALECTS = (
    Dialect(
        "OpenAI",
        "api.openai.com",
        openai,
        {"content": "fine", "refusal": None},
        (as_json({"choices": [{"message": {"content": None, "refusal": "I can't help."}}]}), "refused"),
        (
            error(
                429,
                "Rate limit",
                "rate_limit_exceeded",
                x_ratelimit_remaining_requests="0",
                x_ratelimit_reset_requests="1m30s",
            ),
            90.0,
        ),
        REASONED,
        (
            "`max_completion_tokens`, no temperature",
            "strict, without lengths",
            "yes",
            "yes",
            "hidden; floor of 4,096 tokens",
            "yes",
            "`refusal` is an outcome",
            "`x-ratelimit-*`",
        ),
        model="gpt-5-mini",
        more={"system_fingerprint": "fp_1"},
    ),
    Dialect(
        "Azure OpenAI",
        "x.openai.azure.com",
        azure,
        {"content": "fine", "refusal": None},
        (as_json({"error": AZURE_FILTER}, 400), "refused"),
        (error(429, "Requests have exceeded call rate limit", "429", retry_after="12"), 12.0),
        REASONED,
        (
            "`?api-version=`, `api-key`",
            "strict, without bounds",
            "yes",
            "yes",
            "hidden",
            "yes",
            "`content_filter` is an outcome",
            "`retry-after`",
        ),
        path="/openai/deployments/d?api-version=2024-10-21",
        more={"prompt_filter_results": [{"prompt_index": 0, "content_filter_results": {}}]},
    ),
    Dialect(
        "vLLM",
        "vllm",
        nothing,
        {"content": "fine", "reasoning": "hm", "reasoning_content": None},
        (
            as_json(
                {
                    "object": "error",
                    "message": "This model's maximum context length is 4096 tokens.",
                    "type": "BadRequestError",
                    "param": None,
                    "code": 400,
                },
                400,
            ),
            "too_long",
        ),
        (error(503, "The engine is overloaded"), None),
        (PLAIN | {"prompt_tokens_details": None}, (20, 7)),
        (
            "yes",
            "yes",
            "yes",
            "yes",
            "`reasoning`, before `reasoning_content`",
            "yes",
            "context too long: `too_long`",
            "`max_model_len`",
        ),
        more={"prompt_logprobs": None, "kv_transfer_params": None},
        call_id="chatcmpl-tool-1",
        context={"max_model_len": 4096},
    ),
    Dialect(
        "SGLang",
        "sglang",
        nothing,
        {"content": "fine", "reasoning_content": "hm"},
        (
            as_json({"choices": [{"message": {"role": "assistant", "content": "fi"}, "finish_reason": "abort"}]}),
            "again",
        ),
        (error(503, "The request queue is full."), None),
        (PLAIN | {"prompt_tokens_details": None}, (20, 7)),
        ("yes", "yes", "yes", "yes", "`reasoning_content`", "yes", "`abort`: asked again", "`max_model_len`"),
        context={"max_model_len": 4096},
    ),
    Dialect(
        "llama.cpp",
        "llama.cpp",
        nothing,
        {"content": "fine", "reasoning_content": "hm"},
        (
            as_json(
                {
                    "error": {
                        "code": 400,
                        "message": "the request exceeds the available context size",
                        "type": "exceed_context_size_error",
                        "n_prompt_tokens": 9000,
                        "n_ctx": 4096,
                    }
                },
                400,
            ),
            "too_long",
        ),
        (as_json({"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}, 503), None),
        READ,
        (
            "yes",
            "yes (grammar)",
            "yes",
            "yes",
            "`reasoning_content`",
            "yes",
            "context too long: `too_long`",
            "`n_ctx_train`",
        ),
        more={"system_fingerprint": "b6000", "timings": {"prompt_n": 20}},
        context={"meta": {"n_ctx_train": 4096}},
    ),
    Dialect(
        "Ollama",
        "ollama",
        nothing,
        {"content": "fine", "reasoning": "hm"},
        (
            as_json(
                {"error": {"message": "model 'm' not found", "type": "not_found_error", "param": None, "code": None}},
                404,
            ),
            "does not know this model",
        ),
        (
            as_json(
                {
                    "error": {
                        "message": "server busy, please try again. maximum pending requests exceeded",
                        "type": "api_error",
                    }
                },
                503,
            ),
            None,
        ),
        READ,
        ("yes", "yes", "yes", "yes", "`reasoning`", "yes", "unknown model: stops", "none told"),
        more={"system_fingerprint": "fp_ollama"},
    ),
    Dialect(
        "OpenRouter",
        "openrouter.ai",
        nothing,
        {"content": "fine", "reasoning": "hm", "reasoning_details": [{"type": "reasoning.text"}]},
        (
            as_json(
                {
                    "error": {
                        "code": 403,
                        "message": "m requires moderation. Your input was flagged",
                        "metadata": {"reasons": ["violence"], "flagged_input": "..."},
                    }
                },
                403,
            ),
            "refused",
        ),
        (error(402, "In-flight spending budget reached", retry_after="7"), 7.0),
        (PLAIN | {"cost": 0.0001}, (20, 7)),
        (
            "yes",
            "yes",
            "yes",
            "yes",
            "`reasoning`",
            "yes",
            "moderation is an outcome; errors with status 200 are read",
            "`retry-after`, with 402 too",
        ),
        more={"provider": "Some"},
    ),
    Dialect(
        "Mistral",
        "api.mistral.ai",
        mistral,
        {
            "content": [
                {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
                {"type": "text", "text": "fine"},
            ]
        },
        (
            as_json({"choices": [{"message": {"role": "assistant", "content": ""}, "finish_reason": "model_length"}]}),
            "cut",
        ),
        (
            as_json(
                {"object": "error", "message": "Requests rate limit exceeded", "type": "rate_limited", "code": "1300"},
                429,
            ),
            None,
        ),
        READ,
        (
            "seed is `random_seed`",
            "yes",
            "yes",
            "yes",
            "`thinking` pieces",
            "yes",
            "`model_length` is cut",
            "shared cool-down",
        ),
        call_id="D681PevKs",
        call_arguments={"at": "x"},
    ),
    Dialect(
        "DeepSeek",
        "api.deepseek.com",
        deepseek,
        {"content": "fine", "reasoning_content": "hm"},
        (
            as_json(
                {
                    "error": {
                        "message": "Insufficient Balance",
                        "type": "unknown_error",
                        "param": None,
                        "code": "invalid_request_error",
                    }
                },
                402,
            ),
            "no credit left",
        ),
        (error(429, "Rate Limit Reached"), None),
        (PLAIN | {"prompt_cache_hit_tokens": 0, "prompt_cache_miss_tokens": 20}, (20, 7)),
        (
            "yes",
            "JSON mode and words",
            "yes",
            "stops before sending",
            "`reasoning_content`",
            "yes",
            "no balance: stops",
            "shared cool-down",
        ),
        forms="json_object",
        images=False,
        more={"system_fingerprint": "fp_d"},
    ),
    Dialect(
        "Gemini",
        "generativelanguage.googleapis.com",
        nothing,
        {"content": "fine"},
        (
            as_json(
                {"choices": [{"message": {"role": "assistant"}, "finish_reason": "content_filter: PROHIBITED_CONTENT"}]}
            ),
            "refused",
        ),
        (as_json(GOOGLE_LIMIT, 429), 34.5),
        ({"prompt_tokens": 20, "completion_tokens": 2, "total_tokens": 27}, (20, 7)),
        (
            "yes",
            "yes",
            "yes",
            "yes",
            "hidden; in the total of tokens alone",
            "yes",
            "filters are outcomes",
            "`retryDelay` in the body",
        ),
        path="/v1beta/openai",
        call_id="",
    ),
    Dialect(
        "Anthropic",
        "api.anthropic.com",
        anthropic,
        {"content": "fine", "refusal": None},
        (as_json({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, 529), "again"),
        (
            as_json({"type": "error", "error": {"type": "rate_limit_error", "message": "limit"}}, 429, retry_after="9"),
            9.0,
        ),
        READ,
        (
            "yes",
            "strict, without bounds; others in words",
            "yes",
            "yes",
            "hidden",
            "yes",
            "529: asked again",
            "`retry-after`",
        ),
        call_id="toolu_1",
    ),
    Dialect(
        "TGI",
        "tgi",
        nothing,
        {"content": "<think>hm</think>fine"},
        (
            as_json(
                {
                    "error": "Input validation error: `inputs` must have less than 4096 tokens",
                    "error_type": "validation",
                },
                422,
            ),
            "failed",
        ),
        (as_json({"error": "Model is overloaded", "error_type": "overloaded"}, 429), None),
        READ,
        (
            "yes",
            "yes",
            "yes, arguments as an object",
            "yes",
            "`<think>` in the text",
            "yes",
            "input too long: failed",
            "shared cool-down",
        ),
        call_id="0",
        call_arguments={"at": "x"},
        more={"system_fingerprint": "3.3.0-sha"},
    ),
)
"""In the order of the table."""


def conformance_table() -> str:
    """The table of the page on endpoints, in Markdown."""
    lines = ["| | " + " | ".join(COLUMNS) + " |", "| --- " * (len(COLUMNS) + 1) + "|"]
    lines += [f"| {dialect.title} | " + " | ".join(dialect.told) + " |" for dialect in DIALECTS]
    return "\n".join(lines)
