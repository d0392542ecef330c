"""`SystemOneJudge` around codec and transport: limits, model, digest, silence about content."""

import hashlib
import json
import logging
from typing import Any

import httpx2
import pytest
from jevcompat.mock import MockConfig, respond
from lethelog.domain.errors import LethelogError
from lethelog.domain.judging import Answer, Item, Judge, JudgeRejected, NoVerdict
from lethelog.handlers.judges.systemone import questions_of
from lethelog.handlers.judges.systemone_judge import SystemOneJudge

from .judge_contract import SECRET, JudgeContract, assert_sound, every_form, pair, request_of, single
from .wire import KEY, MODEL, judge_over, judge_that_hears, reply, same_in_all_orders, towards

PAIR = pair(0)
SOUND = reply(same_in_all_orders([PAIR], {"p0": towards(PAIR, "supersede_older")}))


def reference_server(request: httpx2.Request) -> httpx2.Response:
    """The conformance suite's own model, without its socket."""
    body = json.loads(request.content)
    return httpx2.Response(200, json={**respond(MockConfig(), body), "model": body["model"]})


class TestSystemOneOneByOne(JudgeContract):
    @pytest.fixture
    def judge(self) -> Judge:
        return judge_over(reference_server)


class TestSystemOneInBatches(JudgeContract):
    @pytest.fixture
    def judge(self) -> Judge:
        return judge_over(reference_server, items_per_call=12)


class TestSystemOneMalformed(JudgeContract):
    @pytest.fixture
    def judge(self) -> Judge:
        return judge_that_hears(b"<html>")


async def test_a_server_that_quotes_the_request_in_its_error_is_not_repeated() -> None:
    body = json.dumps({"detail": {"error_type": "authentication_error", "message": f"seen: {SECRET}"}})
    with pytest.raises(JudgeRejected) as caught:
        await judge_that_hears(body.encode(), status=401).decide(request_of(PAIR))
    assert caught.value.details == {"status": 401, "error_type": "authentication_error"}
    assert SECRET not in repr(caught.value.as_dict())


async def test_a_result_says_what_the_call_was() -> None:
    result = await judge_that_hears(SOUND).decide(request_of(PAIR))
    assert isinstance(result.answers["p0"], Answer)
    assert result.model == MODEL
    assert (result.input_tokens, result.output_tokens, result.attempts) == (171, 9, 1)
    assert result.raw_digest == hashlib.sha256(SOUND).hexdigest()


async def test_batches_come_back_in_the_order_asked() -> None:
    items = every_form()
    result = await judge_over(reference_server, items_per_call=12).decide(request_of(*items))
    assert_sound(result, items)


async def test_a_question_is_counted_once_per_order() -> None:
    assert judge_over(reference_server).limits.max_questions == 1
    assert judge_over(reference_server, items_per_call=50).limits.max_questions == 50
    assert len(questions_of([single(i) for i in range(50)], permute=True)) == 100


LONG: list[Item] = [pair(i, older="x" * 1_200, newer="y" * 1_200) for i in range(8)]


@pytest.mark.parametrize(
    ("items", "changes"),
    [([pair(0), pair(1)], {}), (LONG, {"items_per_call": 8, "max_state_chars": 16_000})],
    ids=["items", "characters"],
)
async def test_what_passes_the_limits_is_not_sent(items: list[Item], changes: dict[str, Any]) -> None:
    def handle(_: httpx2.Request) -> httpx2.Response:
        raise AssertionError("sent")

    with pytest.raises(JudgeRejected):
        await judge_over(handle, **changes).decide(request_of(*items))


async def test_an_item_with_a_single_key_is_not_sent() -> None:
    asked: list[Any] = []

    def handle(request: httpx2.Request) -> httpx2.Response:
        asked.append(json.loads(request.content)["questions"].keys())
        return reference_server(request)

    judge = judge_over(handle, items_per_call=2)
    lonely = single(4, verified=True, neighbours=0)
    alone = await judge.decide(request_of(lonely))
    assert alone.answers == {"s4": Answer("keep", {"keep": 1.0})}
    assert alone.attempts == 0
    assert not asked
    both = await judge.decide(request_of(lonely, PAIR))
    assert list(both.answers) == ["s4", "p0"]
    assert asked == [{"p0_a", "p0_b"}]


