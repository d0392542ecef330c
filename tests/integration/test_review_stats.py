"""How reviewing goes, counted from what is on record."""

import re
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest
from lethelog.domain import events as e
from lethelog.domain.errors import InvalidInput
from lethelog.handlers.access.caller import Caller
from lethelog.handlers.analytics.prometheus import prometheus_text
from lethelog.handlers.analytics.review_stats import ReviewFigures
from lethelog.handlers.reviewing.staging import stage
from lethelog.handlers.undoing.undoing import Undoing
from lethelog.streams.payloads import Envelope

from .passes import ToldJudge, old, run_pass, sure
from .review_desk import reviewer, with_views


class Priced(ToldJudge):
    async def decide(self, request):
        return replace(await super().decide(request), cost_usd=0.02)


@pytest.fixture
async def reviewed(judging_world, broker):
    """Three archives proposed at 0.02 USD a verdict: one accepted, one rejected, one open."""
    world = judging_world
    memories = [
        await old(world, text) for text in ("Deploys go to Fly.io", "Lunch on Friday", "The shop is small")
    ]
    await run_pass(world, broker, Priced(sure("archive", 0.9)), floor=1.0)
    page = await world.reviewing.list(world.caller, {"status": "proposed"})
    world.proposals = [one.id for one in page.proposals]
    assert {one.memory_id for one in page.proposals} == set(memories)
    await with_views(world, world.reviewing.accept(world.caller, {"proposal_id": world.proposals[0]}))
    await with_views(world, world.reviewing.reject(world.caller, {"proposal_id": world.proposals[1]}))
    await world.catch_up()
    return world


def group(stats, by, value):
    [one] = [one for one in stats.groups if (one.by, one.value) == (by, value)]
    return one


async def test_acceptance_and_waits_are_told_per_kind_action_type_judge_and_threshold(reviewed):
    stats = await ReviewFigures(reviewed.engine).stats(reviewed.caller, {})
    assert stats.open == 1
    page = await reviewed.reviewing.list(reviewed.caller, {"status": "proposed"})
    assert stats.oldest_open_at == page.proposals[0].created_at
    decided = (await reviewed.reviewing.list(reviewed.caller, {})).proposals
    waits = sorted(
        (one.decided_at - one.created_at).total_seconds() for one in decided if one.decided_at is not None
    )
    for by, value in (
        ("kind", "retention"),
        ("action", "archive"),
        ("memory_type", "decision"),
        ("judge", "told:1"),
        ("threshold", "0.85"),
    ):
        one = group(stats, by, value)
        assert (one.staged, one.open, one.accepted, one.rejected) == (3, 1, 1, 1), by
        assert (one.acceptance.share, one.acceptance.of) == (0.5, 2)
        assert one.wait_p50_seconds == pytest.approx(sum(waits) / 2, abs=1e-3)
        assert one.wait_p90_seconds == pytest.approx(waits[0] + 0.9 * (waits[1] - waits[0]), abs=1e-3)
    assert len(stats.groups) == 5 and stats.groups_left_out == 0


async def test_what_was_taken_back_is_counted(reviewed):
    figures = ReviewFigures(reviewed.engine)
    [before] = (await figures.stats(reviewed.caller, {})).reversals
    assert (before.kind, before.undone.hits, before.undone.of) == ("retention", 0, 1)
    undoing = Undoing(reviewed.engine, reviewed.commands)
    await with_views(reviewed, undoing.undo(reviewed.caller, {"proposal_id": reviewed.proposals[0]}))
    await reviewed.catch_up()
    [after] = (await figures.stats(reviewed.caller, {})).reversals
    assert (after.undone.hits, after.undone.of) == (1, 1)


