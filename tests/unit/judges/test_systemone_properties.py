"""Whatever a server sends, the judge gives sound answers, reasons, or one of its two errors (F34)."""

import asyncio
import json
from typing import Any

import httpx2
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lethelog.domain.answers import validate_answer
from lethelog.domain.judging import Answer, Item, JudgeRejected, JudgeUnavailable
from lethelog.handlers.judges.systemone import decode_reply, error_type, questions_of
from lethelog.handlers.judges.systemone_judge import SystemOneJudge
from lethelog.handlers.judges.transport import Transport, retry_after

from .judge_contract import NOW, assert_sound, assert_sound_answer, every_form, pair, request_of, single
from .wire import MODEL
from .wire import settings as wire_settings

ITEMS: list[Item] = [single(1, neighbours=3), single(2, memory_type="blocker"), pair(0), pair(1, pinned=True)]
QUESTIONS = questions_of(ITEMS, permute=True)
KEYS = sorted({key for item in every_form() for key in item.options})

odd_numbers = st.one_of(
    st.floats(),
    st.integers(),
    st.sampled_from([0, 1, 0.5, 0.33, 1e308, -0.0, 10**400, 5e-324, True, "0.9", None]),
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@st.composite
def near_answers(draw: st.DrawFn) -> Any:
    """An answer that is right, or wrong in one or several ways."""
    item = draw(st.sampled_from(ITEMS))
    keys = list(item.options)
    weights = [draw(st.integers(0, 20)) for _ in keys]
    total = sum(weights) or 1
    probabilities: dict[str, Any] = {key: weight / total for key, weight in zip(keys, weights, strict=True)}
    choice: Any = max(probabilities, key=lambda key: probabilities[key])
    if draw(st.integers(0, 3)) == 0:
        choice = draw(st.sampled_from(KEYS) | json_values)
    if draw(st.integers(0, 3)) == 0:
        probabilities[draw(st.sampled_from(KEYS) | st.text(max_size=4))] = draw(odd_numbers)
    answer: Any = {"type": "choice", "choice": choice, "probabilities": probabilities}
    if draw(st.integers(0, 7)) == 0:
        answer[draw(st.sampled_from(["type", "choice", "probabilities", "x_more"]))] = draw(json_values)
    return answer


@st.composite
def near_replies(draw: st.DrawFn) -> bytes:
    """A reply that is nearly right: odd answers, odd envelope, sometimes cut or damaged bytes."""
    ids = [question.id for question in QUESTIONS]
    answers = {
        id_: draw(near_answers() | json_values) for id_ in draw(st.lists(st.sampled_from(ids), unique=True))
    }
    body: dict[str, Any] = {"model": MODEL, "answers": answers, "usage": draw(st.none() | json_values)}
    if draw(st.integers(0, 4)) == 0:
        body[draw(st.sampled_from(["model", "answers", "usage", "id", "x"]))] = draw(json_values)
    text = json.dumps(body, ensure_ascii=draw(st.booleans())).encode("utf-8", "surrogatepass")
    if draw(st.integers(0, 4)) == 0:
        at = draw(st.integers(0, len(text)))
        text = text[:at] + draw(st.binary(max_size=6)) + text[at + draw(st.integers(0, 3)) :]
    return text


@given(near_replies() | st.binary(max_size=300))
@settings(max_examples=600, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_bytes_make_an_unsound_answer(body: bytes) -> None:
    got = decode_reply(body, ITEMS, QUESTIONS)
    assert list(got.answers) == [item.ref for item in ITEMS]
    for item in ITEMS:
        answer = got.answers[item.ref]
        if isinstance(answer, Answer):
            assert_sound_answer(answer, item)


@given(
    body=near_replies() | st.binary(max_size=300),
    status=st.sampled_from([200, 200, 200, 201, 204, 302, 400, 401, 404, 408, 422, 429, 500, 501, 503, 529, 599]),
    headers=st.dictionaries(
        st.sampled_from(["retry-after", "retry-after-ms", "x-request-id", "content-type", "location"]),
        st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=20),
        max_size=3,
    ),
)
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_reply_raises_anything_but_the_two_judge_errors(
    body: bytes, status: int, headers: dict[str, str]
) -> None:
    chosen = wire_settings(items_per_call=4)

    async def ask() -> None:
        async def no_sleep(_: float) -> None: ...

        transport = Transport(
            chosen,
            transport=httpx2.MockTransport(lambda _: httpx2.Response(status, content=body, headers=headers)),
            sleep=no_sleep,
        )
        judge = SystemOneJudge(chosen, transport=transport)
        request = request_of(*ITEMS)
        try:
            assert_sound(await judge.decide(request), ITEMS)
        except (JudgeUnavailable, JudgeRejected) as problem:
            json.dumps(problem.as_dict()).encode("utf-8")
            str(problem).encode("utf-8")
        finally:
            await judge.close()

    asyncio.run(ask())


@given(st.binary(max_size=200) | json_values.map(lambda value: json.dumps({"detail": value}).encode()))
def test_an_error_body_gives_a_short_code_or_nothing(body: bytes) -> None:
    kind = error_type(body)
    assert kind is None or (0 < len(kind) <= 64 and kind.isascii())


@given(st.dictionaries(st.sampled_from(["retry-after", "retry-after-ms"]), st.text(max_size=40)))
def test_retry_headers_give_a_pause_or_nothing(headers: dict[str, str]) -> None:
    pause = retry_after(headers, NOW)
    assert pause is None or 0 <= pause < float("inf")


@given(st.dictionaries(st.text(max_size=3), odd_numbers, max_size=300), st.data())
def test_the_answer_rule_survives_any_map(probabilities: dict[str, Any], data: st.DataObject) -> None:
    """Also with hundreds of options, where the sum's tolerance grows, and with integers no float can hold."""
    options = dict.fromkeys(probabilities, "")
    choice = data.draw(st.sampled_from(sorted(options)) if options else st.text(max_size=3))
    got = validate_answer(choice, probabilities, options)
    if isinstance(got, Answer):
        assert abs(sum(got.probabilities.values()) - 1) < 1e-9


def test_many_zeros_are_no_distribution() -> None:
    zeros = {str(i): 0 for i in range(250)}
    assert not isinstance(validate_answer("0", zeros, dict.fromkeys(zeros, "")), Answer)
