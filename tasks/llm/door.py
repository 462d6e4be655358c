"""The one way to a language model: a call passes replay or cache, then budget, rate limit and provider."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from pydantic import SecretStr

from schemas.errors import ArenaError, TransientError
from schemas.llm import NO_USAGE, AnswerT, CallOutcome, Estimate, Rehearsed, Reply, Request, Tokens, Usage
from schemas.llm_settings import LlmSettings
from schemas.secrets import learn
from tasks.http.retry import RetryRules, wait_s
from tasks.llm.budget import Budget
from tasks.llm.cache import Cache
from tasks.llm.collector import slow_down, speed_up
from tasks.llm.database import Database
from tasks.llm.exchange import FINAL, NOT_SENT, READABLE, Call, Exchange, SendResult, read_outcome, to_exchange
from tasks.llm.gate import Gate
from tasks.llm.group_commit import GroupCommit
from tasks.llm.key import Miss
from tasks.llm.limiter import Limiter
from tasks.llm.outage import Outage
from tasks.llm.plan import PreparedRequest
from tasks.llm.profiles import Profiles
from tasks.llm.prompt import own_text
from tasks.llm.replay import Replay
from tasks.llm.structured import read_answer, repair_request, without_reasoning
from tasks.llm.wire import Completion, read_completion

if TYPE_CHECKING:
    from tasks.llm.provider import OpenAiProvider

logger = logging.getLogger(__name__)


UNBATCHED = "the batch service left this call unanswered; run it again, or set batch_full_price"


class Door:
    """Asks a language model, stores every reply, and keeps within budget and rate limit.

    A call that fails is an outcome, never a zero and never an exception. Errors that would hit every call are raised:
    no key, a refused key, an unknown model or price, an endpoint that cannot be reached, a miss in replay mode, and too
    many failed calls.

    Use it in one event loop: `async with Door(settings, key) as door`. `tasks.llm.blocking` is for code without a loop.

    Args:
        settings: Endpoint, model, caps, limits, files.
        api_key: The endpoint's key. Not needed if every reply is in the replay file or the cache.

    Attributes:
        outage: Stops the calls when too many fail.
        stored_only: Whether calls without a stored reply fail, because the batch service has left them unanswered.
        rehearsal: Where calls are noted instead of being sent; None: they are sent.

    Raises:
        StoreError: The cache or replay file cannot be used.
    """

    def __init__(self, settings: LlmSettings, api_key: SecretStr | None = None) -> None:
        self.settings = settings
        self.stored_only = False
        self.rehearsal: dict[str, Rehearsed] | None = None
        self.profiles = Profiles(settings)
        self.replay = Replay(settings.replay) if settings.replay else None
        self.database = Database(None if settings.replay else settings.cache)
        self.cache = Cache(self.database)
        self._writes = GroupCommit(self.database)
        self.budget = Budget(self.database, settings.budget, self._writes)
        self.outage = Outage(settings.outage, settings.base_url)
        learn(api_key)
        self._api_key = api_key
        self._provider: OpenAiProvider | None = None
        self._limiter = Limiter(settings.rate)
        self._gate = Gate(settings.retry)
        self._slots = asyncio.Semaphore(settings.concurrency)
        self._in_flight: dict[str, asyncio.Future[Exchange | None]] = {}

    async def ask(self, request: Request[AnswerT]) -> Reply[AnswerT]:
        """Asks one question.

        Returns:
            The reply; `answer` is set when the outcome is `ok` and an answer type was asked for.

        Raises:
            BadInput: No or a refused key, an unknown model or price, text that cannot be sent, or a replay miss.
            TransientError: The endpoint cannot be reached, after all tries, or too many calls have failed.
            StoreError: The cache cannot be read or written.
        """
        asked = self.prepare(request)
        reply, problem = await self._ask_once(asked)
        if not problem:
            return reply
        second, problem = await self._ask_once(self._repair(asked, reply, problem))
        if problem:
            second = replace(second, reason=f"no valid answer, also when asked again: {problem}")
        return replace(second, keys=reply.keys + second.keys, usage=_sum(reply.usage, second.usage))

    def _repair(self, asked: PreparedRequest, reply: Reply[Any], problem: str) -> PreparedRequest:
        turn = repair_request(asked.request, reply.text, problem, cut=reply.outcome == "cut")
        return self.prepare(turn, form_included=True)

    def repair_of(self, asked: PreparedRequest) -> PreparedRequest | None:
        """Returns the repair turn that a stored answer of the wrong form needs; None where none is stored."""
        if (found := self.cache.find(asked.keyed.key)) is None:
            return None
        reply, problem = _read(asked.request, found)
        return self._repair(asked, reply, problem) if problem else None

    def prepare(self, request: Request[Any], *, form_included: bool = False) -> PreparedRequest:
        """Returns a request as it is sent; arguments and errors as for `PreparedRequest`."""
        profile = self.profiles.of(request.model or self.settings.model)
        return PreparedRequest(self.settings, profile, request, form_included=form_included)

    async def _ask_once(self, asked: PreparedRequest) -> tuple[Reply[Any], str]:
        """Makes one call and reads its reply; what reading finds is recorded beside the stored reply."""
        exchange = await self._exchange(asked)
        reply, problem = _read(asked.request, exchange)
        differs = reply.outcome != exchange.outcome and exchange.outcome in READABLE
        if differs and asked.request.answer is not None and exchange.source != "replay":
            await self._writes.run(self.cache.judge, (reply.outcome, reply.reason, exchange.key))
        return reply, problem

    async def ask_all(self, requests: Iterable[Request[AnswerT]]) -> list[Reply[AnswerT]]:
        """Asks many questions concurrently and returns the replies in the order of the requests.

        Raises:
            ArenaError: As `ask`; the first error cancels the other calls.
        """
        waiting = iter(enumerate(requests))
        replies: dict[int, Reply[AnswerT]] = {}

        async def work() -> None:
            for place, request in waiting:
                replies[place] = await self.ask(request)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(2 * self.settings.concurrency):
                    group.create_task(work())
        except* ArenaError as errors:
            raise _first(errors) from None
        return [replies[place] for place in range(len(replies))]

    def explain_miss(self, request: Request[Any]) -> Miss:
        """Explains why the replay file or the cache has no reply for a request: which part of the key differs."""
        asked = self.prepare(request).keyed
        return self.replay.explain_miss(asked) if self.replay else self.cache.explain_miss(asked)

    def estimate(self, requests: Iterable[Request[Any]]) -> Estimate:
        """Estimates what requests would cost, without sending any. Cached and replayed calls are free."""
        noted: dict[str, Rehearsed] = {}
        for asked in map(self.prepare, requests):
            self._rehearse(asked, noted)
        return Estimate.of(noted.values())

    def _rehearse(self, asked: PreparedRequest, noted: dict[str, Rehearsed]) -> Exchange:
        """Notes a call instead of sending it; returns the stored one, or else a failed one."""
        key, call = asked.keyed.key, asked.call()
        found = self.cache.find(key)
        noted[key] = Rehearsed(bool(self.replay or found), call.likely, call.bound)
        return found or Exchange(key, "failed", "cache", "a rehearsal sends nothing")

    async def _exchange(self, asked: PreparedRequest) -> Exchange:
        """Makes one call through all layers; identical calls made at the same time share one request."""
        if self.replay:
            return self.replay.find(asked.keyed)
        if self.rehearsal is not None:
            return self._rehearse(asked, self.rehearsal)
        key = asked.keyed.key
        while True:
            if found := self.cache.find(key):
                return found
            if (made := self._in_flight.get(key)) is None:
                break
            if exchange := await asyncio.shield(made):
                return replace(exchange, source="cache")
        if self.stored_only:
            self.outage.note(UNBATCHED, transient=True)
            return Exchange(key, "failed", "cache", UNBATCHED)
        self._in_flight[key] = made = asyncio.get_running_loop().create_future()
        exchange = None
        try:
            call = asked.call()
            await self.outage.admit()
            with self.outage:
                exchange = await self._call(call)
            return exchange
        finally:
            del self._in_flight[key]
            made.set_result(exchange)  # None if the first caller gave up: the next one sends the request

    async def _call(self, call: Call) -> Exchange:
        """Sends the call until it succeeds or a retry cannot help, and stores the result."""
        settings = self.settings.retry
        tries, turned_away = 0, 0
        began = asyncio.get_running_loop().time()
        while True:
            exchange, sent = await self._try(call)
            if sent.limited:
                self._require_patience(sent)
                turned_away += 1
                waited = asyncio.get_running_loop().time() - began
                if turned_away < settings.tries or waited < 2 * self.settings.rate.patience_s:
                    continue  # of an endpoint that admits others, this call alone is turned away in the end
            tries += 1
            if not sent.retry or sent.limited or tries == settings.tries:
                break
            pause = wait_s(RetryRules.of(settings), tries, sent.retry_after_s)
            logger.info("request %s: %s; again in %.1f s", call.keyed.key[:12], sent.trouble, pause)
            await asyncio.sleep(pause)
        if sent.error:
            self.outage.stop(sent.error)
            raise sent.error
        if exchange.source == "provider":
            failed = exchange.reason if exchange.outcome == "failed" else ""
            self.outage.note(failed, transient=sent.retry)
        if sent.retry:
            exchange = replace(exchange, reason=f"{sent.trouble} (tries: {settings.tries})")
        if exchange.outcome not in ("ok", "cut"):
            logger.warning(
                "request %s of stage %s: %s (%s)", exchange.key[:12], call.stage, exchange.outcome, exchange.reason
            )
        return await self._writes.run(self.cache.keep, (call, exchange))

    def _require_patience(self, sent: SendResult) -> None:
        """Stops all calls when the endpoint turns them away for longer than the settings allow."""
        patience_s, asked_s = self.settings.rate.patience_s, sent.retry_after_s or 0.0
        if (waited := self._gate.turned_away_s()) + asked_s <= patience_s:
            return
        error = TransientError(
            f"{self.settings.base_url} has turned every call away for {waited:.0f} s and asks to wait {asked_s:.0f} s "
            f"({sent.trouble}), more than rate.patience_s ({patience_s:g} s); run it again later: paid replies are kept"
        )
        self.outage.stop(error)
        raise error

    async def _try(self, call: Call) -> tuple[Exchange, SendResult]:
        """Sends the call once within budget and rate limit; a call that may be billed counts at its maximum cost."""
        key = call.keyed.key
        held = await self.budget.reserve(call.stage, call.bound, call.likely)
        if held is None:
            caps = (
                f"the cap of run {self.settings.budget.run!r} or of stage {call.stage!r} leaves less than the call may"
            )
            reason = f"{caps} cost: {call.bound.usd:.6f} USD, {call.bound.tokens.total} tokens"
            return Exchange(key, "over_budget", "budget", reason), NOT_SENT
        expected, used = call.likely.tokens.total, NO_USAGE
        try:
            async with self._slots:
                provider = self._open()
                await self._limiter.acquire(expected)
                ticket = await self._gate.admit(expected)
                used = call.bound  # from here on the endpoint may bill the call, whether it succeeds or not
                sent = NOT_SENT
                try:
                    sent = await provider.send(call.body, call.profile)
                    if sent.limited:
                        self._gate.turned_away(ticket, sent.retry_after_s)
                    elif not sent.retry:
                        self._gate.admitted(ticket)
                finally:
                    self._gate.leave(ticket, sent.quotas)
            exchange = to_exchange(key, sent, call.bound, call.price)
            used = exchange.usage
            self._limiter.settle(expected, used.tokens.total)
        finally:
            self.budget.settle(held, used)
        return exchange, sent

    def _open(self) -> OpenAiProvider:
        if self._provider is None:
            from tasks.llm.provider import OpenAiProvider  # replay and cache must work without the openai package

            self._provider = OpenAiProvider(self.settings, self._api_key)
            slow_down()
        return self._provider

    async def close(self) -> None:
        """Closes connections and files. Callers must have ended their own calls before."""
        provider, self._provider = self._provider, None
        if provider:
            await provider.close()
            speed_up()
        if self.replay:
            self.replay.close()
        self.budget.close()
        self._writes.flush()
        self.database.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _first(errors: BaseExceptionGroup[ArenaError]) -> ArenaError:
    error = errors.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error


def _sum(a: Usage, b: Usage) -> Usage:
    tokens = Tokens(a.tokens.input + b.tokens.input, a.tokens.output + b.tokens.output)
    return Usage(tokens, a.nano_usd + b.nano_usd, a.estimated or b.estimated)


def _read(request: Request[AnswerT], exchange: Exchange) -> tuple[Reply[AnswerT], str]:
    """Returns the reply of an exchange, and the problem with the form of its answer (empty if there is none)."""
    completion = exchange.completion or (read_completion(exchange.raw) if exchange.raw else Completion())
    reply: Reply[AnswerT] = Reply(
        outcome=exchange.outcome,
        keys=(exchange.key,),
        source=exchange.source,
        reason=exchange.reason,
        text=without_reasoning(completion.text),
        usage=exchange.usage,
        model=completion.model,
        raw=exchange.raw,
        tool_calls=completion.tool_calls,
        cut=completion.cut,
        settled=exchange.outcome in FINAL or exchange.source == "replay",
        reasoning=completion.reasoning,
    )
    if exchange.outcome not in READABLE:
        return reply, ""
    cut = f" (cut off at {request.parameters.max_tokens} tokens)" if completion.cut else ""
    known = exchange.source == "provider"  # a stored outcome may be of an earlier version, or tell of the form
    outcome, reason = (exchange.outcome, exchange.reason) if known else read_outcome(completion)
    if request.answer is None:
        if outcome in ("ok", "cut") and (reply.text or reply.tool_calls):  # the cut text of a free answer is used
            return reply if reply.outcome == "ok" else replace(reply, outcome="ok", reason=""), ""
        if outcome in ("ok", "cut"):
            outcome, reason = ("cut" if completion.cut else "empty"), f"the answer is empty{cut}"
        return replace(reply, outcome=outcome, reason=reason), ""
    told = [piece for m in request.messages if m.role != "assistant" for piece in m.pieces if isinstance(piece, str)]
    parsed = read_answer(completion.text, request.answer, shown="\n".join(told), own=own_text(request.prompt))
    if parsed.answer is None:
        wrong: CallOutcome = "invalid" if outcome == "ok" else outcome
        return replace(reply, outcome=wrong, reason=parsed.problem + cut), parsed.problem + cut
    return replace(reply, outcome="ok", reason="", answer=parsed.answer), ""
