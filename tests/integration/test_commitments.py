"""Commitments: opened, carried and resolved with their memories, expired by policy, listed (A5 to A7, A20)."""

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lethelog.domain import commitment as rules
from lethelog.domain.errors import (
    Erased,
    InvalidInput,
    InvalidTransition,
    KeyReused,
    LethelogError,
    NotFound,
    WrongKind,
)
from lethelog.handlers.access.caller import Caller
from lethelog.handlers.commitments.expiry import ExpirySweep
from lethelog.handlers.commitments.listing import CommitmentListing
from lethelog.handlers.commitments.resolving import Resolving
from lethelog.handlers.commitments.riding import Commitments
from lethelog.handlers.erasure.erasures import Erasures
from lethelog.handlers.memories import Retry
from lethelog.projections.rebuild import Rebuilder
from lethelog.streams.payloads import Actor

from .archives import body_of, bring_in, export, lines_of, propose
from .test_audit import tamper

GRACE = timedelta(days=14)


async def promise(world, content: str = "Send the report", **fields: Any) -> UUID:
    return await world.remember(content, memory_type="commitment", **fields)


async def resolve(world, memory_id: UUID, status: str = "resolved", key: str | None = None, **fields: Any):
    resolving = Resolving(world.engine, world.commands)
    return await resolving.resolve(world.caller, {"memory_id": memory_id, "status": status, **fields}, Retry(key))


async def page(world, **query: Any):
    await world.catch_up()
    return await CommitmentListing(world.engine).page(world.caller, query)


async def listed(world, **query: Any) -> list[tuple[UUID, str]]:
    return [(one.memory_id, one.status) for one in (await page(world, **query)).commitments]


async def sweep(world, grace: timedelta = GRACE):
    await world.catch_up()
    return await ExpirySweep(world.engine, grace).sweep()


async def events_about(world, memory_id: UUID) -> list[str]:
    await world.catch_up()
    history = await world.reading.history(world.caller, {"memory_id": memory_id})
    return [one.event for one in history.entries]


async def equals_its_rebuild(world, *names: str) -> None:
    for name in names or ("commitments", "memory_history"):
        engine = world.engine
        compared = await Rebuilder(engine.database, engine.log, engine.tail, engine.projection(name)).compare()
        assert compared.equal, compared.differences


async def test_a_commitment_is_opened_with_its_memory_and_told_with_owner_and_dates(world):
    due = world.clock.now + timedelta(days=3)
    written = await world.commands.remember(
        world.caller,
        {
            "memory_type": "commitment",
            "topic": "the report",
            "content": "Send the report",
            "owner": "ada",
            "due_at": due,
            "next_surfacing_at": due - timedelta(days=1),
            "recurrence": "FREQ=WEEKLY;BYDAY=MO,-1FR",
        },
    )
    [told] = (await page(world)).commitments
    assert (told.id, told.memory_id, told.topic) == (written.commitment, written.memory.id, "the report")
    assert (told.status, told.owner, told.due_at, told.live) == ("open", "ada", due, True)
    assert (told.next_surfacing_at, told.recurrence) == (due - timedelta(days=1), "FREQ=WEEKLY;BYDAY=MO,-1FR")
    assert (told.overdue, told.resolved_at) == (False, None)
    assert await events_about(world, told.memory_id) == ["memory.remembered", "commitment.opened"]
    await equals_its_rebuild(world)


async def test_an_owner_is_the_same_person_however_an_answer_names_him(world):
    """An erasure of ada would miss a ``person:ada`` of whom nothing else is known."""
    await promise(world, "one", owner="person:ada")
    await promise(world, "other", owner="ada")
    for name in ("ada", "person:ada", " person: ada "):
        assert (await page(world, owner=name)).total == 2
    assert {one.owner for one in (await page(world)).commitments} == {"ada"}


async def test_only_commitments_have_owner_and_dates(world):
    head = await world.engine.log.head()
    for field_, value in (("owner", "ada"), ("due_at", "2026-05-01T00:00:00Z"), ("recurrence", "FREQ=DAILY")):
        with pytest.raises(InvalidInput) as refused:
            await world.remember("Uses Vim", memory_type="preference", **{field_: value})
        assert refused.value.field == field_
    with pytest.raises(InvalidInput, match=r"recurrence: .*RFC 5545"):
        await promise(world, recurrence="every Monday with Ada")
    assert await world.engine.log.head() == head


