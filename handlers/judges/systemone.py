"""The System One wire format: bytes out, bytes in, no I/O (judges.md 1.1, 1.2).

A call holds the rendered state and one ``choice`` question per item and order. A reply is read strictly: it is
one JSON object in valid UTF-8 without repeated keys, non-finite numbers or lone surrogates, or it answers
nothing (F34). Inside a sound reply every item stands alone: what is off with one leaves the others valid.

Two orders. A model that prefers a position shows it by changing its mind when the options are turned round
(judges.md 4.4). Each item is asked with its options in canonical and in reversed order, and the two maps are
averaged by key. Where the orders name the same key, that is the answer. Where they differ, the answer is the
item's keep key if the averaged map supports keeping, and otherwise there is no verdict (``order_sensitive``).
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from ...domain.answers import ARGMAX_TOLERANCE, validate_answer
from ...domain.judging import Answer, AnyItem, AnyRequest, NoVerdict
from .endpoint import is_model_id
from .strict_json import NotStrictJson, strict_json_object

MALFORMED = "malformed_reply"
MOST_TOKENS = 2**31 - 1
MOST_COST_USD = 1_000_000.0

_CODE = re.compile(r"[A-Za-z0-9_.\-]{1,64}", re.ASCII)
_REQUEST_ID = re.compile(r"[!-~]{1,128}")


@dataclass(frozen=True, slots=True)
class Question:
    """One item asked in one order. ``id`` is our own; the service does not show it to the model."""

    id: str
    ref: str
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reply:
    """A decoded reply: an answer or a reason for every asked item, and what the server says of the call."""

    answers: Mapping[str, Answer | NoVerdict]
    model: str | None = None
    """The id of the model that answered, or None where the reply names none or is malformed."""
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    request_id: str | None = None
    extra_answers: int = 0
    """Answers to questions that were not asked. They are ignored."""


def questions_of(items: Sequence[AnyItem], *, permute: bool) -> tuple[Question, ...]:
    """The questions of one request: each item once, or in canonical and reversed order.

    Ids use letters, digits and ``_`` only, since some servers refuse others.
    """
    asked: list[Question] = []
    for item in items:
        keys = tuple(item.options)
        if permute:
            asked.append(Question(f"{item.ref}_a", item.ref, keys))
            asked.append(Question(f"{item.ref}_b", item.ref, keys[::-1]))
        else:
            asked.append(Question(item.ref, item.ref, keys))
    return tuple(asked)


def encode_request(
    request: AnyRequest, questions: Sequence[Question], *, model: str, extra_body: Mapping[str, Any]
) -> bytes:
    """The body of one call.

    Instructions and criteria are this engine's own words; text of memories stands in ``state`` alone (F36).
    Raises `UnicodeEncodeError` where the state holds a lone surrogate, which the input boundary refuses.
    """
    options = request.questions
    body: dict[str, Any] = {
        "model": model,
        "state": request.state,
        "questions": {
            question.id: {
                "type": "choice",
                "instructions": request.instructions(question.ref),
                "criteria": {key: options[question.ref][key] for key in question.keys},
            }
            for question in questions
        },
        **extra_body,
    }
    return json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8")


def decode_reply(body: bytes, items: Sequence[AnyItem], questions: Sequence[Question]) -> Reply:
    """What a reply with status 200 answers. Never raises: a malformed reply answers nothing."""
    try:
        reply = strict_json_object(body)
    except NotStrictJson:
        return Reply(no_verdicts(items, MALFORMED))
    given = reply.get("answers")
    if not isinstance(given, dict):
        return Reply(no_verdicts(items, MALFORMED))
    model = reply.get("model")
    if not isinstance(model, str):
        return Reply(no_verdicts(items, "model_missing"))
    by_id = cast(dict[str, Any], given)
    usage: Any = reply.get("usage")
    counts: dict[str, Any] = cast(dict[str, Any], usage) if isinstance(usage, dict) else {}
    return Reply(
        answers={item.ref: _answer_to(item, questions, by_id) for item in items},
        model=model,
        input_tokens=token_count(counts.get("input_tokens")),
        output_tokens=token_count(counts.get("output_tokens")),
        cost_usd=cost_of(counts.get("cost")),
        request_id=readable_request_id(reply.get("id")),
        extra_answers=len(by_id.keys() - {question.id for question in questions}),
    )


def no_verdicts(items: Sequence[AnyItem], reason: str) -> dict[str, Answer | NoVerdict]:
    """The same reason for every item."""
    return {item.ref: NoVerdict(reason) for item in items}


def error_type(body: bytes) -> str | None:
    """The machine-readable kind of an error reply, from the three shapes in use (judges.md 1.5).

    ``detail`` as object (TypeSafe), ``detail`` as list (validation errors), ``error`` as object (OpenRouter,
    llama.cpp). Messages are left out: servers quote the request in them, and that is memory text.
    """
    try:
        reply = strict_json_object(body)
    except NotStrictJson:
        return None
    detail = reply.get("detail")
    for part, names in ((_first(detail), ("error_type", "type")), (reply.get("error"), ("type", "code"))):
        fields = cast(dict[str, Any], part) if isinstance(part, dict) else {}
        for name in names:
            code = fields.get(name)
            if isinstance(code, int) and not isinstance(code, bool) and 0 <= code < 100_000:
                return str(code)
            if isinstance(code, str) and _CODE.fullmatch(code):
                return code
    return None


def shown_model(model: str) -> str:
    """A model id fit for errors and records: its own text where that is an id, else a stand-in."""
    return model if is_model_id(model) else "(an unreadable id)"


def readable_request_id(value: Any) -> str | None:
    """A server's request id where it is short printable ASCII, else None."""
    return value if isinstance(value, str) and _REQUEST_ID.fullmatch(value) else None


