"""Probes an endpoint with a few calls: what the model takes, and the profile that says so."""

import asyncio
import base64
import io
import json
from itertools import count
from typing import Any, NamedTuple, cast, get_args

import orjson
from PIL import Image as Picture
from pydantic import BaseModel, ConfigDict, Field

from schemas.errors import BadInput, TransientError
from schemas.llm import Tokens
from schemas.llm_profile import Refusable, TokenField
from schemas.llm_settings import LlmSettings
from tasks.http.retry import RetryRules, wait_s
from tasks.llm.exchange import SendResult
from tasks.llm.gate import Quotas
from tasks.llm.profiles import Profiles, builtin_profiles
from tasks.llm.provider import OpenAiProvider
from tasks.llm.structured import answer_schema, read_answer, response_format
from tasks.llm.wire import Completion, read_completion

REASONING_TOKENS = 4096
"""Least limit on tokens written that is advised for a model that reasons."""

_TRIED: tuple[tuple[Refusable, dict[str, Any]], ...] = (
    ("temperature", {"temperature": 0.0}),
    ("seed", {"seed": 42}),
    ("top_p", {"top_p": 0.9}),
    ("stop", {"stop": ["\n\n\n"]}),
    ("top_logprobs", {"logprobs": True, "top_logprobs": 5}),
)
_REASONING = ("reasoning_content", "reasoning", "reasoning_details", "thinking")
_CONTEXT = ("max_model_len", "context_length", "context_window", "max_context_length", "n_ctx", "n_ctx_train")


class Probe(BaseModel):
    """A form with keywords that some endpoints refuse in schemas."""

    model_config = ConfigDict(extra="forbid", strict=True)

    word: str = Field(min_length=1, max_length=20)
    number: int = Field(ge=1, le=9)


class Finding(NamedTuple):
    """One thing that was tried, and what came of it."""

    what: str
    found: str


class Checked(NamedTuple):
    """What probing found.

    Attributes:
        findings: In the order of the probes.
        applied: Names of the profiles that apply to the model now.
        changes: Fields in which the model differs from them; empty: they fit.
        calls: Number of calls made.
        tokens: Tokens that the endpoint says they used.
    """

    findings: list[Finding]
    applied: list[str]
    changes: dict[str, Any]
    calls: int
    tokens: Tokens

    def toml(self, model: str) -> str:
        """Returns the changes as a profile for the settings file (TOML)."""
        lines = [f"{name} = {json.dumps(value)}" for name, value in self.changes.items()]
        return "\n".join([f"[profiles.{json.dumps(model)}]", f"models = [{json.dumps(model.lower())}]", *lines])


async def check_model(settings: LlmSettings, provider: OpenAiProvider) -> Checked:
    """Asks the settings' model some ten short questions, and compares what it takes with its profile.

    Args:
        settings: Endpoint and model.
        provider: The endpoint; the caller closes it.

    Raises:
        BadInput: The key, the address or the model is wrong, or not even the plainest question is answered.
        TransientError: The endpoint cannot be reached, or is busy through all tries.
    """
    return await _Check(settings, provider).run()