async def test_a5_a_blocker_is_archived_whatever_status_was_asked_and_its_text_may_be_written_again(world):
    """A5: reply archived; second write succeeds.

    Resolve blocker: archived and closed, requested status ignored.
    """
    blocker = await world.remember("CI is red", memory_type="blocker")
    done = await resolve(world, blocker, "waiting", key="k1")
    assert (done.status, done.memory_id, done.commitment, done.changed) == ("archived", blocker, None, True)
    assert (await world.get(blocker)).status == "archived"
    again = await resolve(world, blocker, "waiting", key="k1")
    assert (again.status, again.changed) == ("archived", False)
    with pytest.raises(KeyReused):
        await resolve(world, await promise(world), key="k1")
    recurring = await world.remember("CI is red", memory_type="blocker")
    assert recurring != blocker and (await world.get(recurring)).status == "active"


async def test_a6_a_commitment_moves_as_the_machine_says_and_the_same_status_again_is_no_event(world):
    """A6: commitment resolved → waiting: invalid_transition; open → open: no-op success, no event.

    Commitment machine.
    """
    memory = await promise(world)
    head = await world.engine.log.head()
    same = await resolve(world, memory, "open")
    assert (same.status, same.changed) == ("open", False) and await world.engine.log.head() == head
    assert (await resolve(world, memory, "resolved")).commitment.resolved_at is not None
    with pytest.raises(InvalidTransition) as refused:
        await resolve(world, memory, "waiting")
    assert refused.value.as_dict()["code"] == "invalid_transition"
    reopened = await resolve(world, memory, "open")
    assert (reopened.status, reopened.commitment.resolved_at) == ("open", None)
    assert await listed(world) == [(memory, "open")]
    await equals_its_rebuild(world)


async def test_a7_revising_an_open_commitment_into_a_note_resolves_it(world):
    """A7: commitment resolved, `resolve` event on the predecessor."""
    memory = await promise(world)
    revised = await world.commands.revise(
        world.caller, {"memory_id": memory, "memory_type": "note", "content": "The report went out"}
    )
    assert revised.commitment is None
    assert await listed(world) == [(memory, "resolved")]
    assert (await events_about(world, memory))[-1] == "commitment.transitioned"
    with pytest.raises(NotFound):
        await resolve(world, revised.memory.id)


async def test_revising_into_another_commitment_carries_it_with_status_and_dates(world):
    """The table of 1.8: row moves to the successor, status and dates kept; what is given is set."""
    due = world.clock.now + timedelta(days=3)
    memory = await promise(world, owner="ada", due_at=due)
    await resolve(world, memory, "waiting")
    [before] = (await page(world)).commitments
    revised = await world.commands.revise(
        world.caller, {"memory_id": memory, "content": "Send the long report", "owner": "grace"}
    )
    [carried] = (await page(world)).commitments
    assert revised.commitment == carried.id == before.id
    assert (carried.memory_id, carried.status, carried.due_at) == (revised.memory.id, "waiting", due)
    assert carried.owner == "grace"
    with pytest.raises(NotFound, match="superseded"):
        await resolve(world, memory)
    await resolve(world, revised.memory.id)
    assert await listed(world) == [(revised.memory.id, "resolved")]
    assert "commitment.carried" in await events_about(world, memory)
    assert "commitment.carried" in await events_about(world, revised.memory.id)
    await equals_its_rebuild(world)


async def test_revising_a_settled_commitment_into_a_note_leaves_it_as_history(world):
    """The table of 1.8: resolved or expired, other: row stays as history."""
    memory = await promise(world)
    await resolve(world, memory, "expired")
    await world.commands.revise(
        world.caller, {"memory_id": memory, "memory_type": "note", "content": "Never mind"}
    )
    assert await listed(world) == [(memory, "expired")]


async def test_revising_a_note_into_a_commitment_opens_one_and_into_a_note_nothing(world):
    """The table of 1.8: no row: a fresh open one for a commitment, else nothing."""
    note = await world.remember("The report")
    second = await world.commands.revise(world.caller, {"memory_id": note, "content": "The long report"})
    assert second.commitment is None and await listed(world) == []
    third = await world.commands.revise(
        world.caller,
        {
            "memory_id": second.memory.id,
            "memory_type": "commitment",
            "content": "Send the long report",
            "due_at": world.clock.now,
        },
    )
    [opened] = (await page(world)).commitments
    assert (opened.id, opened.memory_id, opened.due_at) == (third.commitment, third.memory.id, world.clock.now)