async def test_a_reply_past_the_bound_answers_nothing() -> None:
    result = await judge_that_hears(SOUND + b" " * 5_000, max_reply_bytes=4_000).decide(request_of(PAIR))
    assert result.answers == {"p0": NoVerdict("reply_too_large")}
    assert result.raw_digest is None


async def test_a_malformed_reply_is_asked_once_and_raises_nothing() -> None:
    calls = 0

    def handle(_: httpx2.Request) -> httpx2.Response:
        nonlocal calls
        calls += 1
        return httpx2.Response(200, content=b'{"answers": {')

    result = await judge_over(handle).decide(request_of(PAIR))
    assert result.answers == {"p0": NoVerdict("malformed_reply")}
    assert calls == 1
    assert result.raw_digest


async def test_a_lone_surrogate_in_the_state_is_refused_without_quoting_it() -> None:
    request = request_of(pair(0, older=f"{SECRET} \ud83d"))
    with pytest.raises(JudgeRejected) as caught:
        await judge_over(reference_server).decide(request)
    assert SECRET not in repr(caught.value.as_dict())
    assert caught.value.__context__ is None


class TestModel:
    def judge(self, answered: Any, **changes: Any) -> SystemOneJudge:
        answers = same_in_all_orders([PAIR], {"p0": towards(PAIR, "conflict")})
        return judge_that_hears(reply(answers, model=answered), **changes)

    async def test_another_model_is_rejected_by_both_names(self) -> None:
        with pytest.raises(JudgeRejected) as caught:
            await self.judge("jev-1.15.0").decide(request_of(PAIR))
        assert "jev-1.15.0" in caught.value.message
        assert "jev-1.14.0" in caught.value.message

    @pytest.mark.parametrize("answered", ["jev-1.14", "jev-1.14.0-20261001", "JEV-1.14.0", "jev-1.14.0 ", ""])
    async def test_nearly_the_same_id_is_another_model(self, answered: str) -> None:
        with pytest.raises(JudgeRejected):
            await self.judge(answered).decide(request_of(PAIR))

    async def test_a_listed_name_is_the_same_model(self) -> None:
        judge = self.judge("typesafe/jev-1.14-20261001", answers_as=("typesafe/jev-1.14-20261001",))
        assert (await judge.decide(request_of(PAIR))).model == "typesafe/jev-1.14-20261001"

    async def test_an_id_that_is_none_is_not_repeated(self) -> None:
        with pytest.raises(JudgeRejected) as caught:
            await self.judge(f"the memory said {SECRET}").decide(request_of(PAIR))
        assert SECRET not in repr(caught.value.as_dict())

    async def test_an_unpinned_id_holds_to_the_first_model_that_answered(self) -> None:
        names = iter(["jev-1.14.0", "jev-1.14.0", "jev-1.15.0"])
        answers = same_in_all_orders([PAIR], {"p0": towards(PAIR, "conflict")})
        judge = judge_over(
            lambda _: httpx2.Response(200, content=reply(answers, model=next(names))),
            model="jev-latest",
            allow_unpinned=True,
        )
        for _ in range(2):
            assert (await judge.decide(request_of(PAIR))).model == "jev-1.14.0"
        with pytest.raises(JudgeRejected, match=r"jev-1\.15\.0"):
            await judge.decide(request_of(PAIR))


@pytest.mark.parametrize("status", [200, 401, 503])
@pytest.mark.parametrize("body", [SOUND, b'{"error":"kingfisher-4711"}', b"kingfisher-4711"])
async def test_nothing_of_state_answers_or_key_is_logged(
    status: int, body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    try:
        await judge_that_hears(body, status=status).decide(request_of(PAIR))
    except LethelogError as problem:
        shown = f"{problem!r} {problem.as_dict()}"
        assert SECRET not in shown
        assert KEY not in shown
    assert caplog.records
    assert SECRET not in caplog.text
    assert KEY not in caplog.text
    assert "supersede" not in caplog.text
