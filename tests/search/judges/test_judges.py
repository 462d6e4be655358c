"""What every judge of search results keeps: its prompt, the form of its answers, a rule of the stand-in."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.llm import ModelName
from schemas.llm_profile import PLAIN
from tasks.demo.standin.recognition import read_question
from tasks.demo.standin.rule import all_rules
from tasks.llm.structured import answer_schema, read_answer
from tasks.llm.wire import request_body
from tasks.search.judge import NO_THINKING, Judge, Paper, all_judges, thinking_field

MODEL = ModelName(provider="p", model="m")
JUDGES = all_judges()


def ask(judge: Judge, query: str, paper: Paper) -> dict[str, Any]:
    request = judge.request(query, paper, MODEL)
    return {"messages": [{"role": m.role, "content": m.content} for m in request.messages]}


def test_there_are_judges() -> None:
    assert {"paper_lantern", "score_only"} <= set(JUDGES)


@pytest.mark.parametrize("name", JUDGES)
@settings(max_examples=25)
@given(
    st.text("ab [](){}%#\n", min_size=1, max_size=30).filter(str.strip),
    st.text("ab [](){}%#\n", max_size=30),
    st.text("ab [](){}%#\n", max_size=30),
)
def test_any_texts_reach_the_judge_whole_and_the_stand_in_answers_in_form(
    name: str, query: str, title: str, abstract: str
) -> None:
    judge = JUDGES[name]
    asked = read_question(ask(judge, query, Paper(title, abstract)))
    assert asked.prompt == judge.prompt
    shown = {text: asked.first(text) for text in ("query", "title", "abstract")}
    assert shown == {"query": query, "title": title, "abstract": abstract}
    answer = all_rules()[judge.prompt](asked)
    parsed = read_answer(answer.model_dump_json(), judge.answer)  # pyright: ignore
    verdict = judge.read(parsed.answer)
    assert 0 <= verdict.score <= 5


def test_thinking_is_switched_off_where_the_endpoint_is_known_to_take_it() -> None:
    google = ModelName(provider="generativelanguage.googleapis.com", model="gemini")
    assert (thinking_field(google), thinking_field(MODEL)) == ("google", "none")
    paper = Paper("Owls", "")
    sent = {}
    for field in NO_THINKING:
        request = JUDGES["paper_lantern"].request("owls", paper, google, thinking=field)
        sent[field] = json.loads(request_body("m", PLAIN, request, None))
    assert sent["google"]["extra_body"]["google"]["thinking_config"] == {"thinking_budget": 0}
    assert sent["reasoning_effort"]["reasoning_effort"] == "none"
    assert sent["chat_template"]["chat_template_kwargs"] == {"enable_thinking": False}
    assert not {"extra_body", "reasoning_effort", "chat_template_kwargs"} & sent["none"].keys()
    assert {body["temperature"] for body in sent.values()} == {0.01}


@pytest.mark.parametrize("name", JUDGES)
def test_the_form_is_one_that_endpoints_enforce_and_what_it_refuses(name: str) -> None:
    judge = JUDGES[name]
    assert answer_schema(judge.answer, "json_schema")["strict"]
    asked = read_question(ask(judge, "sorting networks", Paper("Sorting networks", "We sort networks.")))
    good = all_rules()[judge.prompt](asked).model_dump_json()  # pyright: ignore
    assert judge.read(read_answer(good, judge.answer).answer).score == 5
    for wrong in ("84", "3.5", '"4"', "null", "-1", "6", "5.0", "true"):
        bad = good.replace('"relevanceScore":5', f'"relevanceScore":{wrong}')
        assert bad != good
        assert read_answer(bad, judge.answer).answer is None, wrong
    assert read_answer(good[:-1] + ', "more": 1}', judge.answer).answer is None
