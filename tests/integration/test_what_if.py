"""What-if: recorded questions under other thresholds, another policy, another judge, against real decisions."""

from dataclasses import replace
from datetime import timedelta

import pytest
from lethelog.domain.errors import AccessDenied, Conflict, InvalidInput, Misconfigured
from lethelog.domain.events import TenantBudgetSettled
from lethelog.domain.judging import NoVerdict
from lethelog.domain.thresholds import no_thresholds
from lethelog.handlers.access.caller import Caller
from lethelog.handlers.erasure.erasures import Erasures
from lethelog.handlers.tenancy.tenants import budget_stream
from lethelog.handlers.undoing.undoing import Undoing
from lethelog.handlers.whatif.whatif import WhatIf

from .passes import ToldJudge, old, run_pass
from .review_desk import with_views

CHANCES = {"Fly.io": 0.9, "Heroku": 0.87, "Friday": 0.7}


class Priced(ToldJudge):
    """Archives by what stands in a memory, at a price."""

    async def decide(self, request):
        return replace(await super().decide(request), cost_usd=0.02)


def by_word(chances):
    def opinion(item):
        memory = item.memory if hasattr(item, "memory") else item.older
        chance = next((p for word, p in chances.items() if word in memory.content), 0.0)
        keep, archive, *rest = item.options
        return {keep: 1 - chance, archive: chance, **dict.fromkeys(rest, 0.0)}

    return opinion


def judge(chances, identity="told:1") -> Priced:
    return Priced(by_word(chances), identity=identity)


@pytest.fixture
async def judged(judging_world, broker):
    """Three stale memories: one archived by a reviewer, one kept by him, one the judge was not sure about."""
    world = judging_world
    memories = [
        await old(world, text, days=days)
        for text, days in (("Deploys go to Fly.io", 90), ("The shop is on Heroku", 60), ("Lunch on Friday", 40))
    ]
    # Nothing is near anything, so that each is asked about on its own.
    await run_pass(world, broker, judge(CHANCES), floor=1.0)
    page = await world.reviewing.list(world.caller, {"status": "proposed"})
    proposals = {one.memory_id: one.id for one in page.proposals}
    assert set(proposals) == set(memories[:2])
    await with_views(world, world.reviewing.accept(world.caller, {"proposal_id": proposals[memories[0]]}))
    await with_views(world, world.reviewing.reject(world.caller, {"proposal_id": proposals[memories[1]]}))
    await world.catch_up()
    world.memories, world.proposals = memories, proposals
    return world


def archive_of(precisions):
    [one] = [one for one in precisions if one.action == "archive"]
    return one.proposed, one.precision.hits, one.precision.of


async def test_a_stricter_threshold_takes_away_what_a_reviewer_had_rejected_and_appends_nothing(judged):
    world, head = judged, await judged.engine.log.head()
    found = await WhatIf(world.engine).replay(world.caller, {"archive": 0.89})
    assert archive_of(found.recorded) == (2, 1, 2)
    assert archive_of(found.replayed) == (1, 1, 1)
    assert (found.unchanged, found.appeared, found.disappeared, found.questions) == (1, 0, 1, 3)
    [gone] = found.disappearing
    assert (gone.memory_id, gone.decision, gone.probability) == (world.memories[1], "rejected", 0.87)
    [archive, *_] = found.replayed
    # 1 of 1: the interval says how little that is.
    assert (archive.precision.low, archive.precision.high) == (pytest.approx(0.2065, abs=1e-4), 1.0)
    assert not archive.enough and found.id is None
    assert await world.engine.log.head() == head


async def test_a_laxer_threshold_lets_appear_what_nobody_decided(judged):
    found = await WhatIf(judged.engine).replay(judged.caller, {"archive": 0.6})
    assert archive_of(found.replayed) == (3, 1, 2)
    [new] = found.appearing
    assert (new.memory_id, new.decision) == (judged.memories[2], None)
    nothing = await WhatIf(judged.engine).replay(judged.caller, {"archive": 0.85})
    assert (nothing.unchanged, nothing.appeared, nothing.disappeared) == (2, 0, 0)


async def test_an_acceptance_that_was_undone_speaks_against_the_judge(judged):
    undoing = Undoing(judged.engine, judged.commands)
    before = await WhatIf(judged.engine).replay(judged.caller, {"archive": 0.85})
    assert archive_of(before.recorded) == (2, 1, 2)
    await with_views(judged, undoing.undo(judged.caller, {"proposal_id": judged.proposals[judged.memories[0]]}))
    await judged.catch_up()
    after = await WhatIf(judged.engine).replay(judged.caller, {"archive": 0.85})
    assert archive_of(after.recorded) == (2, 0, 2)