async def test_everything_a_judge_cost_stands_against_what_was_accepted(reviewed):
    stats = await ReviewFigures(reviewed.engine).stats(reviewed.caller, {})
    [one] = stats.spending
    assert (one.judge, one.operation, one.calls, one.accepted) == ("told:1", "memory.forget.decide", 3, 1)
    assert (one.cost_usd, one.usd_per_accepted) == (pytest.approx(0.06), pytest.approx(0.06))
    assert (one.unpriced, one.input_tokens, one.output_tokens) == (0, 30, 6)


async def test_reviewers_disagree_where_two_of_them_answer_one_question_differently(reviewed):
    world, memory, ended = reviewed, await reviewed.remember("The shop opens at nine"), uuid4()
    figures = ReviewFigures(world.engine)
    bea = await reviewer(world, "bea")
    for caller, verdict in ((world.caller, "reject"), (bea, "accept")):
        said = e.DependencyStaged(
            memory_id=memory, related_id=ended, seen={memory: 1}, source=uuid4(), ended="superseded"
        )
        envelope = Envelope(world.caller.actor, cause=uuid4(), correlation=uuid4())
        staged = await stage(world.engine.log, world.caller.tenant, said, envelope)
        decide = getattr(world.reviewing, verdict)
        assert (await figures.stats(world.caller, {})).disagreement.questions.hits == 0
        await with_views(world, decide(caller, {"proposal_id": staged.proposal}))
        await world.catch_up()
    stats = await figures.stats(world.caller, {})
    # The two that one reviewer decided alone are not questions of several reviewers.
    assert (stats.disagreement.questions.hits, stats.disagreement.questions.of) == (1, 1)
    assert stats.reviewers is not None
    named = {one.reviewer.partition(":")[2]: (one.accepted, one.rejected) for one in stats.reviewers}
    assert named["bea"] == (1, 0) and sorted(named.values()) == [(1, 0), (1, 2)]


async def test_reviewers_are_named_to_those_who_may_review_and_never_to_prometheus(reviewed):
    figures = ReviewFigures(reviewed.engine)
    ada = await reviewer(reviewed, "ada")
    await with_views(reviewed, reviewed.reviewing.reject(ada, {"proposal_id": reviewed.proposals[2]}))
    await reviewed.catch_up()
    stats = await figures.stats(reviewed.caller, {})
    assert stats.reviewers is not None and "person:ada" in [one.reviewer for one in stats.reviewers]
    reader = Caller(reviewed.caller.tenant, reviewed.caller.actor, frozenset({"memory:read"}))
    assert (await figures.stats(reader, {})).reviewers is None
    text = prometheus_text(stats)
    assert "ada" not in text and not re.search(r"[0-9a-f]{8}-[0-9a-f]{4}", text)
    sample = re.compile(r'lethelog_review_[a-z_]+(\{([a-z]+="[^"\n]*",?)+\})? [0-9.e+-]+')
    lines = text.splitlines()
    assert all(line.startswith("# ") or sample.fullmatch(line) for line in lines)
    assert 'lethelog_review_proposals{by="action",value="archive",status="accepted"} 1.0' in lines
    assert "lethelog_review_open 0.0" in lines
    assert 'lethelog_review_judge_calls{judge="told:1",operation="memory.forget.decide"} 3.0' in lines


async def test_figures_are_of_one_tenant_and_of_the_time_asked_for(reviewed):
    figures = ReviewFigures(reviewed.engine)
    stranger = await reviewed.another_caller()
    theirs = await figures.stats(stranger, {})
    assert (theirs.open, theirs.groups, theirs.spending, theirs.reversals) == (0, (), (), ())
    later = reviewed.engine.clock() + timedelta(hours=1)
    none = await figures.stats(reviewed.caller, {"since": later})
    # What waits does so whenever it came; everything else is of the time asked for.
    assert (none.open, none.groups, none.reversals) == (1, (), ())
    with pytest.raises(InvalidInput) as refused:
        await figures.stats(reviewed.caller, {"since": later - timedelta(days=400)})
    assert refused.value.field == "since"
