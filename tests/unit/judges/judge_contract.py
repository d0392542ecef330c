"""What every judge owes the forgetting pass, whatever is behind it. Subclass `JudgeContract` to check one."""

import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from lethelog.domain.answers import ARGMAX_TOLERANCE, SUM_TOLERANCE
from lethelog.domain.closing import (
    DONE,
    NOT_DONE,
    ResolutionItem,
    ResolutionRequest,
    SessionJudge,
    make_resolution_request,
)
from lethelog.domain.errors import LethelogError
from lethelog.domain.judging import (
    Answer,
    DecisionRequest,
    DecisionResult,
    Item,
    Judge,
    JudgedMemory,
    JudgeRejected,
    Neighbour,
    NoVerdict,
    PairItem,
    SingleItem,
    batch_requests,
    make_request,
    verdict_of,
)

NOW = datetime(2026, 10, 26, 12, tzinfo=UTC)
SECRET = "kingfisher-4711"
"""A word of memory content that must never be seen outside of state and evidence."""


def memory(number: int, content: str = f"The deploy target is {SECRET}", **changes: Any) -> JudgedMemory:
    """A judged memory; a higher number is newer."""
    when = NOW - timedelta(days=200 - number)
    fields: dict[str, Any] = {
        "memory_id": UUID(int=number),
        "state_version": 1,
        "memory_type": "decision",
        "scope": "personal",
        "project": None,
        "topic": f"Topic {SECRET}",
        "content": content,
        "occurred_at": when,
        "last_touched_at": when,
    }
    return JudgedMemory(**{**fields, **changes})


def single(number: int, *, neighbours: int = 1, content: str | None = None, **changes: Any) -> SingleItem:
    """Single item ``s<number>`` with newer neighbours of its own."""
    near = tuple(
        Neighbour(f"s{number}n{i}", memory(100 + 10 * number + i, f"Newer {i} of {number}: {SECRET}"), 0.7)
        for i in range(neighbours)
    )
    text = f"Single {number}: {SECRET}" if content is None else content
    return SingleItem(f"s{number}", memory(number, text, **changes), near)


def pair(number: int, older: str | None = None, newer: str | None = None, **changes: Any) -> PairItem:
    """Pair item ``p<number>``; changes apply to the older memory."""
    return PairItem(
        f"p{number}",
        memory(50 + number, older or f"Older {number}: {SECRET}", **changes),
        memory(80 + number, newer or f"Newer {number}: {SECRET}"),
        0.8,
    )


def request_of(*items: Item) -> DecisionRequest:
    return make_request(NOW, items)


def every_form() -> list[Item]:
    """One item of every form the pass can build."""
    return [
        single(0, neighbours=0),
        single(1, neighbours=3),
        single(2, memory_type="blocker"),
        single(3, pinned=True),
        single(4, verified=True, neighbours=0),
        pair(0),
        pair(1, pinned=True),
    ]


def resolution_request() -> ResolutionRequest:
    """Is a commitment done, given what one session wrote?"""
    promised = memory(1, f"Send {SECRET} the report", memory_type="commitment")
    item = ResolutionItem("c0", promised, "open", NOW, (memory(90, f"The report went to {SECRET}"),))
    return make_resolution_request(NOW, item, 64_000)


def assert_sound(result: DecisionResult, items: Sequence[Item]) -> None:
    """The rules of judges.md 4.4 for whatever came back."""
    assert list(result.answers) == [item.ref for item in items]
    for item in items:
        answer = result.answers[item.ref]
        if isinstance(answer, NoVerdict):
            assert answer.reason.replace("_", "").isalpha(), "a reason is a code, not a text"
            continue
        assert_sound_answer(answer, item)
    result.model.encode("utf-8")
    (result.request_id or "").encode("utf-8")
    assert result.input_tokens >= 0
    assert result.output_tokens >= 0
    assert result.cost_usd is None or (math.isfinite(result.cost_usd) and result.cost_usd >= 0)


