"""The chat format of OpenAI with an answer by JSON schema: bytes out, bytes in, no I/O.

A reply is read strictly: it is one JSON object, its message's content is one JSON object as asked for, or it is no
answer (F34). Nothing is repaired, a fence of backticks around the answer included.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from ...domain.extraction import ExtractionRequest, Taken, take_facts
from ..judges.strict_json import NotStrictJson, strict_json_object
from ..judges.systemone import cost_of, readable_request_id, shown_model, token_count

_TEXT = {"type": "string"}
_FACT = {
    "subject": _TEXT,
    "predicate": _TEXT,
    "value": _TEXT,
    "quote": _TEXT,
    "confidence": {"type": "number"},
}
SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "facts": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": _FACT,
                "required": list(_FACT),
                "additionalProperties": False,
            },
        }
    },
    "required": ["facts"],
    "additionalProperties": False,
}
"""What the server is to hold the answer to. Lengths and ranges are checked here, since servers differ in these."""


@dataclass(frozen=True, slots=True)
class ChatReply:
    """A decoded reply."""

    outcome: Literal["read", "refused", "malformed"]
    model: str | None = None
    taken: Taken = field(default_factory=Taken)
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    request_id: str | None = None


def encode_request(request: ExtractionRequest, *, model: str, extra_body: Mapping[str, Any]) -> bytes:
    """The body of one call. What is asked stands in the system message, text of a memory in the user's alone."""
    body: dict[str, Any] = {
        "model": model,
        "messages": [
            {"role": "system", "content": request.instructions},
            {"role": "user", "content": request.state},
        ],
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "facts", "strict": True, "schema": SCHEMA},
        },
        "stream": False,
        **extra_body,
    }
    return json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8")


def decode_reply(body: bytes, texts: Sequence[str]) -> ChatReply:
    """What a reply with status 200 says. Never raises."""
    try:
        reply = strict_json_object(body)
    except NotStrictJson:
        return ChatReply("malformed")
    outcome, taken = _answered(reply, texts)
    model = reply.get("model")
    usage: Any = reply.get("usage")
    counts: dict[str, Any] = cast(dict[str, Any], usage) if isinstance(usage, dict) else {}
    return ChatReply(
        outcome,
        model=shown_model(model) if isinstance(model, str) else None,
        taken=taken,
        input_tokens=token_count(counts.get("prompt_tokens")),
        output_tokens=token_count(counts.get("completion_tokens")),
        cost_usd=cost_of(counts.get("cost")),
        request_id=readable_request_id(reply.get("id")),
    )


def _answered(
    reply: Mapping[str, Any], texts: Sequence[str]
) -> tuple[Literal["read", "refused", "malformed"], Taken]:
    choices = reply.get("choices")
    first = _fields(cast(list[Any], choices)[0]) if isinstance(choices, list) and choices else {}
    message = _fields(first.get("message"))
    if message.get("refusal") or first.get("finish_reason") == "content_filter":
        return "refused", Taken()
    content = message.get("content")
    # Cut off at the bound on its length, it may even read as JSON, and says less than was meant.
    if not isinstance(content, str) or first.get("finish_reason") == "length":
        return "malformed", Taken()
    try:
        answer = strict_json_object(content.encode("utf-8"))
    except NotStrictJson:
        return "malformed", Taken()
    facts = answer.get("facts")
    if set(answer) != {"facts"} or not isinstance(facts, list):
        return "malformed", Taken()
    return "read", take_facts(cast(list[object], facts), texts)


def _fields(value: object) -> dict[str, Any]:
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}