@pytest.mark.parametrize(
    ("policy", "proposed", "says"),
    [
        ({"singles_cap": 1}, 1, None),
        ({"stale_window_days": 70}, 1, None),
        ({"singles_cap": 0}, 0, None),
        ({"stale_window_days": 10}, 2, "stale_window_days: memories fresher than the recorded window"),
        ({"pair_neighbours": 2}, 2, "pair_neighbours: the place of a newer memory"),
        ({"ttl_days": 10}, 2, "ttl_days: does not decide what a pass asks"),
    ],
)
async def test_another_policy_is_replayed_as_far_as_what_was_asked_allows(judged, policy, proposed, says):
    head = await judged.engine.log.head()
    found = await WhatIf(judged.engine).replay(judged.caller, {}, policy)
    assert archive_of(found.replayed)[0] == proposed
    assert found.disappeared == 2 - proposed
    assert (says is None) != any(one.startswith(says or "-") for one in found.not_replayed)
    assert await judged.engine.log.head() == head


async def test_another_judge_is_asked_the_recorded_questions_charged_and_recorded_and_proposes_nothing(judged):
    world = judged
    other = judge({"Fly.io": 0.95, "Friday": 0.9}, identity="told:2")
    what_if = WhatIf(world.engine, lambda _name: (other, no_thresholds("told:2")))
    queue = await world.reviewing.list(world.caller, {})
    head = await world.engine.log.head()
    found = await what_if.replay(world.caller, {"judge": "told"})
    # The archived one, too: what a decision did to it is no reason not to compare.
    assert other.judged == set(world.memories) and len(other.calls) == 3
    assert (found.asking.asked, found.asking.answered, found.asking.calls) == (3, 3, 3)
    assert found.asking.cost_usd == pytest.approx(0.06)
    assert found.thresholds_from == "starting"
    assert archive_of(found.replayed) == (2, 1, 1)
    assert [one.memory_id for one in found.appearing] == [world.memories[2]]
    assert [(one.memory_id, one.decision) for one in found.disappearing] == [(world.memories[1], "rejected")]

    new = [one for one in await world.engine.log.read_page(head, 100) if one.position > head]
    names = [one.name for one in new]
    assert names.count("whatif.requested") == 1 and names.count("whatif.verdict_recorded") == 3
    assert names.count("tenant.budget_reserved") == names.count("tenant.budget_settled") == 3
    assert {one.event.operation for one in new if one.name == "tenant.budget_settled"} == {"memory.forget.whatif"}
    assert {one.envelope.judge for one in new} == {"told:2"}
    assert len(names) == 10, "and nothing else"
    await world.catch_up()
    assert (await world.reviewing.list(world.caller, {})).total == queue.total

    again = await what_if.replay(world.caller, {"judge": "told"})
    assert (again.asking.asked, again.asking.reused, len(other.calls)) == (0, 3, 3)
    assert archive_of(again.replayed) == archive_of(found.replayed)


async def test_its_questions_show_the_memories_as_the_pass_saw_them(judged):
    other = judge({}, identity="told:2")
    first = judge(CHANCES)
    await WhatIf(judged.engine, lambda _: (other, no_thresholds("told:2"))).replay(
        judged.caller, {"judge": "told"}
    )
    shown = {call.items[0].memory.content: call for call in other.calls}
    assert set(shown) == {"Deploys go to Fly.io", "The shop is on Heroku", "Lunch on Friday"}
    [item] = shown["Deploys go to Fly.io"].items
    assert (item.memory.state_version, first.identity) == (1, "told:1")
    assert '"daysSinceTouched":90' in shown["Deploys go to Fly.io"].state


async def test_memories_that_somebody_changed_or_that_were_erased_are_skipped_and_counted(judged):
    world, erasures = judged, Erasures(judged.engine)
    # The older ones: nobody else's question shows them as a newer neighbour.
    await world.commands.archive(world.caller, {"memory_id": world.memories[1]})
    await world.catch_up()
    preview = await erasures.preview(world.caller, {"memory_id": world.memories[0]})
    await erasures.erase(world.caller, {"erasure_id": preview.id, "reason": "asked_for"})
    await world.catch_up()
    other = judge(CHANCES, identity="told:2")
    found = await WhatIf(world.engine, lambda _: (other, no_thresholds("told:2"))).replay(
        world.caller, {"judge": "told"}
    )
    assert other.judged == {world.memories[2]}
    assert found.asking.unanswered == {"changed_meanwhile": 1, "erased": 1}


async def test_what_is_erased_while_the_judge_is_asked_is_left_out_and_the_call_is_charged(judged):
    world, erasures = judged, Erasures(judged.engine)

    class Meanwhile(Priced):
        async def decide(self, request):
            answer = await super().decide(request)
            if request.items[0].memory.content == "Deploys go to Fly.io":
                preview = await erasures.preview(world.caller, {"memory_id": world.memories[0]})
                await erasures.erase(world.caller, {"erasure_id": preview.id, "reason": "asked_for"})
            return answer

    other = Meanwhile(by_word(CHANCES), identity="told:2")
    found = await WhatIf(world.engine, lambda _: (other, no_thresholds("told:2"))).replay(
        world.caller, {"judge": "told"}
    )
    assert (found.asking.calls, found.asking.answered, found.asking.unanswered) == (3, 2, {"erased": 1})
    assert found.asking.cost_usd == pytest.approx(0.06)
    day = await world.engine.log.read_stream(
        world.caller.tenant, budget_stream(world.caller.tenant, (await world.engine.log.now()).date())
    )
    charged = [one.event for one in day if isinstance(one.event, TenantBudgetSettled)]
    assert len([one for one in charged if one.operation == "memory.forget.whatif"]) == 3