def _answer_to(item: AnyItem, questions: Sequence[Question], given: Mapping[str, Any]) -> Answer | NoVerdict:
    answers: list[Answer] = []
    for question in questions:
        if question.ref != item.ref:
            continue
        answer = _read_answer(given.get(question.id), item.options)
        if isinstance(answer, NoVerdict):
            return answer
        answers.append(answer)
    return answers[0] if len(answers) == 1 else _average(item, answers)


def _read_answer(given: Any, options: Mapping[str, str]) -> Answer | NoVerdict:
    if given is None:
        return NoVerdict("answer_missing")
    if not isinstance(given, dict):
        return NoVerdict("answer_not_an_object")
    answer = cast(dict[str, Any], given)
    if answer.get("type") != "choice":
        return NoVerdict("answer_type_not_choice")
    # `confidence` is not read: five formulas for it are in use (judges.md 1.5).
    return validate_answer(answer.get("choice"), answer.get("probabilities"), options)


def _average(item: AnyItem, answers: Sequence[Answer]) -> Answer | NoVerdict:
    """One answer out of the same item's answers in several orders; the rule stands at the head of this module."""
    options = item.options
    mean = {key: math.fsum(a.probabilities[key] for a in answers) / len(answers) for key in options}
    choices = {a.choice for a in answers}
    if len(choices) == 1:
        choice = choices.pop()
    else:
        choice = item.keep
        if mean[choice] < max(mean.values()) - ARGMAX_TOLERANCE:
            return NoVerdict("order_sensitive")
    merged = validate_answer(choice, mean, options)
    if isinstance(merged, NoVerdict) or all(a.raw_probabilities is None for a in answers):
        return merged
    received = [a.raw_probabilities or a.probabilities for a in answers]
    raw = {key: math.fsum(each[key] for each in received) / len(received) for key in options}
    return Answer(merged.choice, merged.probabilities, raw_probabilities=raw)


def _first(detail: Any) -> Any:
    """The first entry of a list, and anything else as it is."""
    if not isinstance(detail, list):
        return detail
    entries = cast(list[Any], detail)
    return entries[0] if entries else None


def token_count(value: Any) -> int:
    """A token count; 0 where it is missing or is no count. A whole float is a count (some servers send one)."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST_TOKENS:
        return 0
    return int(value)


def cost_of(value: Any) -> float | None:
    """A cost in US dollars; None, which means unknown, where it is missing or is no amount."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST_COST_USD:
        return None
    return float(value)
