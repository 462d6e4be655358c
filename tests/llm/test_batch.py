"""The batch service: calls go up as a file, replies come down into the cache."""

import asyncio
import json
import re
from dataclasses import dataclass, field

import pytest

from schemas.errors import BadInput, TransientError
from schemas.llm_settings import BudgetSettings, LlmAccess
from tasks.llm.batch import BatchClient, BatchReport
from tasks.llm.blocking import BlockingDoor
from tasks.llm.budget import Budget
from tasks.llm.cache import Cache
from tasks.llm.database import Database
from tasks.llm.door import Door
from tasks.llm.filled_prompt import ask_by_batch
from tasks.llm.provider import OpenAiProvider
from tests.llm.conftest import GOOD, SECRET, SHORT, capped, question, scored
from tests.llm.scripted_server import Answer, Seen, as_json, completion, error

FULL = "Enqueued token limit reached for m in organization org."


@dataclass
class BatchService:
    """Answers the files and batches API: a batch ends when it has been looked at `looks` times."""

    looks: int = 2
    status: str = "completed"
    results: dict[str, dict] = field(default_factory=dict)
    files: dict[str, list[dict]] = field(default_factory=dict)
    batches: dict[str, dict] = field(default_factory=dict)
    hiccups: list[Answer] = field(default_factory=list)
    limit: int | None = None
    refuses_at_once: bool = False
    most: int = 0
    slow: list[str] = field(default_factory=list)
    form: str = GOOD

    def __call__(self, seen: Seen, number: int) -> Answer:
        if self.hiccups:
            return self.hiccups.pop(0)
        if (seen.method, seen.path) == ("POST", "/v1/files"):
            name = f"file-{len(self.files)}"
            self.files[name] = [json.loads(line) for line in re.findall(rb'^\{"custom_id".*\}\r?$', seen.body, re.M)]
            return as_json(
                {"id": name, "object": "file", "bytes": 1, "created_at": 1, "filename": "x", "purpose": "batch"}
            )
        if (seen.method, seen.path) == ("POST", "/v1/batches"):
            name = f"batch-{len(self.batches)}"
            waiting = sum(
                self._size(batch["input_file_id"])
                for batch in self.batches.values()
                if batch["status"] == "in_progress"
            )
            full = self.limit is not None and waiting + self._size(seen.json["input_file_id"]) > self.limit
            if full and self.refuses_at_once:
                return error(429, f"{FULL} Limit: {self.limit:,} enqueued tokens.", "token_limit_exceeded")
            if full:
                told = {"code": "token_limit_exceeded", "message": FULL, "param": None, "line": None}
                failed = {"status": "failed", "errors": {"object": "list", "data": [told]}, "looked": 0}
                self.batches[name] = {**self._batch(name), "input_file_id": seen.json["input_file_id"], **failed}
                return as_json(self.batches[name])
            self.most = max(self.most, waiting + self._size(seen.json["input_file_id"]))
            self.batches[name] = {**self._batch(name), "input_file_id": seen.json["input_file_id"], "looked": 0}
            return as_json(self.batches[name])
        if seen.path.startswith("/v1/batches/"):
            return as_json(self._look(self.batches[seen.path.rsplit("/", 1)[1]]))
        if seen.path.endswith("/content"):
            lines = self.files[seen.path.split("/")[3]]
            return Answer("\n".join(map(json.dumps, lines)).encode(), 200, {"content-type": "application/jsonl"})
        return error(404, f"nothing at {seen.path}")

    def _size(self, file: str) -> int:
        """Tokens of a file's calls, ten for each."""
        return 10 * len(self.files[file])

    def _batch(self, name: str) -> dict:
        window = {"completion_window": "24h", "created_at": 1, "endpoint": "/v1/chat/completions"}
        return {"id": name, "object": "batch", "status": "in_progress", **window}

    def _look(self, batch: dict) -> dict:
        batch["looked"] += 1
        if batch["status"] == "failed":
            return batch
        if batch["looked"] == self.looks:
            calls = self.files[batch["input_file_id"]]
            ended = [self._result(call) for call in calls if self._text(call) != "lost"]
            batch["status"] = self.status
            batch["output_file_id"] = f"{batch['id']}-out"
            self.files[batch["output_file_id"]] = [*[e for e in ended if not e["error"]], {"custom_id": "unknown"}]
            batch["error_file_id"] = f"{batch['id']}-err"
            self.files[batch["error_file_id"]] = [e for e in ended if e["error"]]
        return batch

    def _text(self, call: dict) -> str:
        return call["body"]["messages"][-1]["content"]

    def _result(self, call: dict) -> dict:
        text = self._text(call)
        if text in self.slow:
            self.slow.remove(text)
            told = {"response": None, "error": {"code": "batch_expired", "message": "took too long"}}
        elif text == "fault":
            told = {"response": None, "error": {"code": "batch_expired", "message": "took too long"}}
        elif text == "status":
            told = {"response": {"status_code": 400, "body": {"error": {"message": "too long"}}}, "error": None}
        else:
            body = json.loads(completion(f"about {text}" if text != "score" else self.form).body)
            told = {"response": {"status_code": 200, "body": body}, "error": None}
        return {"id": "r", "custom_id": call["custom_id"], **told}