def assert_sound_answer(answer: Answer, item: Item) -> None:
    assert set(answer.probabilities) == set(item.options)
    assert answer.choice in item.options
    assert all(isinstance(p, float) and 0 <= p <= 1 for p in answer.probabilities.values())
    assert abs(math.fsum(answer.probabilities.values()) - 1) < 1e-9
    # The tolerance holds for numbers as received, which normalising can stretch by the sum's own tolerance.
    slack = ARGMAX_TOLERANCE / (1 - SUM_TOLERANCE)
    assert answer.probabilities[answer.choice] >= max(answer.probabilities.values()) - slack
    verdict = verdict_of(item, answer)
    judged = item.older if isinstance(item, PairItem) else item.memory
    assert verdict.memory_id == judged.memory_id
    if judged.pinned or judged.verified:
        assert verdict.action in ("keep", "conflict")
    if answer.evidence is not None:
        assert answer.evidence.memory_id in _members(item)


class JudgeContract:
    """Give ``judge`` as a fixture. A judge that cannot answer must say so and refuse to be asked."""

    @pytest.fixture
    def judge(self) -> Judge:
        raise NotImplementedError

    def test_it_is_a_judge(self, judge: Judge) -> None:
        assert isinstance(judge, Judge)
        assert judge.name
        assert judge.identity.startswith(judge.name)
        assert judge.identity == judge.identity
        assert judge.limits.max_questions >= 1
        assert judge.limits.max_state_chars >= 1

    async def test_it_answers_exactly_the_items_asked(self, judge: Judge) -> None:
        if judge.unavailable_because is not None:
            with pytest.raises(JudgeRejected):
                await judge.decide(request_of(pair(0)))
            return
        for request in batch_requests(NOW, every_form(), items_per_call=12, limits=judge.limits):
            assert_sound(await judge.decide(request), request.items)

    async def test_a_guarded_memory_is_only_kept_or_in_conflict(self, judge: Judge) -> None:
        if judge.unavailable_because is not None:
            return
        for item in (single(3, pinned=True), single(4, verified=True, neighbours=0), pair(1, verified=True)):
            assert not [key for key in item.options if key.startswith(("archive", "supersede"))]
            answer = (await judge.decide(request_of(item))).answers[item.ref]
            if isinstance(answer, Answer):
                assert verdict_of(item, answer).action in ("keep", "conflict")

    async def test_it_says_whether_a_commitment_is_done_or_why_it_never_does(self, judge: SessionJudge) -> None:
        request = resolution_request()
        if judge.closes_nothing_because is not None:
            with pytest.raises(JudgeRejected, match=re.escape(judge.closes_nothing_because)):
                await judge.decide_resolution(request)
            return
        [(ref, answer)] = (await judge.decide_resolution(request)).answers.items()
        assert ref == "c0"
        if isinstance(answer, NoVerdict):
            assert answer.reason.replace("_", "").isalpha(), "a reason is a code, not a text"
            return
        assert tuple(answer.probabilities) == (NOT_DONE, DONE) and answer.choice in answer.probabilities
        assert abs(math.fsum(answer.probabilities.values()) - 1) < 1e-9

    async def test_errors_and_reasons_hold_no_content(
        self, judge: Judge, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level("DEBUG")
        shown: list[str] = [repr(judge), judge.identity, judge.unavailable_because or ""]
        try:
            for request in batch_requests(NOW, every_form(), items_per_call=12, limits=judge.limits):
                answers = (await judge.decide(request)).answers.values()
                shown += [answer.reason for answer in answers if isinstance(answer, NoVerdict)]
        except LethelogError as problem:
            shown += [str(problem), repr(problem.as_dict())]
        assert SECRET not in "\n".join([*shown, caplog.text])

    async def test_it_can_be_closed(self, judge: Judge) -> None:
        await judge.close()


def _members(item: Item) -> set[UUID]:
    if isinstance(item, PairItem):
        return {item.older.memory_id, item.newer.memory_id}
    return {item.memory.memory_id, *(near.memory.memory_id for near in item.newer)}
