"""The states that a page of events leads to, for read models whose rows are the folded state of short streams."""

from collections.abc import Sequence
from typing import TypeVar
from uuid import UUID

from ..streams.folding import Evolve, fold_states
from ..streams.log import Log
from ..streams.payloads import RecordedEvent

S = TypeVar("S")
_Key = tuple[UUID, UUID]


async def states_of(
    log: Log, page: Sequence[RecordedEvent], evolve: Evolve[S]
) -> list[tuple[UUID, list[tuple[S, int]]]]:
    """By stream: its tenant, and each state that an event of the page leads to with that event's position."""
    streams: dict[_Key, list[RecordedEvent]] = {}
    for event in page:
        streams.setdefault((event.tenant, event.stream), []).append(event)
    earlier = await _earlier(log, streams, page[0].position)
    found: list[tuple[UUID, list[tuple[S, int]]]] = []
    for key, events in streams.items():
        folded = fold_states([*earlier.get(key, ()), *events], evolve)
        found.append(
            (key[0], [(state, one.position) for one, state in folded if one.position >= events[0].position])
        )
    return found


async def _earlier(
    log: Log, streams: dict[_Key, list[RecordedEvent]], before: int
) -> dict[_Key, list[RecordedEvent]]:
    """Events of these streams from before the page, and none behind it."""
    wanted: dict[UUID, list[UUID]] = {}
    for (tenant, stream), events in streams.items():
        if events[0].version > 1:
            wanted.setdefault(tenant, []).append(stream)
    found: dict[_Key, list[RecordedEvent]] = {}
    for tenant, ids in wanted.items():
        for stream, events in (await log.read_streams(tenant, ids, upto=before - 1)).items():
            found[(tenant, stream)] = events
    return found