def batch(settings, requests, **options) -> tuple[BatchReport, list, list]:
    """Runs a batch, then asks the door for the same requests."""

    async def run():
        provider = OpenAiProvider(settings, SECRET)
        try:
            async with Door(settings, SECRET) as door:
                report = await BatchClient(door, provider, poll_s=0.001, **options).run(requests)
                spent = door.budget.spent()
                found = [door.cache.find(key) for key in (door.explain_miss(r).key for r in requests)]
                return report, found, spent
        finally:
            await provider.close()

    return asyncio.run(run())


def ask_all(settings, requests):
    async def many():
        async with Door(settings, SECRET) as door:
            return await door.ask_all(requests)

    return asyncio.run(many())


HALF = {"m": {"input": 1, "output": 1, "batch_factor": 0.5}}


def test_replies_come_down_into_the_cache_at_the_batch_price(server, settings, tmp_path):
    service = BatchService()
    server.play(service)
    settings = settings(cache=tmp_path / "c.db", prices=HALF)
    requests = [question("mice"), question("cats"), scored("score"), question("mice")]
    report, _, (spent,) = batch(settings, requests)
    assert report == (0, 3, 0, 0)
    assert (spent.calls, spent.tokens) == (3, 330)
    assert spent.usd == pytest.approx(165e-6)
    (lines,) = [lines for name, lines in service.files.items() if re.fullmatch(r"file-\d", name)]
    assert {line["url"] for line in lines} == {"/v1/chat/completions"}
    asked = len(server.seen)
    replies = ask_all(settings, requests)
    assert [reply.text for reply in replies[:2]] == ["about mice", "about cats"]
    assert replies[2].answer.score == 3
    assert {reply.source for reply in replies} == {"cache"}
    assert len(server.seen) == asked
    assert batch(settings, requests)[0] == (3, 0, 0, 0)


def test_calls_that_fail_alone_are_failed_and_cost_nothing(server, settings, tmp_path):
    server.play(BatchService(status="expired"))
    settings = settings(cache=tmp_path / "c.db", budget=capped(tokens=100_000))
    report, found, (spent,) = batch(settings, [question(text) for text in ("mice", "fault", "status", "lost")])
    assert report == (0, 1, 3, 0)
    assert [exchange and exchange.outcome for exchange in found] == ["ok", None, None, None]
    assert (spent.calls, spent.tokens) == (1, 110)
    rows = {json.loads(r.parts)["messages"][0]["content"]: r for r in Cache(Database(tmp_path / "c.db")).rows()}
    assert rows["fault"].exchange.reason == "batch call failed: took too long"
    assert rows["status"].exchange.reason == "batch call refused: too long"
    assert rows["lost"].exchange.reason == "batch expired"


def test_large_sets_go_in_several_batches(server, settings):
    service = BatchService()
    server.play(service)
    report, *_ = batch(settings(), [question(f"{n}") for n in range(25)], max_calls=10)
    assert report.answered == 25
    sizes = [len(service.files[batch["input_file_id"]]) for batch in service.batches.values()]
    assert sizes == [10, 10, 5]


def test_an_interrupted_run_waits_on_and_sends_nothing_twice(server, settings, tmp_path):
    service = BatchService(looks=10**9)
    server.play(service)
    settings = settings(cache=tmp_path / "c.db", budget=capped(tokens=100_000))
    requests = [question("mice"), question("cats")]

    async def interrupted():
        provider = OpenAiProvider(settings, SECRET)
        async with Door(settings, SECRET) as door:
            task = asyncio.create_task(BatchClient(door, provider, poll_s=0.001).run(requests))
            while not any(batch["looked"] for batch in service.batches.values()):
                await asyncio.sleep(0.005)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            spent = door.budget.spent()
        await provider.close()
        return spent

    (held,) = asyncio.run(interrupted())
    assert held.tokens > 1000  # what is under way counts at its bound
    service.looks = service.batches["batch-0"]["looked"] + 1
    report, _, (spent,) = batch(settings, [*requests, question("dogs")])
    assert report.answered == 3
    assert spent.tokens == 330
    sent = [
        call["custom_id"] for name in service.files if re.fullmatch(r"file-\d", name) for call in service.files[name]
    ]
    assert len(sent) == len(set(sent)) == 3


def test_a_batch_that_is_gone_is_a_failure_and_not_for_ever(server, settings, tmp_path):
    service = BatchService(looks=1)
    server.play(lambda seen, number: error(404, "gone") if "/batches/" in seen.path else service(seen, number))
    settings = settings(cache=tmp_path / "c.db")
    report, _, (spent,) = batch(settings, [question("mice")])
    assert (report.failed, spent.tokens) == (1, 0)
    server.play(service)
    assert batch(settings, [question("mice")])[0].answered == 1