async def test_anything_else_cannot_be_resolved(world):
    """1.9: anything else → not found; unknown and foreign ids answer alike."""
    note = await world.remember("Uses Vim")
    mine = await promise(world)
    other = await world.another_caller()
    for asked, caller in ((note, world.caller), (uuid4(), world.caller), (mine, other)):
        with pytest.raises(NotFound):
            await Resolving(world.engine, world.commands).resolve(caller, {"memory_id": asked})
    [commitment] = (await page(world)).commitments
    with pytest.raises(WrongKind):
        await resolve(world, commitment.id)


async def test_archiving_the_memory_leaves_the_commitment_and_takes_it_out_of_sight(world):
    memory = await promise(world, due_at=world.clock.now - timedelta(days=1))
    assert await listed(world, overdue=True) == [(memory, "open")]
    await world.commands.archive(world.caller, {"memory_id": memory})
    assert await listed(world, overdue=True) == []
    [told] = (await page(world)).commitments
    assert (told.status, told.live, told.overdue) == ("open", False, False)
    assert (await resolve(world, memory)).status == "resolved"


async def test_the_list_is_narrowed_by_status_owner_and_what_is_overdue_and_goes_on_where_a_page_ended(world):
    now = world.clock.now
    late = await promise(world, "late", owner="ada", due_at=now - timedelta(seconds=1))
    on_time = await promise(world, "on time", owner="ada", due_at=now)
    undated = await promise(world, "undated", owner="grace")
    done = await promise(world, "done", due_at=now - timedelta(days=5))
    await resolve(world, done)
    assert [one for one, _ in await listed(world)] == [done, late, on_time, undated]
    assert await listed(world, overdue=True) == [(late, "open")]
    assert [one for one, _ in await listed(world, owner="ada")] == [late, on_time]
    assert await listed(world, status="resolved") == [(done, "resolved")]
    assert await listed(world, memory_id=undated) == [(undated, "open")]
    assert await listed(world, owner="nobody ever") == []
    first = await page(world, limit=3)
    assert (first.total, len(first.commitments)) == (4, 3) and first.next_cursor
    rest = await page(world, limit=3, cursor=first.next_cursor)
    assert [one.memory_id for one in rest.commitments] == [undated] and rest.next_cursor is None
    with pytest.raises(InvalidInput, match="cursor"):
        await page(world, cursor=first.next_cursor, status="open")


async def test_a20_the_sweep_expires_what_is_overdue_by_more_than_the_grace_and_changes_no_memory(world):
    """A20; 1.14.6: leg 1 expires and names its policy, leg 2 clears a past time to bring it up.

    Commitment expiry grace: due < now − 14 d.
    """
    world.clock.now = datetime(2026, 10, 15, tzinfo=UTC)
    due = datetime(2026, 10, 1, tzinfo=UTC)
    memory = await promise(world, due_at=due)
    surfacing = await promise(world, "call back", next_surfacing_at=world.clock.now)
    before = await world.get(memory)
    swept = await sweep(world)
    assert (swept.expired, swept.surfaced) == (0, 0)
    world.clock.forward(seconds=1)
    swept = await sweep(world)
    assert (swept.expired, swept.surfaced) == (1, 1)
    found = {one.memory_id: one for one in (await page(world)).commitments}
    assert found[memory].status == "expired" and found[surfacing].next_surfacing_at is None
    assert await world.get(memory) == before
    again = await sweep(world)
    assert (again.expired, again.surfaced) == (0, 0)
    await world.catch_up()
    [*_, last] = (await world.reading.history(world.caller, {"memory_id": memory})).entries
    assert (last.actor, last.detail["policy"]) == ("worker", "commitment_expiry: due_at < now - 14 d")
    await equals_its_rebuild(world)


