"""The certificate of an erasure: what was erased where, how that is known, and what it does not reach.

It follows from the erasure's own events, so the same one can be made again at any time.
"""

import hashlib
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from ...domain.erasure import Erasure
from ...domain.events import CheckedPlace
from ...streams.payloads import RecordedEvent
from .places import OUT_OF_REACH, PLACES

FORMAT = "lethelog erasure certificate 1"
IDS_NAMED = 1_000
"""Ids that are named one by one; of more, count and digest."""


def statement(
    tenant: UUID,
    state: Erasure,
    recorded: Sequence[RecordedEvent],
    checked: Sequence[CheckedPlace],
    *,
    checked_at: int,
    looked_at: datetime,
) -> dict[str, Any]:
    """What is signed. ``recorded`` are the erasure's events up to the one that performed it."""
    assert state.performed is not None and state.requested is not None
    how = {place.name: place for place in PLACES}
    events = [
        one for one in recorded if one.name in ("erasure.previewed", "erasure.requested", "erasure.performed")
    ]
    requested = next(one for one in events if one.name == "erasure.requested")
    return {
        "format": FORMAT,
        "erasure": str(state.id),
        "tenant": str(tenant),
        "kind": state.previewed.kind,
        "reason": state.requested.reason,
        "requested_by": {"kind": requested.envelope.actor.kind, "id": str(requested.envelope.actor.id)},
        "choices": {
            "derived": state.previewed.derived,
            "re_entry": state.requested.re_entry,
            "digests_left": state.performed.blocked,
        },
        "data_keys_destroyed": _ids(state.memories),
        "names_destroyed": _ids(state.names),
        "tenant_key_destroyed": state.performed.tenant_key,
        "left_for_review": {
            "count": state.performed.left_count,
            "ids": [str(one) for one in state.performed.left],
        },
        "events": [
            {
                "event": one.name,
                "position": one.position,
                "event_id": str(one.event_id),
                "at": one.recorded_at.isoformat(),
            }
            for one in events
        ],
        "checked": {"up_to_position": checked_at, "at": looked_at.isoformat()},
        "places": [
            {
                **one.model_dump(),
                "erased_by": how[one.place].erased_by if one.place in how else "",
                "proved_by": how[one.place].proved_by if one.place in how else "",
                "remains": how[one.place].remains if one.place in how else "",
            }
            for one in checked
        ],
        "out_of_reach": [
            {"place": one.name, "why": one.why, "what_to_do": one.what_to_do} for one in OUT_OF_REACH
        ],
        "exports": {
            "count": state.performed.exports_count,
            "archives": [one.model_dump(mode="json") for one in state.performed.exports],
        },
        "providers": [one.model_dump(mode="json") for one in state.performed.providers],
    }


def _ids(ids: Sequence[UUID]) -> dict[str, Any]:
    written = sorted(map(str, ids))
    named = {"ids": written} if len(written) <= IDS_NAMED else {}
    return {"count": len(written), "sha256": hashlib.sha256("\n".join(written).encode()).hexdigest(), **named}