def test_batches_keep_to_the_cap(server, settings):
    service = BatchService()
    server.play(service)
    requests = [question(f"{n}", parameters=SHORT) for n in range(10)]
    report, _, (spent,) = batch(settings(budget=capped(tokens=1000)), requests)
    assert report.over_budget > 0
    assert report.answered + report.over_budget == 10
    assert spent.tokens == 110 * report.answered <= 1000


def test_hiccups_are_passed_over_and_creation_is_never_repeated_blindly(server, settings, tmp_path):
    busy = error(503, "busy")
    service = BatchService(hiccups=[busy, error(429, "slow", retry_after="0.01")])
    server.play(service)
    assert batch(settings(), [question("mice")])[0].answered == 1

    def lost_reply(seen, number):
        return Answer(b"{}", cut=0) if seen.path == "/v1/batches" else service(seen, number)

    server.play(lost_reply)
    server.seen.clear()
    with pytest.raises(TransientError, match="batch service"):
        batch(settings(cache=tmp_path / "c.db", budget=capped(tokens=5000)), [question("cats")])
    assert spent(tmp_path / "c.db") > 500  # it may have been taken
    assert [seen.path for seen in server.seen].count("/v1/batches") == 1


def spent(path):
    return sum(row.tokens for row in Budget(Database(path), BudgetSettings()).spent())


def test_an_endpoint_without_batches_says_so(server, settings, tmp_path):
    server.play([error(404, "Not Found")])
    with pytest.raises(BadInput, match="Not Found"):
        batch(settings(cache=tmp_path / "c.db", budget=capped(tokens=5000)), [question("mice")])
    assert spent(tmp_path / "c.db") == 0
    server.play([error(400, "batches are off")])
    with pytest.raises(BadInput, match="batches are off"):
        batch(settings(), [question("mice")])


@pytest.mark.parametrize("at_once", [True, False], ids=["refused at once", "fails when looked at"])
def test_what_is_refused_because_too_much_waits_is_sent_again(server, settings, tmp_path, at_once):
    service = BatchService(limit=60, refuses_at_once=at_once)
    server.play(service)
    settings = settings(cache=tmp_path / "c.db", prices=HALF, budget=capped(tokens=100_000))
    report, _, (spent,) = batch(settings, [question(f"{n}") for n in range(25)])
    assert (report.answered, report.failed) == (25, 0)
    assert service.most <= 60
    assert (spent.calls, spent.tokens) == (25, 25 * 110)


def test_batches_keep_to_the_limit_of_tokens_that_is_set(server, settings):
    service = BatchService()
    server.play(service)
    report, *_ = batch(settings(batch_tokens=600), [question(f"{n}") for n in range(25)])
    assert report.answered == 25
    assert len(service.batches) >= 3 and service.most <= 120
    assert all(batch["status"] == "completed" for batch in service.batches.values())


def test_a_queue_that_never_empties_ends_the_wait(server, settings, tmp_path, monkeypatch):
    monkeypatch.setattr("tasks.llm.batch.PATIENCE_S", 0.05)
    server.play(BatchService(limit=0))
    with pytest.raises(TransientError, match="takes no batch"):
        batch(settings(cache=tmp_path / "c.db", budget=capped(tokens=5000)), [question("mice")])
    assert spent(tmp_path / "c.db") == 0


def test_what_expires_is_sent_again_by_batch(server, settings):
    service = BatchService(slow=["mice"])
    server.play(service)
    assert batch(settings(), [question("mice"), question("cats")])[0].answered == 2
    assert [len(service.files[batch["input_file_id"]]) for batch in service.batches.values()] == [2, 1]


def test_an_answer_of_the_wrong_form_is_repaired_by_batch(server, settings, tmp_path):
    service = BatchService(form="three")
    server.play(service)
    settings = settings(cache=tmp_path / "c.db")
    batch(settings, [scored("score")])
    asked = len(server.seen)
    (reply,) = ask_all(settings, [scored("score")])
    assert (reply.outcome, reply.repaired, reply.source) == ("invalid", True, "cache")
    assert len(server.seen) == asked


@pytest.mark.parametrize("full_price", [False, True])
def test_what_batches_leave_unanswered_is_asked_at_the_full_price_only_when_told_so(
    server, settings, tmp_path, full_price
):
    service = BatchService()
    server.play(lambda seen, number: completion("dear") if "chat" in seen.path else service(seen, number))
    settings = settings(cache=tmp_path / "c.db", batch_full_price=full_price)
    requests = [question("mice"), question("lost")]
    with BlockingDoor(settings, SECRET) as door:
        ask_by_batch(door, LlmAccess(settings, SECRET), requests, poll_s=0.001)
        replies = door.ask_all(requests)
    assert [reply.text for reply in replies] == ["about mice", "dear" if full_price else ""]
    assert [reply.settled for reply in replies] == [True, full_price]
    assert any("chat" in seen.path for seen in server.seen) == full_price
