"""What a tenant of the review desk reads, and what its log says that it has to read.

The second is a history in which what was taken back never was: the events without the effects that are undone now,
folded from the beginning. So it knows nothing of how an effect is taken back.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from lethelog.domain import events as e
from lethelog.domain.commitment import Commitment, evolve_commitment
from lethelog.domain.contradiction import Contradiction, evolve_contradiction
from lethelog.domain.effects import origin_of
from lethelog.domain.event import Event
from lethelog.domain.fact import Fact, evolve_fact
from lethelog.domain.fields import normalised
from lethelog.domain.memory import Memory, evolve
from lethelog.handlers.briefing import Briefing
from lethelog.handlers.claims import TextClaims
from lethelog.handlers.commitments.listing import CommitmentListing
from lethelog.handlers.commitments.riding import CLAIM
from lethelog.handlers.contradictions.listing import ContradictionListing
from lethelog.handlers.facts import Facts
from lethelog.streams.pages import Selection
from lethelog.streams.payloads import RecordedEvent

QUERIES = ("PEP 314", "deploy when green", "report")
MOVED = frozenset({"position", "version"})
"""What an undo moves on although the memory is as it was."""


async def everything_read(world) -> dict[str, Any]:
    """What every kind of read says to the caller, in full."""
    await world.catch_up()
    caller, engine, reading = world.caller, world.engine, world.reading
    whole = (await reading.list(caller, {"status": "all", "limit": 100})).memories
    said: dict[str, Any] = {"list": [one.model_dump() for one in whole]}
    for status in ("retrievable", "active", "superseded", "archived"):
        page = await reading.list(caller, {"status": status, "limit": 100})
        said[status] = [one.id for one in page.memories]
    for query in QUERIES:
        hits = (await reading.search(caller, {"query": query, "limit": 25})).hits
        said[f"search {query}"] = [(hit.memory.id, round(hit.score, 6), hit.superseded) for hit in hits]
    if whole:
        got = await reading.get(caller, {"ids": [one.id for one in whole[:20]]})
        said["get"] = [one.model_dump() for one in got]
    briefing = await Briefing(engine).brief(caller, {"selector": "all", "mode": "full", "section_limit": 100})
    said["briefing"] = briefing.model_dump(include={"sections"})
    facts = await Facts(engine).get(caller, {"limit": 200})
    said["facts"] = [one.model_dump() for one in facts.facts]
    promised = await CommitmentListing(engine).page(caller, {"limit": 100})
    said["commitments"] = [one.model_dump() for one in promised.commitments]
    pairs = await ContradictionListing(engine).page(caller, {"limit": 100})
    said["contradictions"] = [
        one.model_dump(include={"id", "status", "outcome", "holds", "replaces"}) for one in pairs.contradictions
    ]
    return said


def but(said: Mapping[str, Any], *reads: str) -> dict[str, Any]:
    """The same without some of the reads."""
    return {name: answer for name, answer in said.items() if name not in reads}


def restored(said: Mapping[str, Any]) -> dict[str, Any]:
    """The same without what stands for when something was put on record, which an undo moves on."""
    kept = dict(said)
    for name in ("list", "get"):
        kept[name] = [_without(one, MOVED) for one in said.get(name, ())]
    kept["commitments"] = [_without(one, {"changed_at", "resolved_at"}) for one in said["commitments"]]
    return kept


def _without(one: Mapping[str, Any], names: frozenset[str] | set[str]) -> dict[str, Any]:
    return {name: value for name, value in one.items() if name not in names}


@dataclass
class Told:
    """A tenant's history without what was taken back."""

    memories: dict[UUID, Memory] = field(default_factory=dict)
    commitments: dict[UUID, Commitment] = field(default_factory=dict)
    facts: dict[UUID, Fact] = field(default_factory=dict)
    contradictions: dict[UUID, Contradiction] = field(default_factory=dict)
    effects: dict[UUID, RecordedEvent] = field(default_factory=dict)
    """All of them, also those that were taken back."""
    undone: set[UUID] = field(default_factory=set)

    @classmethod
    def of(cls, log: Sequence[RecordedEvent]) -> "Told":
        told = cls()
        for one in log:
            if isinstance(one.event, e.EffectUndone):
                (told.undone.discard if one.event.again else told.undone.add)(one.event.effect)
            elif one.event is not None and origin_of(one.event) is not None:
                told.effects[one.event_id] = one
        folds: dict[str, tuple[dict[UUID, Any], Callable[..., Any]]] = {
            "memory": (told.memories, evolve),
            "commitment": (told.commitments, evolve_commitment),
            "fact": (told.facts, evolve_fact),
            "contradiction": (told.contradictions, evolve_contradiction),
        }
        for one in log:
            states, fold = folds.get(one.name.partition(".")[0], (None, None))
            if states is None or fold is None or one.event is None or told._never_was(one.event_id, one.event):
                continue
            states[one.stream] = fold(
                states.get(one.stream),
                one.event,
                stream=one.stream,
                version=one.version,
                recorded_at=one.recorded_at,
            )
        return told

    def _never_was(self, event_id: UUID, event: Event) -> bool:
        return event_id in self.undone or isinstance(event, e.EffectUndone)

    def head(self, memory: UUID) -> UUID:
        """Where its line of successors ends."""
        seen = {memory}
        while (after := self.memories[memory].successor) is not None:
            assert after not in seen, "a line of successors goes round, so that it has no head"
            seen.add(memory := after)
        return memory


