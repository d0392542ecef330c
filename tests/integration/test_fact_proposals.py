"""Facts that an extractor proposes: nothing until a reviewer agrees, and then one fact (behaviour.md 1.14.3)."""

import asyncio
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest
from lethelog.domain import events as e
from lethelog.domain.errors import Conflict, StaleProposal
from lethelog.handlers.facts import Facts
from lethelog.handlers.reviewing.facts import claim_of
from lethelog.handlers.reviewing.staging import Staging, stage
from lethelog.streams.payloads import Envelope

from .archives import WORKER

JANUARY, MARCH = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 3, 1, tzinfo=UTC)
_CLAIMED = ("subject", "predicate", "value")
TEXT = "Ada moved to Porto in January"


async def propose(world, memory_id: UUID, *, source: UUID | None = None, **said: Any) -> Staging:
    state = await world.commands.load(world.caller.tenant, memory_id)
    fact = {"subject": "Ada", "predicate": "lives in", "value": "Porto", "confidence": 0.75, **said}
    staged = e.FactStaged(
        memory_id=memory_id,
        seen={memory_id: state.state_version},
        source=source or uuid4(),
        rationale="moved to Porto",
        extractor="extractor:told",
        claim=await claim_of(world.engine.vault, world.caller.tenant, *(fact[name] for name in _CLAIMED)),
        **fact,
    )
    envelope = Envelope(WORKER, cause=uuid4(), correlation=uuid4(), policy=1, judge="extractor:told")
    return await stage(world.engine.log, world.caller.tenant, staged, envelope)


async def decide(world, verb: str, proposal: UUID, **said: Any):
    await world.catch_up()
    return await getattr(world.reviewing, verb)(world.caller, {"proposal_id": proposal, **said})


async def facts(world, **asked: Any):
    await world.catch_up()
    return (await Facts(world.engine).get(world.caller, asked)).facts


@pytest.fixture
async def memory(world) -> UUID:
    return await world.remember(TEXT)


async def test_a_proposed_fact_is_shown_to_a_reviewer_and_told_to_nobody_else(world, memory):
    """proposal is inert: no effect on facts until accepted."""
    staged = await propose(world, memory, valid_from=JANUARY, valid_to=MARCH)
    assert staged.staged and await facts(world) == ()
    [view] = (await world.reviewing.list(world.caller, {"kind": "fact"})).proposals
    assert (view.id, view.action, view.memory_id, view.probability) == (staged.proposal, "assert", memory, 0.75)
    shown = repr(view.model_dump(mode="json"))
    for said in ("Ada", "lives in", "Porto", "moved to Porto", "2026-01-01", "2026-03-01", "extractor:told"):
        assert said in shown, said


async def test_accepting_makes_the_fact_with_its_window_and_names_the_proposal(world, memory):
    staged = await propose(world, memory, valid_from=JANUARY, valid_to=MARCH)
    decided = await decide(world, "accept", staged.proposal, comment="so it is")
    assert (decided.proposal.status, decided.changed) == ("applied", ())
    [fact] = await facts(world, valid_at=JANUARY)
    assert (fact.id, fact.memory_id, fact.proposal) == (decided.fact_id, memory, staged.proposal)
    assert (fact.value, fact.confidence, fact.valid_from, fact.valid_to) == ("Porto", 0.75, JANUARY, MARCH)
    [recorded] = await world.engine.log.read_stream(world.caller.tenant, fact.id)
    assert recorded.envelope.actor == world.caller.actor, "it is the reviewer's"


async def test_an_accepted_fact_without_a_beginning_holds_from_the_decision_on(world, memory):
    """null valid_from becomes now."""
    staged = await propose(world, memory)
    world.clock.forward(days=3)
    await decide(world, "accept", staged.proposal)
    [fact] = await facts(world)
    assert fact.valid_from == world.clock.now


async def test_a_superseded_source_is_a_conflict_and_the_proposal_stays_open(world, memory):
    """fact proposals: superseded source → conflict, still open."""
    staged = await propose(world, memory)
    await world.commands.revise(world.caller, {"memory_id": memory, "content": "Ada moved to Faro"})
    with pytest.raises(Conflict, match="superseded"):
        await decide(world, "accept", staged.proposal)
    archived = await world.remember("Bo uses Vim")
    other = await propose(world, archived, value="Vim")
    await world.commands.archive(world.caller, {"memory_id": archived})
    with pytest.raises(Conflict, match="archived"):
        await decide(world, "accept", other.proposal)
    open_ones = (await world.reviewing.list(world.caller, {"status": "proposed"})).proposals
    assert {one.id for one in open_ones} == {staged.proposal, other.proposal} and await facts(world) == ()
    assert (await decide(world, "reject", staged.proposal)).proposal.status == "rejected"


async def test_a_source_that_moved_on_and_is_live_answers_stale(world, memory):
    staged = await propose(world, memory)
    await world.commands.move(world.caller, {"memory_id": memory, "scope": "work"})
    with pytest.raises(StaleProposal) as stale:
        await decide(world, "accept", staged.proposal)
    assert stale.value.details["seen_version"] == 1 and stale.value.details["current_version"] == 2


async def test_a_rejected_claim_may_be_proposed_again_and_an_open_one_is_not_doubled(world, memory):
    """reject allows re-proposal; one open row per memory, subject, predicate and value."""
    staged = await propose(world, memory)
    again = await propose(world, memory, confidence=0.5)
    assert not again.staged, "re-insertion while open is a no-op"
    another = await propose(world, memory, value="Matosinhos")
    assert another.staged
    rejected = await decide(world, "reject", staged.proposal)
    assert rejected.fact_id is None and await facts(world) == ()
    back = await propose(world, memory)
    assert back.staged and back.proposal != staged.proposal
    source = uuid4()
    first = await propose(world, memory, source=source, value="Gaia")
    await decide(world, "reject", first.proposal)
    retried = await propose(world, memory, source=source, value="Gaia")
    assert not retried.staged, "the same reading of the text asks once"


async def test_two_reviewers_at_once_make_one_fact(world, memory):
    staged = await propose(world, memory)
    await world.catch_up()
    outcomes = await asyncio.gather(
        *(world.reviewing.accept(world.caller, {"proposal_id": staged.proposal}) for _ in range(4)),
        return_exceptions=True,
    )
    assert sum(isinstance(one, Conflict) for one in outcomes) == 3
    assert len(await facts(world)) == 1
    with pytest.raises(Conflict, match="already applied"):
        await decide(world, "accept", staged.proposal)


async def test_a_decision_that_is_repeated_by_its_key_gives_the_same_fact(world, memory):
    staged = await propose(world, memory)
    first = await decide(world, "accept", staged.proposal, key="k1")
    again = await decide(world, "accept", staged.proposal, key="k1")
    assert first.fact_id == again.fact_id and len(await facts(world)) == 1