async def test_an_expired_commitment_is_revived_and_the_sweep_leaves_it_alone(world):
    memory = await promise(world, due_at=world.clock.now - timedelta(days=20))
    assert (await sweep(world)).expired == 1
    assert (await resolve(world, memory, "open")).status == "open"
    assert (await sweep(world)).expired == 0
    later = await resolve(world, memory, "open", due_at=world.clock.now + timedelta(days=1))
    assert later.changed and later.commitment.due_at == world.clock.now + timedelta(days=1)
    world.clock.forward(days=16)
    assert (await sweep(world)).expired == 1
    assert await listed(world) == [(memory, "expired")]


async def test_the_sweep_goes_through_every_page_and_two_at_once_do_nothing_twice(world, monkeypatch):
    """F01: nothing stops at a first page."""
    monkeypatch.setattr("lethelog.handlers.commitments.expiry.PAGE", 3)
    due = world.clock.now - timedelta(days=20)
    for n in range(7):
        await promise(world, f"promise {n}", due_at=due)
    other = await world.another_caller()
    await world.commands.remember(
        other, {"memory_type": "commitment", "topic": "t", "content": "theirs", "due_at": due}
    )
    await world.catch_up()
    both = await asyncio.gather(*(ExpirySweep(world.engine, GRACE).sweep() for _ in range(2)))
    assert sum(one.expired for one in both) == 8
    assert {status for _, status in await listed(world)} == {"expired"}


async def test_a_commitment_that_cannot_be_read_keeps_no_other_one_from_expiring(world):
    due = world.clock.now - timedelta(days=20)
    written = await world.commands.remember(
        await world.another_caller(),
        {"memory_type": "commitment", "topic": "t", "content": "theirs", "due_at": due - timedelta(days=1)},
    )
    mine = await promise(world, due_at=due)
    await world.catch_up()
    tamper(
        world.database_url, f"update lethelog.events set body = 'damaged' where stream = '{written.commitment}'"
    )
    assert (await ExpirySweep(world.engine, GRACE).sweep()).expired == 1
    assert await listed(world) == [(mine, "expired")]


async def test_an_erased_memory_takes_its_commitment_out_of_every_answer_and_of_the_sweep(world):
    memory = await promise(world, due_at=world.clock.now - timedelta(days=20))
    kept = await promise(world, "another", due_at=world.clock.now - timedelta(days=20))
    erasures = Erasures(world.engine)
    await world.catch_up()
    preview = await erasures.preview(world.caller, {"memory_id": memory})
    done = await erasures.erase(world.caller, {"erasure_id": preview.id, "reason": "asked_for"})
    assert done.verified, done.remaining
    assert (await sweep(world)).expired == 1
    assert await listed(world) == [(kept, "expired")]
    with pytest.raises(Erased):
        await resolve(world, memory)
    await equals_its_rebuild(world)


async def test_a_key_makes_a_repeat_answer_the_same_and_another_command_is_refused(world):
    memory = await promise(world)
    first = await resolve(world, memory, "waiting", key="k1")
    again = await resolve(world, memory, "waiting", key="k1")
    assert (first.changed, again.changed, again.position) == (True, False, first.position)
    with pytest.raises(KeyReused):
        await resolve(world, memory, "resolved", key="k1")
    unchanged = await resolve(world, memory, "waiting", key="k2")
    assert not unchanged.changed
    with pytest.raises(KeyReused):
        await resolve(world, memory, "open", key="k2")


async def test_resolving_while_the_memory_is_revised_ends_in_one_order_or_the_other(world, held):
    """The commitment is resolved once, and rides on the successor once."""
    memory = await promise(world)
    hold = held()
    both = asyncio.gather(
        resolve(world, memory),
        world.commands.revise(world.caller, {"memory_id": memory, "content": "Send two reports"}),
        return_exceptions=True,
    )
    await hold.is_waited_for()
    hold.release()
    resolved, revised = await both
    assert not isinstance(revised, BaseException)
    [told] = (await page(world)).commitments
    assert told.memory_id == revised.memory.id
    assert told.status == ("open" if isinstance(resolved, NotFound) else "resolved")


async def supersede(world, older: UUID, newer: UUID) -> UUID:
    """Accept a proposal to let one memory supersede another."""
    proposal = await propose(world, older, "supersede", newer)
    await world.catch_up()
    deciding = asyncio.ensure_future(world.reviewing.accept(world.caller, {"proposal_id": proposal}))
    while not deciding.done():
        await world.catch_up()
    await deciding
    return proposal


