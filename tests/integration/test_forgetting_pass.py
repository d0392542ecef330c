"""The forgetting pass over a real broker (behaviour.md 1.16, settlements 6 to 13)."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID, uuid4

import nats
import psycopg
import pytest
from lethelog.domain import events as e
from lethelog.domain.errors import Conflict, Misconfigured, NotFound, StaleProposal
from lethelog.domain.forgetting_pass import scheduled_pass_id
from lethelog.domain.judging import NoVerdict, PairItem
from lethelog.domain.policy import ForgettingPolicy
from lethelog.domain.thresholds import no_thresholds
from lethelog.handlers.forgetting.requesting import Passes, due_at
from lethelog.handlers.operating.workers import Workers

from .passes import ToldJudge, finish, keep, old, pass_settings, run_pass, sure, working
from .test_audit import tamper

SAMPLES = Path(__file__).parents[1] / "unit" / "event_samples"


async def queue(world, **query):
    return (await world.reviewing.list(world.caller, {"status": "proposed", **query})).proposals


async def test_a_stale_memory_becomes_a_proposal_and_nothing_else_changes(judging_world, broker):
    """Proposal is inert: all reads before and after staging are equal."""
    world = judging_world
    stale = await old(world, "Deploys go to Fly.io")
    fresh = await old(world, "The office moved to Porto", days=3, project="office")
    before = (await world.search("deploys"), await world.get(stale))
    done = await run_pass(world, broker, ToldJudge(sure("archive", 0.9)))
    assert (done.phase, done.items, done.judged, done.proposed) == ("completed", 1, 1, {"archive": 1})
    [proposal] = await queue(world)
    assert (proposal.memory_id, proposal.action, proposal.kind) == (stale, "archive", "retention")
    assert (proposal.probability, proposal.judge, proposal.model) == (pytest.approx(0.9), "told:1", "told-1.0")
    assert proposal.unselected and not proposal.stale
    assert proposal.seen[stale] == 1
    assert (await world.search("deploys"), await world.get(stale)) == before
    assert (await world.get(fresh)).status == "active"


async def test_a24_below_the_threshold_is_dismissed_with_its_real_action_and_never_listed(
    judging_world, broker, database_url
):
    """A24, behaviour.md 1.16. Dismissed record: list shows 0; row holds the real action; verdict thresholds."""
    stale = await old(judging_world, "Deploys go to Fly.io")
    done = await run_pass(judging_world, broker, ToldJudge(sure("archive", 0.8499)))
    assert (done.proposed, done.dismissed) == ({}, {"archive": 1})
    page = await judging_world.reviewing.list(judging_world.caller, {})
    assert (page.total, page.proposals) == (0, ())
    with psycopg.connect(database_url) as connection:
        row = connection.execute(
            "select status, action, round(probability::numeric, 4), memory_id from lethelog_views.review_queue"
        ).fetchone()
    assert row is not None and (row[0], row[1], float(row[2]), row[3]) == ("dismissed", "archive", 0.8499, stale)


async def test_a25_a_pair_conflict_stands_on_the_older_memory_and_names_the_newer(judging_world, broker):
    """A25, A27: accepting a conflict changes no memory. Verdict thresholds; retention accept."""
    world = judging_world
    older = await old(world, "The HQ is in Porto", days=20, memory_type="fact")
    newer = await old(world, "The HQ is in Turin", days=10, memory_type="fact")
    await run_pass(world, broker, ToldJudge(sure("conflict", 0.60)))
    [proposal] = await queue(world)
    assert (proposal.action, proposal.memory_id, proposal.related_id) == ("conflict", older, newer)
    assert proposal.judged_pair == (older, newer)
    before = (await world.get(older), await world.get(newer))
    async with working(world, broker, pass_settings(ToldJudge()), roles={"views"}):
        decided = await world.reviewing.accept(world.caller, {"proposal_id": proposal.id, "comment": "ask Lena"})
    assert (decided.proposal.status, decided.changed, decided.proposal.comment) == ("applied", (), "ask Lena")
    assert (await world.get(older), await world.get(newer)) == before


@pytest.mark.parametrize(
    ("action", "related"), [("archive", uuid4()), ("keep", uuid4()), ("supersede", None), ("conflict", None)]
)
def test_a26_a_related_memory_stands_exactly_on_supersede_and_conflict(action, related):
    """A26: such a verdict, proposal or dismissal cannot even be made.

    Retention constraint: related present exactly for supersede, conflict.
    """
    fields = json.loads((SAMPLES / "verdict.recorded.1.json").read_text())
    assert e.VerdictRecorded.model_validate(fields).related_id is not None
    with pytest.raises(ValueError, match="related_id must"):
        e.VerdictRecorded.model_validate(fields | {"action": action, "related_id": related})


async def test_a26_the_queue_itself_refuses_a_row_that_breaks_that_rule(judging_world, broker, database_url):
    """A26, on the database. Retention constraint."""
    await old(judging_world, "Deploys go to Fly.io")
    await run_pass(judging_world, broker, ToldJudge(sure("archive")))
    with psycopg.connect(database_url) as connection, pytest.raises(psycopg.errors.CheckViolation):
        connection.execute("update lethelog_views.review_queue set related_id = memory_id")


async def test_accepting_a_supersede_closes_the_older_memory_and_withdraws_its_siblings(judging_world, broker):
    """1.14.5, settlement 6, F31. Retention accept."""
    world = judging_world
    older = await old(world, "Deploys go to Fly.io, region ams")
    newer = await old(world, "Deploys go to Hetzner, region fsn", days=10)
    await run_pass(world, broker, ToldJudge(sure("supersede")))
    [supersede] = await queue(world)
    await old(world, "Deploys go to Scaleway, region par", days=5)
    both = ToldJudge(
        lambda item: "conflict" if isinstance(item, PairItem) and item.older.memory_id == older else keep(item)
    )
    await run_pass(world, broker, both)
    proposals = await queue(world)
    assert {p.action for p in proposals} == {"supersede", "conflict"}
    async with working(world, broker, pass_settings(ToldJudge()), roles={"views"}):
        decided = await world.reviewing.accept(world.caller, {"proposal_id": supersede.id})
    assert decided.changed == (older,)
    assert decided.withdrawn == tuple(p.id for p in proposals if p.id != supersede.id)
    view = await world.get(older)
    assert (view.status, view.superseded_by, view.edge) == ("superseded", newer, "supersedes")
    assert (await world.search("deploys go to"))[-1] == older
    assert await queue(world) == ()


async def test_f31_a_proposal_whose_memory_moved_on_is_stale_and_withdrawn_by_the_next_pass(judging_world, broker):
    """Settlement 6: 409 with both versions, it stays open, and the next pass takes it back."""
    world = judging_world
    stale = await old(world, "Deploys go to Fly.io")
    await run_pass(world, broker, ToldJudge(sure("archive")))
    [proposal] = await queue(world)
    await world.commands.pin(world.caller, {"memory_id": stale})
    await world.catch_up()
    with pytest.raises(StaleProposal) as refused:
        await world.reviewing.accept(world.caller, {"proposal_id": proposal.id})
    assert (refused.value.details["seen_version"], refused.value.details["current_version"]) == (1, 2)
    [shown] = await queue(world)
    assert shown.stale and shown.status == "proposed"
    await run_pass(world, broker, ToldJudge())
    assert await queue(world) == ()
    withdrawn = (await world.reviewing.list(world.caller, {"status": "withdrawn"})).proposals
    assert [(p.id, p.withdrawn_because) for p in withdrawn] == [(proposal.id, "stale")]


async def test_f32_two_reviewers_at_once_have_one_effect(judging_world, broker):
    """F32."""
    world = judging_world
    stale = await old(world, "Deploys go to Fly.io")
    await run_pass(world, broker, ToldJudge(sure("archive")))
    [proposal] = await queue(world)
    async with working(world, broker, pass_settings(ToldJudge()), roles={"views"}):
        results = await asyncio.gather(
            *(world.reviewing.accept(world.caller, {"proposal_id": proposal.id}) for _ in range(5)),
            return_exceptions=True,
        )
    assert sum(not isinstance(r, Exception) for r in results) == 1
    assert all(isinstance(r, Conflict) for r in results if isinstance(r, Exception))
    history = (await world.reading.history(world.caller, {"memory_id": stale})).entries
    assert [e.event for e in history].count("memory.archived") == 1


async def test_a_decided_proposal_cannot_be_decided_again(judging_world, broker):
    """Decision finality. A decided proposal cannot be decided again."""
    world = judging_world
    await old(world, "Deploys go to Fly.io")
    await run_pass(world, broker, ToldJudge(sure("archive")))
    [proposal] = await queue(world)
    async with working(world, broker, pass_settings(ToldJudge()), roles={"views"}):
        await world.reviewing.reject(world.caller, {"proposal_id": proposal.id, "key": "k"})
        again = await world.reviewing.reject(world.caller, {"proposal_id": proposal.id, "key": "k"})
        assert again.proposal.status == "rejected"
        with pytest.raises(Conflict):
            await world.reviewing.accept(world.caller, {"proposal_id": proposal.id})


async def test_a34_a_rejected_memory_is_left_alone_until_its_freshness_moves(judging_world, broker):
    """A34, settlement 9: no single question for any action, but the pair may still come up.

    Reopening: freshness moves.
    """
    world = judging_world
    stale = await old(world, "Deploys go to Fly.io")
    await run_pass(world, broker, ToldJudge(sure("archive")))
    [proposal] = await queue(world)
    async with working(world, broker, pass_settings(ToldJudge()), roles={"views"}):
        await world.reviewing.reject(world.caller, {"proposal_id": proposal.id})
    judge = ToldJudge()
    await run_pass(world, broker, judge)
    assert judge.calls == []
    await world.commands.reaffirm(world.caller, {"memory_id": stale})
    world.clock.forward(days=31)
    judge = ToldJudge()
    await run_pass(world, broker, judge)
    assert judge.judged == {stale}


async def test_a28_a_keep_is_asked_again_after_a_reaffirm_and_another_window(judging_world, broker):
    """A28."""
    world = judging_world
    stale = await old(world, "Deploys go to Fly.io")
    first, second, third = ToldJudge(), ToldJudge(), ToldJudge()
    await run_pass(world, broker, first)
    await run_pass(world, broker, second)
    await world.commands.reaffirm(world.caller, {"memory_id": stale})
    world.clock.forward(days=31)
    await run_pass(world, broker, third)
    assert [judge.judged for judge in (first, second, third)] == [{stale}, set(), {stale}]


async def test_f31_the_same_pass_again_without_changes_proposes_nothing(judging_world, broker):
    """F31: the second run raises 0."""
    world = judging_world
    for n in range(2):
        await old(world, f"Deploys of service {n} go to Fly.io", days=40 + n)
    first = await run_pass(world, broker, ToldJudge(sure("archive")))
    assert first.proposed == {"archive": 1}
    second = ToldJudge(sure("archive"))
    done = await run_pass(world, broker, second)
    assert (done.proposed, len(await queue(world))) == ({"archive": 1}, 2) and len(second.calls) == 1
    third = ToldJudge(sure("archive"))
    assert (await run_pass(world, broker, third)).proposed == {} and third.calls == []


async def test_a29_twelve_items_share_a_call_where_the_policy_says_so(judging_world, broker):
    """A29 on a real pass. Judge batching: 12 items."""
    world = judging_world
    await world.engine.tenants.set_policy(
        world.caller.tenant, ForgettingPolicy(items_per_call=12), world.caller.actor
    )
    for n in range(10):
        await old(world, f"Entirely different matter number {n}", project=f"p{n}")
    judge = ToldJudge()
    done = await run_pass(world, broker, judge)
    assert done.judged == 10 and [len(call.items) for call in judge.calls] == [10]


async def test_a32_an_opt_in_withdrawn_between_two_calls_stops_the_second(judging_world, broker):
    """A32: nothing more is sent, and the rest stays unjudged on the record.

    Judgment opt-in: re-read before each send.
    """
    world = judging_world
    for n in range(3):
        await old(world, f"Entirely different matter number {n}", project=f"p{n}")
    judge = ToldJudge()

    def withdraw(item):
        judge.withdrawing = asyncio.ensure_future(
            world.engine.tenants.set_judgment(world.caller.tenant, False, world.caller.actor)
        )
        return next(iter(item.options))

    judge.opinion = withdraw
    judge.released = asyncio.Event()
    settings = pass_settings(judge)
    async with working(world, broker, settings):
        view = await Passes(world.engine, settings).request(world.caller)
        await judge.asked.wait()
        await world.engine.tenants.set_judgment(world.caller.tenant, False, world.caller.actor)
        judge.released.set()
        done = await finish(world, settings, view)
    assert len(judge.calls) == 1
    assert (done.judged, done.refused) == (1, 2)


async def test_a33_with_the_flag_off_the_scheduled_pass_reads_nothing(judging_world):
    """A33. Forgetting flag: off by default; kill switch."""
    passes = Passes(judging_world.engine, pass_settings(ToldJudge(), enabled=False))

    class Untouched:
        def __getattr__(self, name):
            raise AssertionError(f"{name} was read")

    passes._engine = Untouched()
    assert await passes.request_scheduled(judging_world.caller.tenant, judging_world.clock.now) is None


async def test_a_tenant_whose_log_is_damaged_keeps_no_other_ones_pass_from_being_scheduled(judging_world):
    world = judging_world
    world.clock.now = datetime(2026, 3, 2, 5, tzinfo=UTC)
    first = await world.another_caller(UUID(int=1))  # it is looked at before all others
    await world.engine.tenants.set_judgment(first.tenant, True, first.actor)
    for caller in (first, world.caller):
        await world.commands.remember(caller, {"topic": "t", "content": "Uses Vim"})
    tamper(world.database_url, f"update lethelog.events set body = 'damaged' where stream = '{first.tenant}'")
    await Workers(world.engine, passes=pass_settings(ToldJudge(), enabled=True))._request_due()
    due = scheduled_pass_id(world.caller.tenant, world.clock.now.date())
    assert await world.engine.log.newest_name(world.caller.tenant, due) == "pass.requested"


async def test_f31_the_scheduled_pass_of_a_day_is_one_however_often_it_is_asked_for(judging_world, broker):
    """Settlement 7."""
    world = judging_world
    settings = pass_settings(ToldJudge(), enabled=True)
    passes = Passes(world.engine, settings)
    day = world.clock.now.date()
    assert await passes.request_scheduled(world.caller.tenant, due_at(day) - timedelta(seconds=1)) is None
    asked = await asyncio.gather(*(passes.request_scheduled(world.caller.tenant, due_at(day)) for _ in range(5)))
    [pass_id] = [one for one in asked if one is not None]
    with pytest.raises(Conflict) as refused:
        await passes.request(world.caller)
    assert refused.value.details["pass_id"] == pass_id
    async with working(world, broker, settings):
        await finish(world, settings, await passes.show(world.caller, {"pass_id": pass_id}))
    assert await passes.request_scheduled(world.caller.tenant, due_at(day) + timedelta(hours=3)) is None
    assert await passes.request_scheduled(world.caller.tenant, due_at(day + timedelta(days=1))) is not None


async def test_without_the_opt_in_nothing_is_selected_or_sent(world, broker):
    """Settlement 13."""
    with pytest.raises(Conflict, match="judgment on"):
        await Passes(world.engine, pass_settings(ToldJudge())).request(world.caller)


async def test_a_judge_without_thresholds_says_why_it_proposes_nothing(judging_world):
    """Settlement 12, judges: there is no silent fallback."""
    judge = ToldJudge()
    with pytest.raises(Misconfigured, match="thresholds"):
        await Passes(judging_world.engine, pass_settings(judge, thresholds=no_thresholds(judge.identity))).request(
            judging_world.caller
        )
    silent = ToldJudge(unavailable_because="no judge is configured")
    with pytest.raises(Misconfigured, match="no judge is configured"):
        await Passes(judging_world.engine, pass_settings(silent)).request(judging_world.caller)


async def test_f24_f34_a_judge_that_answers_nothing_leaves_the_item_unjudged_and_asked_again_next_time(
    judging_world, broker
):
    """F24, F34: no verdict is ever guessed; the other items still count."""
    world = judging_world
    mute = await old(world, "Entirely different matter one", project="a")
    heard = await old(world, "Another matter altogether", project="b")
    judge = ToldJudge(
        lambda item: NoVerdict("malformed_reply") if item.memory.memory_id == mute else next(iter(item.options))
    )
    done = await run_pass(world, broker, judge)
    assert (done.judged, done.refused, done.proposed) == (1, 1, {})
    history = (await world.reading.history(world.caller, {"memory_id": mute})).entries
    assert [(e.event, e.detail["reason"]) for e in history[1:]] == [("verdict.refused", "malformed_reply")]
    again = ToldJudge()
    await run_pass(world, broker, again)
    assert again.judged == {mute} and heard not in again.judged


async def test_a_judge_that_is_down_is_retried_and_then_refused(judging_world, broker, monkeypatch):
    """F24: no verdict on failure; the pass ends and says so."""
    monkeypatch.setattr("lethelog.handlers.forgetting.judge_worker.TRIES_BEFORE_GIVING_UP", 2)
    stale = await old(judging_world, "Deploys go to Fly.io")
    judge = ToldJudge(down=True)
    done = await run_pass(judging_world, broker, judge)
    assert (done.judged, done.refused) == (0, 1) and len(judge.calls) == 2
    history = (await judging_world.reading.history(judging_world.caller, {"memory_id": stale})).entries
    assert history[-1].detail["reason"] == "judge_unavailable"


async def test_over_budget_nothing_more_is_sent(judging_world, broker):
    """Behaviour.md 1.16: over budget is rejected, not billed."""
    world = judging_world
    await world.engine.tenants.set_policy(
        world.caller.tenant, ForgettingPolicy(judge_calls_per_day=2), world.caller.actor
    )
    for n in range(4):
        await old(world, f"Entirely different matter number {n}", project=f"p{n}")
    judge = ToldJudge()
    done = await run_pass(world, broker, judge)
    assert (len(judge.calls), done.judged, done.refused) == (2, 2, 2)
    budget = await world.engine.tenants.budget(world.caller.tenant, done.requested_at.date())
    assert (len(budget.reserved), len(budget.settled)) == (2, 2)


async def test_f29_a_slow_pass_never_overwrites_what_was_written_meanwhile(judging_world, broker):
    """F29: the judge is held; a revision and a new memory are written; both stand, and no stale proposal applies."""
    world = judging_world
    stale = await old(world, "Deploys go to Fly.io")
    judge = ToldJudge(sure("archive"), released=asyncio.Event())
    settings = pass_settings(judge)
    async with working(world, broker, settings):
        view = await Passes(world.engine, settings).request(world.caller)
        await judge.asked.wait()
        revised = (
            await world.commands.revise(world.caller, {"memory_id": stale, "content": "Deploys go to Hetzner"})
        ).memory.id
        added = await world.remember("Backups go to Backblaze")
        judge.released.set()
        await finish(world, settings, view)
        [proposal] = await queue(world)
        assert proposal.stale
        with pytest.raises(StaleProposal):
            await world.reviewing.accept(world.caller, {"proposal_id": proposal.id})
    assert [(await world.get(one)).status for one in (stale, revised, added)] == ["superseded", "active", "active"]


async def test_a_memory_that_changed_between_selection_and_judging_is_not_judged(judging_world, broker):
    """F29: the item is refused and comes back as what it is now."""
    world = judging_world
    stale = await old(world, "Deploys go to Fly.io")
    judge = ToldJudge(sure("archive"))
    settings = pass_settings(judge)
    async with working(world, broker, settings, roles={"views", "relay", "passes"}):
        view = await Passes(world.engine, settings).request(world.caller)
        passes = Passes(world.engine, settings)
        async with asyncio.timeout(20):
            while (await passes.show(world.caller, {"pass_id": view.id})).phase != "dispatched":
                await asyncio.sleep(0.02)
        await world.commands.archive(world.caller, {"memory_id": stale})
        async with working(world, broker, settings, roles={"judge"}):
            done = await finish(world, settings, view)
    assert judge.calls == [] and (done.judged, done.refused) == (0, 1)


async def test_two_judge_processes_share_the_tasks_of_one_pass(judging_world, broker):
    """Competing consumers: every item once, both take part."""
    world = judging_world
    await world.engine.tenants.set_policy(
        world.caller.tenant, ForgettingPolicy(singles_cap=60), world.caller.actor
    )
    for n in range(60):
        await old(world, f"Entirely different matter number {n}", project=f"p{n}")
    first, second = ToldJudge(metered=False), ToldJudge(metered=False)
    settings = pass_settings(first)
    async with (
        working(world, broker, settings, roles={"views", "relay", "passes"}),
        working(world, broker, settings, roles={"judge"}),
        working(world, broker, pass_settings(second), roles={"judge"}),
    ):
        done = await finish(world, settings, await Passes(world.engine, settings).request(world.caller))
    assert done.judged == 60
    assert first.calls and second.calls and not (first.judged & second.judged)


async def test_with_the_broker_stopped_nothing_is_judged_and_the_queue_stays_right(judging_world, broker):
    """Design.md 7.4: writes go on, the queue is right, and the pass goes on when the broker is back."""
    world = judging_world
    stale = await old(world, "Deploys go to Fly.io")
    judge = ToldJudge(sure("archive"))
    settings = pass_settings(judge)
    nowhere = type(broker)("nats://nobody@127.0.0.1:9", broker.prefix)
    view = await Passes(world.engine, settings).request(world.caller)
    async with working(world, nowhere, settings):
        other = await world.remember("Written without a broker")
        assert (await world.search("written without a broker"))[0] == other
        assert (await Passes(world.engine, settings).show(world.caller, {"pass_id": view.id})).phase == "requested"
    assert judge.calls == [] and await queue(world) == ()
    async with working(world, broker, settings):
        await finish(world, settings, view)
    assert [p.memory_id for p in await queue(world)] == [stale]


async def test_a_pass_whose_tasks_were_lost_with_the_broker_is_sent_out_again(
    judging_world, broker, servers, monkeypatch
):
    """The broker is never the truth: an emptied work queue does not strand a pass."""
    monkeypatch.setattr("lethelog.handlers.forgetting.completion.RESUME_AFTER_SECONDS", 0.5)
    world = judging_world
    stale = await old(world, "Deploys go to Fly.io")
    settings = pass_settings(ToldJudge(sure("archive")))
    async with working(world, broker, settings, roles={"views", "relay", "passes"}):
        view = await Passes(world.engine, settings).request(world.caller)
        async with asyncio.timeout(20):
            while (
                await Passes(world.engine, settings).show(world.caller, {"pass_id": view.id})
            ).phase != "dispatched":
                await asyncio.sleep(0.02)
        client = await nats.connect(broker.url)
        await client.jetstream().delete_stream(broker.stream("tasks"))
        await client.close()
    async with working(world, broker, settings):
        done = await finish(world, settings, view)
    assert (done.judged, [p.memory_id for p in await queue(world)]) == (1, [stale])


async def test_a_verdict_whose_message_was_lost_still_gets_its_proposal(judging_world, broker, monkeypatch):
    """Found from the log, after a while of silence, once."""
    monkeypatch.setattr("lethelog.handlers.forgetting.completion.SETTLE_AFTER_SECONDS", 0.2)
    monkeypatch.setattr("lethelog.handlers.forgetting.pass_manager.PassManager.on_verdict", _deaf)
    world = judging_world
    stale = await old(world, "Deploys go to Fly.io")
    done = await run_pass(world, broker, ToldJudge(sure("archive")))
    assert (done.proposed, [p.memory_id for p in await queue(world)]) == ({"archive": 1}, [stale])


async def _deaf(self, recorded) -> None:
    """Takes verdict messages and does nothing."""


async def test_a_pass_for_a_judge_that_nobody_runs_any_more_fails_and_frees_its_slot(
    judging_world, broker, monkeypatch
):
    """Nothing falls back to another judge, and nothing is blocked for ever."""
    monkeypatch.setattr("lethelog.handlers.forgetting.pass_manager.OTHERS_PATIENCE", timedelta(seconds=0))
    world = judging_world
    await old(world, "Deploys go to Fly.io")
    gone = pass_settings(ToldJudge(identity="retired:1"))
    view = await Passes(world.engine, gone).request(world.caller)
    async with working(world, broker, pass_settings(ToldJudge())):
        done = await finish(world, gone, view)
    assert (done.phase, done.failed_because) == ("failed", "judge_not_running")
    assert (await Passes(world.engine, gone).request(world.caller)).phase == "requested"


async def test_texts_that_were_refuted_while_an_earlier_call_was_held_are_never_sent(judging_world, broker):
    """Everything is read anew before each send."""
    world = judging_world
    ids = [await old(world, f"Entirely different matter number {n}", project=f"p{n}") for n in range(3)]
    judge = ToldJudge(released=asyncio.Event())
    settings = pass_settings(judge)
    async with working(world, broker, settings):
        view = await Passes(world.engine, settings).request(world.caller)
        await judge.asked.wait()
        [first] = judge.judged
        for one in set(ids) - {first}:
            await world.commands.refute(world.caller, {"memory_id": one, "reason": "private"})
        judge.released.set()
        done = await finish(world, settings, view)
    assert judge.judged == {first} and (done.judged, done.refused) == (1, 2)


async def test_a_decision_is_answered_from_the_log_even_where_its_view_is_behind(judging_world, broker):
    """An accept that is recorded never looks like a failure that invites a retry."""
    world = judging_world
    stale = await old(world, "Deploys go to Fly.io")
    await run_pass(world, broker, ToldJudge(sure("archive")))
    [proposal] = await queue(world)
    await world.catch_up()
    decided = await world.reviewing.accept(world.caller, {"proposal_id": proposal.id, "comment": "yes"})
    assert (decided.proposal.status, decided.changed, decided.proposal.comment) == ("applied", (stale,), "yes")
    await world.catch_up()
    [shown] = (await world.reviewing.list(world.caller, {"status": "applied"})).proposals
    assert shown == decided.proposal


async def test_f38_neighbours_and_proposals_never_cross_tenants(judging_world, broker):
    """F38: the same sentences in two tenants; each pass shows its own only."""
    world = judging_world
    mine = await old(world, "Deploys go to Fly.io")
    other = await world.another_caller()
    theirs = (
        await world.commands.remember(
            other,
            {
                "topic": "d",
                "content": "Deploys go to Fly.io canary",
                "memory_type": "decision",
                "occurred_at": world.clock.now - timedelta(days=9),
            },
        )
    ).memory.id
    judge = ToldJudge(sure("archive"))
    await run_pass(world, broker, judge)
    shown = " ".join(request.state for request in judge.calls)
    assert judge.judged == {mine} and "canary" not in shown
    [proposal] = await queue(world)
    with pytest.raises(NotFound):
        await world.reviewing.accept(other, {"proposal_id": proposal.id})
    assert (await world.reviewing.list(other, {})).total == 0
    assert (await world.reading.list(other, {})).memories[0].id == theirs


async def test_f21_a_pinned_memory_gets_only_a_conflict(judging_world, broker):
    """F21, settlement 10."""
    world = judging_world
    allergy = await old(world, "Severe shellfish allergy", days=90, memory_type="fact", pinned=True)
    await old(world, "Ate shrimp at dinner, no shellfish allergy reaction", days=10, memory_type="fact")
    judge = ToldJudge(sure("supersede"))
    await run_pass(world, broker, judge)
    offered = [list(item.options) for request in judge.calls for item in request.items]
    assert offered == [["keep_both", "conflict"]]
    assert await queue(world) == () and (await world.get(allergy)).status == "active"


async def test_f18_a_contradiction_keeps_both_sides_and_asks_a_person(judging_world, broker):
    """F18, D12: nothing is removed, a conflict is raised, and saying the second thing again changes nothing.

    The later of the two has not won: both stay what they are until somebody decides.
    """
    world = judging_world
    loves = await old(world, "Loves sea urchin", days=20, memory_type="preference")
    hates = await old(world, "Cannot stand sea urchin", days=10, memory_type="preference")
    done = await run_pass(world, broker, ToldJudge(sure("conflict")))
    assert done.proposed == {"conflict": 1}
    head = await world.engine.log.head()
    assert await world.remember("Cannot stand sea urchin", memory_type="preference") == hates
    assert await world.engine.log.head() == head
    assert [(await world.get(one)).status for one in (loves, hates)] == ["active", "active"]
    hits = (await world.reading.search(world.caller, {"query": "sea urchin", "current": True})).hits
    assert {hit.memory.id for hit in hits} == {loves, hates} and not any(hit.superseded for hit in hits)
    assert {one.action for one in await queue(world)} == {"conflict"}


async def test_f22_recurring_events_stay_apart_and_different_entities_are_only_ever_asked_about(
    judging_world, broker
):
    """F22: four stand-ups stay four, whatever the judge would say; a pair becomes a question, never a merge."""
    world = judging_world
    standups = [
        await old(world, f"Weekly standup {n} March: all green", days=60 - n, memory_type="event")
        for n in (1, 8, 15, 22)
    ]
    people = [
        await old(world, "Lena is CEO of Brunt", days=50, memory_type="fact"),
        await old(world, "Omar is CTO of Brunt", days=45, memory_type="fact"),
    ]
    judge = ToldJudge(sure("conflict"))
    await run_pass(world, broker, judge)
    assert judge.judged == {people[0]}
    assert [p.action for p in await queue(world)] == ["conflict"]
    views = await world.reading.get(world.caller, {"ids": [*standups, *people]})
    assert [view.status for view in views] == ["active"] * 6


async def test_workers_close_cleanly_while_a_judge_is_held(judging_world, broker):
    """Nothing is lost: another process finishes the pass."""
    world = judging_world
    stale = await old(world, "Deploys go to Fly.io")
    held = ToldJudge(sure("archive"), released=asyncio.Event())
    settings = pass_settings(held)
    workers = Workers(world.engine, broker=broker, passes=settings)
    await workers.open()
    view = await Passes(world.engine, settings).request(world.caller)
    await held.asked.wait()
    closing = asyncio.ensure_future(workers.close())
    await asyncio.sleep(0)
    held.released.set()
    await closing
    async with working(world, broker, pass_settings(ToldJudge(sure("archive")))):
        await finish(world, settings, view)
    assert [p.memory_id for p in await queue(world)] == [stale]
