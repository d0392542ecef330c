"""System One replies made by hand, and judges that read them without a socket."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import httpx2
from lethelog.domain.judging import Item
from lethelog.handlers.judges.systemone import questions_of
from lethelog.handlers.judges.systemone_judge import SystemOneJudge
from lethelog.handlers.judges.systemone_settings import SystemOneSettings
from lethelog.handlers.judges.transport import Transport
from pydantic import SecretStr

MODEL = "jev-1.14.0"
KEY = "sk-very-secret-key"


def settings(**changes: Any) -> SystemOneSettings:
    fields: dict[str, Any] = {"base_url": "http://127.0.0.1:9", "model": MODEL, "api_key": SecretStr(KEY)}
    return SystemOneSettings(**{**fields, **changes})


def answer(choice: Any, probabilities: Any, **more: Any) -> dict[str, Any]:
    return {"type": "choice", "choice": choice, "confidence": 0.5, "probabilities": probabilities, **more}


def towards(item: Item, choice: str, p: float = 0.9) -> dict[str, Any]:
    """A sound answer that gives ``choice`` probability ``p`` and shares out the rest."""
    others = [key for key in item.options if key != choice]
    return answer(choice, {choice: p, **{key: (1 - p) / len(others) for key in others}})


def reply(answers: Mapping[str, Any], **changes: Any) -> bytes:
    body = {
        "model": MODEL,
        "answers": dict(answers),
        "usage": {"input_tokens": 171, "output_tokens": 9},
        **changes,
    }
    return json.dumps(body).encode()


def same_in_all_orders(items: list[Item], answers: Mapping[str, Any], *, permute: bool = True) -> dict[str, Any]:
    return {q.id: answers[q.ref] for q in questions_of(items, permute=permute) if q.ref in answers}


def judge_over(handle: Callable[[httpx2.Request], httpx2.Response], **changes: Any) -> SystemOneJudge:
    """A judge whose server is a function. It never waits."""
    chosen = settings(**changes)

    async def no_sleep(_: float) -> None: ...

    transport = Transport(chosen, transport=httpx2.MockTransport(handle), sleep=no_sleep, chance=lambda: 0.0)
    return SystemOneJudge(chosen, transport=transport)


def judge_that_hears(body: bytes, status: int = 200, **changes: Any) -> SystemOneJudge:
    """A judge whose server always replies the same bytes."""
    return judge_over(lambda _: httpx2.Response(status, content=body), **changes)