async def test_an_accepted_proposal_carries_the_commitment_to_the_newer_one_or_resolves_it(world):
    """1.14.2: to a live commitment without one of its own, otherwise resolved; each names the proposal."""
    owned = await promise(world, "Send the report", owner="ada")
    rival = await promise(world, "Send the long report")
    first = await supersede(world, owned, rival)
    assert dict(await listed(world)) == {owned: "resolved", rival: "open"}
    note = await world.remember("The report went out")
    second = await supersede(world, rival, note)
    assert dict(await listed(world)) == {owned: "resolved", rival: "resolved"}
    for memory, proposal in ((owned, first), (rival, second)):
        history = await world.reading.history(world.caller, {"memory_id": memory})
        [moved] = [one for one in history.entries if one.event == "commitment.transitioned"]
        assert (moved.detail["cause"], moved.detail["proposal"]) == ("proposal", str(proposal))


async def test_every_state_that_was_on_record_stands_in_the_read_model_with_its_span(world):
    memory = await promise(world)
    written = await world.engine.log.head()
    await resolve(world, memory, "waiting")
    await resolve(world, memory, "resolved")
    await world.catch_up()
    async with world.engine.database.connection() as connection:
        cursor = await connection.execute(
            "select status, position, until_position from lethelog_views.commitments order by position"
        )
        rows = await cursor.fetchall()
    assert [row[0] for row in rows] == ["open", "waiting", "resolved"]
    assert rows[0][1] == written
    assert [row[2] for row in rows] == [rows[1][1], rows[2][1], 2**63 - 1]


async def test_f49_commitments_move_with_their_memories_and_twice_is_once(world, elsewhere, tmp_path):
    due = world.clock.now + timedelta(days=3)
    first = await promise(world, owner="ada", due_at=due, recurrence="FREQ=DAILY")
    carried = await world.commands.revise(world.caller, {"memory_id": first, "content": "Send two reports"})
    await resolve(world, carried.memory.id, "waiting")
    done = await promise(world, "Call back", scope="work")
    await resolve(world, done)
    archive = await export(world, tmp_path / "first.jsonl")
    result = await bring_in(elsewhere, archive)
    assert result.counts["commitment"] == {"imported": 2} and result.items == ()
    assert body_of(await export(elsewhere, tmp_path / "second.jsonl")) == body_of(archive)
    assert (await bring_in(elsewhere, archive)).count("imported", "continued", "refused") == 0
    assert (await page(elsewhere)).commitments == (await page(world)).commitments
    assert (await resolve(elsewhere, carried.memory.id)).status == "resolved"
    await equals_its_rebuild(elsewhere)
    work = await export(world, tmp_path / "work.jsonl", scope="work")
    assert [line["event"] for line in lines_of(work) if line.get("event", "").startswith("commitment")] == [
        "commitment.opened",
        "commitment.transitioned",
    ]


async def test_a_commitment_does_not_come_in_without_its_memory(world, elsewhere, tmp_path):
    await promise(world)
    archive = await export(world, tmp_path / "first.jsonl")
    await promise(elsewhere)
    result = await bring_in(elsewhere, archive)
    assert {one.kind: one.action for one in result.items} == {"memory": "duplicate", "commitment": "refused"}
    assert (await page(elsewhere)).total == 1


# --- whatever is asked -------------------------------------------------------------------------------------------

TYPES = ("commitment", "note", "blocker")
STATUSES = ("open", "waiting", "resolved", "expired")
ONE = st.one_of(
    st.tuples(st.just("remember"), st.sampled_from(TYPES), st.sampled_from([None, -20, 5])),
    st.tuples(st.just("revise"), st.sampled_from([None, *TYPES]), st.integers(0, 5)),
    st.tuples(st.just("resolve"), st.sampled_from(STATUSES), st.integers(0, 5)),
    st.tuples(st.just("archive"), st.none(), st.integers(0, 5)),
    st.tuples(st.just("forward"), st.none(), st.integers(1, 20)),
    st.tuples(st.just("sweep"), st.none(), st.none()),
)


