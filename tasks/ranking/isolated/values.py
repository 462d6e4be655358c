"""Queries, hits, rankings and model calls in the form in which they travel, and back."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray
from pydantic import BaseModel

from schemas.errors import BadInput
from schemas.identifiers import CorpusId
from schemas.llm import Message, Parameters, PromptRef, Reply, Tokens, Tool, ToolCall, Usage
from schemas.topic import Hit
from tasks.llm.forms import form_of
from tasks.ranking.baseline import Ranking
from tasks.retrieval.retriever import Query, Vector, WeightedTerms

Value = dict[str, Any]


def pack_query(query: Query) -> Value | str:
    """Returns a query as it travels."""
    if isinstance(query, WeightedTerms):
        return {"terms": dict(query.weights)}
    return {"vector": pack_array(query.values)} if isinstance(query, Vector) else query


def read_query(value: Value | str) -> Query:
    """Returns a query that travelled."""
    match value:
        case str():
            return value
        case {"terms": {**weights}}:
            return WeightedTerms({str(term): float(weight) for term, weight in weights.items()})
        case {"vector": {**vector}}:
            return Vector(read_array(vector))
        case _:
            raise BadInput("desk: a query is text, weighted terms or a vector")


def pack_array(values: NDArray[np.float32]) -> Value:
    """Returns an array of 32-bit floats as it travels."""
    held = np.ascontiguousarray(values, "<f4")
    return {"shape": list(held.shape), "data": held.tobytes()}


def read_array(value: Mapping[str, Any]) -> NDArray[np.float32]:
    """Returns an array that travelled."""
    return np.frombuffer(value["data"], "<f4").reshape(value["shape"])


def pack_ranking(ranking: Ranking) -> Value:
    """Returns a system's answer as it travels."""
    hits = [[int(corpus_id), float(score)] for corpus_id, score in ranking.hits]
    return {**ranking._asdict(), "hits": hits}


def read_ranking(value: Value) -> Ranking:
    """Returns a system's answer that travelled; whatever else came is refused.

    Raises:
        BadInput: It has another form.
    """
    try:
        hits = [Hit(CorpusId(int(corpus_id)), float(score)) for corpus_id, score in value["hits"]]
        texts = [value[name] if value[name] is None else str(value[name]) for name in ("note", "outline")]
        return Ranking(hits, value["outcome"], texts[0], bool(value["fallback"]), texts[1])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise BadInput(f"the system returned no ranking ({type(error).__name__}: {error})") from error


def pack_call(messages: tuple[Message, ...], answer: type[BaseModel] | None, further: Mapping[str, Any]) -> Value:
    """Returns a question to a model as it travels; of the answer's form, its JSON schema does."""
    chosen: Value = dict(further)
    if isinstance(parameters := chosen.get("parameters"), Parameters):
        chosen["parameters"] = parameters.model_dump()
    if tools := chosen.get("tools"):
        chosen["tools"] = [tool.model_dump() for tool in tools]
    form = None if answer is None else {"name": answer.__name__, "schema": orjson.dumps(answer.model_json_schema())}
    return {"messages": [message.model_dump() for message in messages], "form": form, "further": chosen}


def read_call(value: Value) -> tuple[tuple[Message, ...], type[BaseModel] | None, Value]:
    """Returns a question that travelled, with a type that has the schema of the answer's form."""
    messages = tuple(Message.model_validate(message) for message in value["messages"])
    further: Value = {name: value["further"][name] for name in ("attempt",) if name in value["further"]}
    if parameters := value["further"].get("parameters"):
        further["parameters"] = Parameters.model_validate(parameters)
    if prompt := value["further"].get("prompt"):
        further["prompt"] = PromptRef(*prompt)
    if tools := value["further"].get("tools"):
        further["tools"] = tuple(Tool.model_validate(tool) for tool in tools)
    form = value["form"]
    return messages, form and form_of(str(form["name"]), orjson.loads(form["schema"])), further


def pack_reply(reply: Reply[Any]) -> Value:
    """Returns a model's reply as it travels."""
    return {
        "outcome": reply.outcome,
        "keys": list(reply.keys),
        "source": reply.source,
        "reason": reply.reason,
        "text": reply.text,
        "answer": None if reply.answer is None else reply.answer.model_dump_json(),
        "tokens": list(reply.usage.tokens),
        "nano_usd": reply.usage.nano_usd,
        "model": reply.model,
        "tool_calls": [call.model_dump() for call in reply.tool_calls],
        "settled": reply.settled,
    }


def read_reply(value: Value, answer: type[BaseModel] | None) -> Reply[Any]:
    """Returns a reply that travelled; an answer that does not have the form asked for makes it `invalid`."""
    parsed, outcome, reason = None, value["outcome"], value["reason"]
    if value["answer"] is not None and answer is not None:
        try:
            parsed = answer.model_validate_json(value["answer"])
        except ValueError as error:
            outcome, reason = "invalid", f"the answer does not have the form asked for ({error})"
    return Reply(
        outcome,
        tuple(value["keys"]),
        value["source"],
        reason=reason,
        text=value["text"],
        answer=parsed,
        usage=Usage(Tokens(*value["tokens"]), value["nano_usd"]),
        model=value["model"],
        tool_calls=tuple(ToolCall.model_validate(call) for call in value["tool_calls"]),
        settled=value["settled"],
    )