class _Check:
    def __init__(self, settings: LlmSettings, provider: OpenAiProvider) -> None:
        profiles = Profiles(settings)
        self._settings, self._provider = settings, provider
        self._applied = profiles.names(settings.model)
        self._profile = profiles.of(settings.model)
        self._found: dict[str, Any] = {}
        self._findings: list[Finding] = []
        self._calls, self._tokens = 0, Tokens()
        self._token_field: TokenField = self._profile.token_field
        self._reasons = False
        self._quotas = Quotas()

    async def run(self) -> Checked:
        first = await self._plain()
        await self._parameters()
        await self._forms()
        await self._tools()
        await self._images()
        await self._context()
        self._told(first)
        changes = {name: value for name, value in self._found.items() if self._differs(name, value)}
        return Checked(self._findings, self._applied, changes, self._calls, self._tokens)

    def _differs(self, name: str, value: Any) -> bool:
        known = getattr(self._profile, name)
        return set(value) != set(known) if isinstance(value, list) else value != known

    async def _plain(self) -> Completion:
        """Finds the name of the token limit with the plainest question."""
        troubles: list[str] = []
        for name in sorted(get_args(TokenField), key=lambda name: name != self._token_field):
            self._token_field = name
            sent = await self._send("Answer with the word yes.")
            if not sent.trouble:
                completion = read_completion(sent.body)
                self._note("chat", completion.problem or f"answers ({_shown(completion)})")
                self._found["token_field"] = name
                self._note("token limit", name)
                return completion
            troubles.append(sent.trouble)
        raise BadInput(f"{self._settings.base_url}: {self._settings.model} answers no plain question: {troubles[0]}")

    async def _parameters(self) -> None:
        refused: list[str] = []
        for name, members in _TRIED:
            sent = await self._send("Answer with the word yes.", **members)
            if sent.trouble and name == "seed" and not (await self._send("Answer yes.", random_seed=42)).trouble:
                self._found["seed_field"] = "random_seed"
                self._note(name, "is called random_seed")
                continue
            self._note(name, f"refused ({sent.trouble})" if sent.trouble else _accepted(name, sent))
            refused += [name] if sent.trouble else []
        self._found["refuses"] = refused

    async def _forms(self) -> None:
        """Finds the richest way to tell a form that brings an answer of that form."""
        refuses = self._profile.schema_refuses or builtin_profiles()["azure"].schema_refuses
        ways: tuple[tuple[str, dict[str, Any], dict[str, Any]], ...] = (
            ("JSON schema", {"structured": "json_schema", "schema_refuses": []}, answer_schema(Probe, "json_schema")),
            (
                "JSON schema without lengths and bounds",
                {"structured": "json_schema", "schema_refuses": list(refuses)},
                answer_schema(Probe, "json_schema", refuses),
            ),
            ("JSON mode", {"structured": "json_object"}, answer_schema(Probe, "json_object")),
            ("form in words", {"structured": "prompt"}, answer_schema(Probe, "prompt")),
        )
        question = "Choose any word and any number from 1 to 9."
        told = f"{question} Answer with a JSON object only: {json.dumps(Probe.model_json_schema())}"
        for what, fields, schema in ways:
            words = question if schema["mode"] == "json_schema" else told
            form = response_format(schema)
            sent = await self._send(words, **({"response_format": form} if form else {}))
            problem = sent.trouble or read_answer(read_completion(sent.body).text, Probe).problem
            self._note(what, f"does not work ({problem})" if problem else "works")
            if not problem:
                self._found |= fields
                return
        self._found |= ways[-1][1]

    async def _tools(self) -> None:
        parameters = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
        tool = {"name": "note", "description": "Notes a text.", "parameters": parameters}
        sent = await self._send(
            "Call the function note with the text yes.", tools=[{"type": "function", "function": tool}]
        )
        called = [call.name for call in read_completion(sent.body).tool_calls] if not sent.trouble else []
        answer = "calls the function" if "note" in called else "takes functions, but answered without calling"
        self._note("tools", f"refused ({sent.trouble})" if sent.trouble else answer)
        self._found["tools"] = not sent.trouble

    async def _images(self) -> None:
        file = io.BytesIO()
        Picture.new("RGB", (64, 64), "red").save(file, "PNG")
        url = "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
        sent = await self._send(
            [
                {"type": "text", "text": "Which colour is this? One word."},
                {"type": "image_url", "image_url": {"url": url}},
            ]
        )
        answer = "" if sent.trouble else _shown(read_completion(sent.body))
        self._note("images", f"refused ({sent.trouble})" if sent.trouble else f"takes pictures (calls red {answer})")
        self._found["images"] = not sent.trouble

    async def _context(self) -> None:
        listed = read_context(await self._provider.models(self._profile), self._settings.model)
        self._note("context", f"{listed:,} tokens" if listed else "the list of models does not say")
        if listed:
            self._found["context"] = listed

    def _told(self, first: Completion) -> None:
        """Notes what the replies showed by the way."""
        self._note("reasoning", "reasons before it answers" if self._reasons else "none seen")
        if self._reasons:
            self._found["least_tokens"] = max(self._profile.least_tokens, REASONING_TOKENS)
        self._note("usage", "reported" if first.tokens else "not reported: calls count at their upper bound")
        self._note("model", f"calls itself {first.model or '(nothing)'}, fingerprint {first.fingerprint or '(none)'}")
        limits = [f"{quota.left:,} {name} left" for name, quota in self._quotas._asdict().items() if quota]
        self._note("limits", ", ".join(limits) or "not told in headers")

    async def _send(self, content: str | list[dict[str, Any]], **members: Any) -> SendResult:
        """Sends one question, again while the endpoint is busy; what it refuses is in `trouble`."""
        limit = max(512, self._profile.least_tokens)
        body = {
            **self._profile.body,
            "model": self._settings.model,
            "messages": [{"role": "user", "content": content}],
            self._token_field: limit,
            **members,
        }
        rules = RetryRules.of(self._settings.retry)
        for tries in count(1):
            self._calls += 1
            sent = await self._provider.send(orjson.dumps(body), self._profile)
            if sent.error and (not sent.retry or tries == rules.tries):
                raise sent.error
            if not sent.retry:
                self._count(sent)
                return sent
            if tries == rules.tries:
                break
            await asyncio.sleep(wait_s(rules, tries, sent.retry_after_s))
        raise TransientError(f"{self._settings.base_url} is busy; check it again later")

    def _count(self, sent: SendResult) -> None:
        self._quotas = Quotas(sent.quotas.requests or self._quotas.requests, sent.quotas.tokens or self._quotas.tokens)
        if not sent.trouble:
            used = read_completion(sent.body).tokens or Tokens()
            self._tokens = Tokens(self._tokens.input + used.input, self._tokens.output + used.output)
            self._reasons |= shows_reasoning(sent.body)

    def _note(self, what: str, found: str) -> None:
        self._findings.append(Finding(what, found))