async def test_a_judge_that_was_shown_a_memory_is_named_when_it_is_erased(judged):
    erasures = Erasures(judged.engine)
    other = judge({}, identity="told:2")
    await WhatIf(judged.engine, lambda _: (other, no_thresholds("told:2"))).replay(
        judged.caller, {"judge": "told"}
    )
    await judged.catch_up()
    preview = await erasures.preview(judged.caller, {"memory_id": judged.memories[0]})
    done = await erasures.erase(judged.caller, {"erasure_id": preview.id, "reason": "asked_for"})
    assert [(one.provider, one.calls) for one in done.providers] == [("told:1", 1), ("told:2", 1)]
    assert done.verified


async def test_nothing_is_sent_without_the_opt_in_the_budget_or_a_judge_that_answers(judged):
    world, tenants = judged, judged.engine.tenants
    other = judge(CHANCES, identity="told:2")
    what_if = WhatIf(world.engine, lambda _: (other, no_thresholds("told:2")))
    await tenants.set_policy(world.caller.tenant, {"judge_calls_per_day": 4}, world.caller.actor)
    found = await what_if.replay(world.caller, {"judge": "told"})
    assert (found.asking.calls, found.asking.stopped) == (1, "budget_exceeded"), "the pass had made three"
    assert found.asking.unanswered == {"not_asked": 2}
    await tenants.set_judgment(world.caller.tenant, False, world.caller.actor)
    head = await world.engine.log.head()
    with pytest.raises(Conflict, match="judging is off"):
        await what_if.replay(world.caller, {"judge": "told"})
    other.unavailable_because = "it is none"
    with pytest.raises(Misconfigured):
        await what_if.replay(world.caller, {"judge": "told"})
    with pytest.raises(InvalidInput):
        await WhatIf(world.engine).replay(world.caller, {"judge": "told"})
    assert len(other.calls) == 1 and await world.engine.log.head() == head


async def test_answers_that_cannot_be_used_are_counted_and_asked_again_and_so_is_what_was_not_allowed(judged):
    world = judged
    silent = Priced(lambda _item: NoVerdict("malformed_reply"), identity="told:2")
    what_if = WhatIf(world.engine, lambda _: (silent, no_thresholds("told:2")))
    found = await what_if.replay(world.caller, {"judge": "told", "questions": 2})
    assert found.asking.unanswered == {"malformed_reply": 2, "not_asked": 1}
    assert (found.asking.answered, found.questions, found.asking.cost_usd) == (0, 0, pytest.approx(0.04))
    silent.opinion = by_word(CHANCES)
    again = await what_if.replay(world.caller, {"judge": "told"})
    assert (again.asking.answered, again.asking.reused) == (3, 0)


async def test_verdicts_the_judge_gave_in_passes_are_not_asked_for_again(judged):
    same = judge({}, identity="told:1")
    found = await WhatIf(judged.engine, lambda _: (same, no_thresholds("told:1"))).replay(
        judged.caller, {"judge": "told", "archive": 0.89}
    )
    assert (found.asking.reused, same.calls) == (3, [])
    assert archive_of(found.replayed) == (1, 1, 1)


async def test_exactly_one_thing_is_different_and_only_reviewers_may_ask(judged):
    what_if = WhatIf(judged.engine)
    for arguments, policy, field in (
        ({}, None, "archive"),
        ({"archive": 0.9}, {"pairs_cap": 1}, "policy"),
        ({}, {}, "policy"),
        ({}, {"pairs_cap": -1}, "policy"),
        ({}, {"unknown": 1}, "policy"),
        ({"archive": 1.5}, None, "archive"),
    ):
        with pytest.raises(InvalidInput) as refused:
            await what_if.replay(judged.caller, arguments, policy)
        assert refused.value.field == field
    reader = Caller(judged.caller.tenant, judged.caller.actor, frozenset({"memory:read"}))
    with pytest.raises(AccessDenied):
        await what_if.replay(reader, {"archive": 0.9})


async def test_passes_before_the_moment_asked_for_are_left_out(judged):
    later = judged.engine.clock() + timedelta(days=1)
    found = await WhatIf(judged.engine).replay(judged.caller, {"archive": 0.9, "since": later})
    assert (found.passes, found.questions) == (0, 0)
    stranger = await judged.another_caller()
    assert (await WhatIf(judged.engine).replay(stranger, {"archive": 0.9})).passes == 0