async def log_of(world) -> list[RecordedEvent]:
    """Everything on record about the caller's tenant."""
    return await world.engine.log.read_page(0, 100_000, only=Selection(world.caller.tenant))


async def agrees(world, told: Told) -> None:
    """Every read says what the history says, and so do the claims that later writes are decided by."""
    said = await everything_read(world)
    _memories_agree(said, told, world.clock.now)
    assert {one["id"]: (one["memory_id"], one["status"], one["owner"]) for one in said["commitments"]} == {
        one.id: (one.memory_id, one.status, None) for one in told.commitments.values()
    }
    assert {one["id"] for one in said["facts"]} == {
        one.id for one in told.facts.values() if one.valid_to is None and _speaks(told.memories[one.memory_id])
    }
    assert {one["id"]: (one["status"], one["outcome"], one["holds"]) for one in said["contradictions"]} == {
        one.id: (one.status, one.outcome, one.holds) for one in told.contradictions.values()
    }
    await _claims_agree(world, told)


def _memories_agree(said: Mapping[str, Any], told: Told, now: Any) -> None:
    assert {one["id"]: _of_view(one) for one in said["list"]} == {
        one.id: (
            one.status(now),
            one.successor,
            one.edge,
            one.held_until,
            one.pinned,
            one.fresh_at,
            frozenset(one.links),
        )
        for one in told.memories.values()
    }
    shown = {one.id for one in told.memories.values() if one.retrievable(now)}
    assert set(said["retrievable"]) == shown
    assert set(said["active"]) == {one for one in shown if told.memories[one].live}
    for query in QUERIES:
        assert {hit[0] for hit in said[f"search {query}"]} <= shown
    briefed = {item["id"] for one in said["briefing"]["sections"].values() for item in one["items"]}
    assert all(told.memories[one].live for one in briefed)


def _of_view(one: Mapping[str, Any]) -> tuple[Any, ...]:
    links = frozenset((link["memory_id"], link["edge"]) for link in one["links"])
    # An edge between two memories is told of either, a closing one of the superseded alone.
    return (
        one["status"],
        one["superseded_by"],
        one["edge"],
        one["held_until"],
        one["pinned"],
        one["fresh_at"],
        links,
    )


def _speaks(memory: Memory) -> bool:
    return not (memory.refuted or memory.quarantined or memory.suppressed)


async def _claims_agree(world, told: Told) -> None:
    texts = await TextClaims.of(world.engine.log, world.engine.vault, world.caller.tenant)
    held: dict[tuple[str, str], list[UUID]] = defaultdict(list)
    for one in told.memories.values():
        assert one.content is not None
        ended = one.archived or one.suppressed or one.refuted or one.successor
        held[(one.scope, normalised(one.content))] += [] if ended else [one.id]
    for (scope, text), holders in held.items():
        assert (await texts.holders(scope, text)).content == (holders[0] if holders else None)
        assert len(holders) < 2, "two memories hold the same text"
    claims = [(CLAIM, one.bytes) for one in told.memories]
    riding = dict(zip(told.memories, await world.engine.log.holders(world.caller.tenant, claims), strict=True))
    assert {memory: one for memory, one in riding.items() if one is not None} == {
        one.memory_id: one.id for one in told.commitments.values()
    }


def one_live_head_per_lineage(told: Told) -> None:
    """Whoever is superseded leads to one memory that is not, and a revision to what it revised."""
    for one in told.memories.values():
        told.head(one.id)
        if one.predecessor is not None:
            assert told.memories[one.predecessor].successor == one.id
    revised = Counter(one.predecessor for one in told.memories.values() if one.predecessor is not None)
    assert all(count == 1 for count in revised.values()), "a memory was revised twice"
