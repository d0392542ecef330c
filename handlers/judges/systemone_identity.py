"""The identity of a System One judge: everything known here that could change an answer.

Thresholds belong to one identity (settlement 12), so whatever moves answers must move it: the endpoint, the
pinned model, the orders and the number of items per call, and every word and field of the request. The last
is taken from a fixed sample request, encoded as a real one would be, so that no list of texts has to be kept.
"""

import hashlib
import json
from datetime import UTC, datetime, timedelta
from uuid import UUID

from ...domain.judging import (
    CONTENT_CUT,
    DecisionRequest,
    JudgedMemory,
    Neighbour,
    PairItem,
    SingleItem,
    make_request,
)
from .systemone import encode_request, questions_of
from .systemone_settings import SystemOneSettings

DIGEST_LENGTH = 8
_NOW = datetime(2026, 1, 1, tzinfo=UTC)


def identity_of(settings: SystemOneSettings) -> str:
    """E.g. ``systemone:api.typesafe.ai:jev-1.14.0:p2:1a2b3c4d``.

    Wire, host (with a port that is written out), model, ``p`` and the orders asked (and ``i`` with the items
    per call where these share a state), and a digest of the request's wording and the remaining settings.
    """
    shared = "" if settings.items_per_call == 1 else f"i{settings.items_per_call}"
    return (
        f"systemone:{settings.host}:{settings.model}:p{settings.orders}{shared}:"
        f"{_digest(settings)[:DIGEST_LENGTH]}"
    )


def _digest(settings: SystemOneSettings) -> str:
    request = _sample_request()
    questions = questions_of(request.items, permute=settings.permute)
    body = encode_request(request, questions, model=settings.model, extra_body=settings.extra_body)
    rest = json.dumps([settings.url, sorted(settings.answers_as)])
    return hashlib.sha256(body + b"\n" + rest.encode("utf-8")).hexdigest()


def _sample_request() -> DecisionRequest:
    """One item of every form, with every optional part, and content long enough to be cut."""
    near = (Neighbour("s0n0", _sample_memory(1), 0.5),)
    return make_request(
        _NOW,
        [
            SingleItem("s0", _sample_memory(2), near),
            SingleItem("s1", _sample_memory(3, memory_type="blocker"), near),
            SingleItem("s2", _sample_memory(4, pinned=True), near),
            PairItem("p0", _sample_memory(5), _sample_memory(6), 0.5),
            PairItem("p1", _sample_memory(7, pinned=True), _sample_memory(8), 0.5),
        ],
    )


def _sample_memory(number: int, *, memory_type: str = "fact", pinned: bool = False) -> JudgedMemory:
    return JudgedMemory(
        memory_id=UUID(int=number),
        state_version=1,
        memory_type=memory_type,
        scope="personal",
        project="sample",
        topic="Sample",
        content="x" * (CONTENT_CUT + 1),
        occurred_at=_NOW - timedelta(days=60 - number),
        last_touched_at=_NOW - timedelta(days=60 - number),
        tags=("sample",),
        expires_at=_NOW,
        valid_to=_NOW,
        pinned=pinned,
    )