@dataclass
class Model:
    """What the commitments of one tenant must be, by the tables of the specification and nothing else."""

    kinds: dict[UUID, str] = field(default_factory=dict)
    ended: dict[UUID, str] = field(default_factory=dict)
    rides: dict[UUID, str] = field(default_factory=dict)
    due: dict[UUID, datetime | None] = field(default_factory=dict)
    spared: set[UUID] = field(default_factory=set)

    def revise(self, old: UUID, new: UUID, kind: str) -> None:
        self.kinds[new], self.ended[old] = kind, "superseded"
        if kind == "commitment":
            status, due = self.rides.pop(old, "open"), self.due.pop(old, None)
            self.rides[new], self.due[new] = status, due
            if old in self.spared:
                self.spared.add(new)
        elif self.rides.get(old) in ("open", "waiting"):
            self.rides[old] = "resolved"

    def expire(self, now: datetime) -> int:
        found = [
            one
            for one, status in self.rides.items()
            if status in ("open", "waiting") and one not in self.spared
            if self.due[one] is not None and self.due[one] < now - GRACE
        ]
        for one in found:
            self.rides[one] = "expired"
            self.spared.add(one)
        return len(found)


async def test_whatever_is_asked_commitments_follow_the_tables(world):
    loop = asyncio.get_running_loop()

    async def holds(steps: list[tuple[str, Any, Any]]) -> None:
        caller = Caller(uuid4(), Actor("person", uuid4()))
        await world.engine.tenants.ensure(caller.tenant, caller.actor)
        world.caller, model = caller, Model()
        for number, (verb, what, which) in enumerate(steps):
            await step(model, verb, what, which, number)
        await world.catch_up()
        told = await CommitmentListing(world.engine).page(caller, {"limit": 100})
        assert {one.memory_id: one.status for one in told.commitments} == model.rides
        assert len(told.commitments) == len(model.rides) == told.total
        for one in told.commitments:
            assert one.live == (one.memory_id not in model.ended)
            assert (
                await Commitments(world.engine.log, world.engine.directory).id_of(caller.tenant, one.memory_id)
                == one.id
            )
        await equals_its_rebuild(world, "commitments")

    async def step(model: Model, verb: str, what: Any, which: Any, number: int) -> None:
        now, ids = world.clock.now, list(model.kinds)
        if verb == "remember":
            due = None if which is None or what != "commitment" else now + timedelta(days=which)
            made = await world.remember(f"text {number}", memory_type=what, due_at=due)
            model.kinds[made] = what
            if what == "commitment":
                model.rides[made], model.due[made] = "open", due
        elif verb == "forward":
            world.clock.forward(days=which)
        elif verb == "sweep":
            mine = model.expire(now)
            assert (await sweep(world)).expired >= mine
        elif ids:
            await change(model, verb, what, ids[which % len(ids)], number)

    async def change(model: Model, verb: str, what: Any, target: UUID, number: int) -> None:
        ended = model.ended.get(target)
        try:
            if verb == "revise":
                given = {} if what is None else {"memory_type": what}
                revised = await world.commands.revise(
                    world.caller, {"memory_id": target, "content": f"text {number}", **given}
                )
                assert ended != "superseded"
                model.revise(target, revised.memory.id, what or model.kinds[target])
            elif verb == "archive":
                await world.commands.archive(world.caller, {"memory_id": target})
                model.ended.setdefault(target, "archived")
            else:
                done = await resolve(world, target, what)
                status = model.rides.get(target)
                if status is None:
                    assert (model.kinds[target], done.status) == ("blocker", "archived")
                    model.ended.setdefault(target, "archived")
                else:
                    assert status == what or what in rules.ALLOWED[status]
                    model.rides[target] = what
                    if what == "expired":
                        model.spared.add(target)
        except InvalidTransition:
            assert what not in rules.ALLOWED[model.rides[target]]
        except LethelogError as refused:
            assert refused.code in ("conflict", "not_found")
            assert ended is not None or (verb == "resolve" and target not in model.rides)

    @settings(
        max_examples=6, deadline=None, derandomize=True, database=None,
              suppress_health_check=[HealthCheck.too_slow])  # fmt: skip
    @given(steps=st.lists(ONE, min_size=10, max_size=16))
    def whatever_is_asked(steps: list[tuple[str, Any, Any]]) -> None:
        asyncio.run_coroutine_threadsafe(holds(steps), loop).result(60)

    await asyncio.to_thread(whatever_is_asked)