def _accepted(name: str, sent: SendResult) -> str:
    if name == "top_logprobs" and b'"logprobs"' not in sent.body.replace(b'"logprobs":null', b""):
        return "accepted, but the reply has none"
    return "accepted"


def _shown(completion: Completion) -> str:
    return repr(" ".join(completion.text.split())[:40])


def shows_reasoning(body: bytes) -> bool:
    """Returns whether a reply shows that the model reasoned before it answered."""
    match orjson.loads(body):
        case {"usage": {"completion_tokens_details": {"reasoning_tokens": int(tokens)}}} if tokens:
            return True
        case {"choices": [{"message": {**message}}, *_]}:
            if any(message.get(name) for name in _REASONING):
                return True
            content = message.get("content")
            parts = cast("list[Any]", content) if isinstance(content, list) else []
            thought = any(isinstance(part, dict) and part.get("type") == "thinking" for part in parts)
            return thought or (isinstance(content, str) and "<think" in content)
        case _:
            return False


def read_context(models: bytes, model: str) -> int | None:
    """Returns the context length that a list of models states for a model; servers name it differently."""
    try:
        listed = orjson.loads(models)
    except orjson.JSONDecodeError:
        return None
    entries = listed.get("data") if isinstance(listed, dict) else listed
    for entry in cast("list[Any]", entries) if isinstance(entries, list) else []:
        if isinstance(entry, dict) and entry.get("id") == model:
            told = {**(entry.get("meta") or {}), **cast("dict[str, Any]", entry)}
            lengths = (told.get(name) for name in _CONTEXT)
            return next((length for length in lengths if type(length) is int and length >= 256), None)
    return None
