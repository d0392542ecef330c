"""Sessions: opened once, taken up, closed, and named by every write that is made in them (behaviour.md 1.15)."""

import asyncio
from uuid import UUID, uuid4

import pytest
from lethelog.domain.errors import InvalidInput, NotFound, WrongKind
from lethelog.handlers.commitments.resolving import Resolving
from lethelog.handlers.erasure.erasures import Erasures
from lethelog.handlers.operating.event_log import EventLog
from lethelog.handlers.sessions.sessions import Sessions
from lethelog.handlers.undoing import undoing as undoing_module
from lethelog.handlers.undoing.undoing import Undoing
from lethelog.projections.rebuild import Rebuilder

from .archives import body_of, bring_in, export, lines_of, propose
from .review_desk import decided, dependency, with_views
from .test_erasure import erase


@pytest.fixture
def sessions(world) -> Sessions:
    return Sessions(world.engine)


async def begin(world, sessions: Sessions, name: str = "standup", **fields) -> UUID:
    return (await sessions.open(world.caller, {"session": name, **fields})).id


async def written_in(world, run: UUID) -> list[str]:
    page = await EventLog(world.engine).page(world.caller, {"session_run_id": run, "limit": 100})
    return [one.event for one in page.events]


async def test_user_agent_and_session_name_one_run_also_when_two_open_it_at_once(world, sessions):
    given = {"session": "standup", "user": "ada", "agent": "planner", "project": "site", "scope": "work"}
    first, second = await asyncio.gather(*(sessions.open(world.caller, given) for _ in range(2)))
    # The answer to the first may be of after the second.
    assert first.id == second.id and max(first.epoch, second.epoch) == 2
    other = await sessions.open(world.caller, {**given, "agent": "other"})
    assert other.id != first.id
    await world.catch_up()
    page = await sessions.page(world.caller, {"agent": "planner"})
    [told] = page.sessions
    assert (told.session, told.user, told.agent, told.project, told.scope) == (
        "standup", "ada", "planner", "site", "work",
    )  # fmt: skip
    assert told.running and (page.total, (await sessions.page(world.caller, {})).total) == (1, 2)


async def test_a_list_goes_on_where_a_page_ended_and_equals_its_rebuild(world, sessions):
    runs = [await begin(world, sessions, f"s{n}") for n in range(3)]
    await sessions.close(world.caller, {"session_run_id": runs[1]})
    await world.catch_up()
    first = await sessions.page(world.caller, {"limit": 2})
    rest = await sessions.page(world.caller, {"limit": 2, "cursor": first.next_cursor})
    assert [one.id for one in (*first.sessions, *rest.sessions)] == runs[::-1] and rest.next_cursor is None
    engine = world.engine
    assert (await Rebuilder(engine.database, engine.log, engine.tail, engine.sessions).compare()).equal


async def test_a_list_of_many_runs_takes_as_many_queries_as_one_of_one(world, sessions, monkeypatch):
    for number in range(4):
        await begin(world, sessions, f"s{number}", user="ada")
    await world.catch_up()
    asked: list[str] = []
    for what in ("read_stream", "read_streams", "now"):
        method = getattr(world.engine.log, what)

        async def counted(*given, method=method, what=what, **named):
            asked.append(what)
            return await method(*given, **named)

        monkeypatch.setattr(world.engine.log, what, counted)
    queries: list[list[str]] = []
    for limit in (1, 4):
        asked.clear()
        assert len((await sessions.page(world.caller, {"limit": limit})).sessions) == limit
        queries.append(asked.copy())
    assert queries == [["read_streams", "now"]] * 2


async def test_query_by_session_lists_exactly_its_writes(world, sessions):
    """Provenance: who, when, which session on every entry."""
    run, other = await begin(world, sessions), await begin(world, sessions, "another")
    here = {"session_run_id": run}
    memory = await world.remember("Uses Vim", **here)
    await world.remember("Uses Emacs", session_run_id=other)
    outside = await world.remember("Send the report", memory_type="commitment")
    await world.commands.pin(world.caller, {"memory_id": memory, **here})
    await world.commands.verify(world.caller, {"memory_id": memory})
    await Resolving(world.engine, world.commands).resolve(world.caller, {"memory_id": outside, **here})
    await world.commands.revise(world.caller, {"memory_id": memory, "content": "Uses Helix", **here})
    proposal = await propose(world, await world.remember("Old"))
    await world.catch_up()
    await world.reviewing.reject(world.caller, {"proposal_id": proposal, **here})
    assert await written_in(world, run) == [
        "memory.remembered",
        "memory.pinned",
        "commitment.transitioned",
        "memory.remembered",
        "memory.superseded",
        "proposal.rejected",
    ]
    assert await written_in(world, other) == ["memory.remembered"]
    await world.catch_up()
    found = await world.reading.list(world.caller, {**here, "status": "all"})
    assert {one.content for one in found.memories} == {"Uses Vim", "Uses Helix", "Send the report", "Old"}
    entries = (await world.reading.history(world.caller, {"memory_id": memory})).entries
    assert [one.session for one in entries] == [run, run, None, run]


async def test_deciding_many_and_undoing_name_the_run_on_every_event_they_lead_to(world, sessions, monkeypatch):
    """1.15: `{sessionRunId}` in every event a write emits; each write names its own run."""
    first, second, third = [await begin(world, sessions, name) for name in ("deciding", "undoing", "going on")]
    proposals = [await dependency(world, await world.remember(f"Deploys go to place {n}")) for n in range(4)]
    for number, together in ((0, False), (2, True)):
        command = {"verdict": "accept", "proposal_ids": proposals[number : number + 2], "together": together}
        work = world.reviewing.decide_many(world.caller, {**command, "session_run_id": first})
        assert (await with_views(world, work)).counts == {"applied": 2}
    assert sorted(await written_in(world, first)) == ["memory.archived"] * 4 + ["proposal.accepted"] * 4

    undo = Undoing(world.engine, world.commands)
    monkeypatch.setattr(undoing_module, "DECISIONS_AT_A_TIME", 1)
    recorded = Undoing._record

    async def dies(self, *given):
        raise ConnectionError("the process died here")

    monkeypatch.setattr(Undoing, "_record", dies)
    asked = {"session": first, "session_run_id": second, "key": "once"}
    with pytest.raises(ConnectionError):
        await with_views(world, undo.undo(world.caller, asked))
    assert await written_in(world, second) == ["undo.requested", "memory.effect_undone", "memory.effect_undone"]
    monkeypatch.setattr(Undoing, "_record", recorded)
    page = await EventLog(world.engine).page(world.caller, {"session_run_id": second})
    carried = {"undo_id": page.events[0].stream, "session_run_id": third}
    done = await with_views(world, undo.resume(world.caller, carried))
    assert (done.undone, done.complete) == (4, True)
    assert set(await written_in(world, third)) == {"memory.effect_undone", "undo.performed"}
    assert len(await written_in(world, second)) == 3, "what was written by then stays of its own run"


async def test_deciding_many_and_undoing_in_a_run_that_is_none_is_refused_by_name_and_nothing_is_done(
    world, sessions
):
    foreign = (await sessions.open(await world.another_caller(), {"session": "theirs"})).id
    one, other = [await dependency(world, await world.remember(f"Deploys go to place {n}")) for n in range(2)]
    undo = Undoing(world.engine, world.commands)
    await decided(world, other)
    done = await with_views(world, undo.undo(world.caller, {"proposal_id": other}))
    await world.catch_up()
    head = await world.engine.log.head()
    for run in (foreign, uuid4()):
        in_run = {"session_run_id": run}
        many = {"verdict": "accept", "proposal_ids": [one], **in_run}
        for call in (
            lambda many=many: world.reviewing.decide_many(world.caller, many),
            lambda many=many: world.reviewing.decide_many(world.caller, {**many, "together": True}),
            lambda given=in_run: undo.undo(world.caller, {"proposal_id": one, **given}),
            lambda given=in_run: undo.resume(world.caller, {"undo_id": done.id, **given}),
        ):
            with pytest.raises(NotFound) as refused:
                await with_views(world, call())
            assert refused.value.details["field"] == "session_run_id"
    assert await world.engine.log.head() == head


async def test_a_foreign_or_unknown_run_is_refused_by_name_and_nothing_is_written(world, sessions):
    """1.15: foreign run id → the write fails."""
    foreign = (await sessions.open(await world.another_caller(), {"session": "theirs"})).id
    memory = await world.remember("Uses Vim")
    head = await world.engine.log.head()
    for run, error in ((foreign, NotFound), (uuid4(), NotFound), (memory, WrongKind)):
        with pytest.raises(error) as refused:
            await world.commands.archive(world.caller, {"memory_id": memory, "session_run_id": run})
        assert refused.value.details["field"] == "session_run_id"
        with pytest.raises(error):
            await sessions.resume(world.caller, {"session_run_id": run})
    assert await world.engine.log.head() == head


async def test_a_write_that_names_a_closed_run_succeeds_without_provenance_and_does_not_reopen_it(world, sessions):
    """1.15: explicitly closed own run → write succeeds without provenance; resume reopens it."""
    run = await begin(world, sessions)
    closed = await sessions.close(world.caller, {"session_run_id": run})
    assert not closed.running
    head = await world.engine.log.head()
    await sessions.close(world.caller, {"session_run_id": run})
    await sessions.heartbeat(world.caller, {"session_run_id": run})
    assert await world.engine.log.head() == head
    await world.remember("Uses Vim", session_run_id=run)
    assert await written_in(world, run) == []
    assert not (await sessions.show(world.caller, {"session_run_id": run})).running
    resumed = await sessions.resume(world.caller, {"session_run_id": run})
    assert (resumed.running, resumed.epoch, resumed.closed_at) == (True, 2, None)


async def test_what_was_written_elsewhere_names_no_session(world, sessions):
    """1.15: import must reject the key."""
    run = await begin(world, sessions)
    said = {"topic": "t", "content": "c", "session_run_id": run}
    memory = await world.remember("Uses Vim")
    for call, arguments in (
        (world.commands.import_memory, said),
        (world.commands.revise_imported, {**said, "memory_id": memory}),
    ):
        with pytest.raises(InvalidInput) as refused:
            await call(world.caller, arguments)
        assert refused.value.field == "session_run_id"


async def test_a_name_goes_with_the_last_memory_of_its_session_and_opening_it_begins_another_run(world, sessions):
    run = await begin(world, sessions)
    first, last = [await world.remember(text, session_id="standup") for text in ("Uses Vim", "Uses Emacs")]
    await erase(world, Erasures(world.engine), memory_id=first)
    assert await begin(world, sessions) == run, "another memory is of it"
    await erase(world, Erasures(world.engine), memory_id=last)
    assert (await sessions.show(world.caller, {"session_run_id": run})).session is None
    assert await begin(world, sessions) != run


async def test_archives_keep_in_which_session_something_was_written(world, elsewhere, sessions, tmp_path):
    run = await begin(world, sessions)
    await world.remember("Uses Vim", session_run_id=run)
    archive = await export(world, tmp_path / "first.jsonl")
    assert [line["session"] for line in lines_of(archive) if "session" in line] == [str(run)]
    await bring_in(elsewhere, archive)
    assert body_of(await export(elsewhere, tmp_path / "second.jsonl")) == body_of(archive)
    assert await written_in(elsewhere, run) == ["memory.remembered"]


async def test_what_a_session_is_about_stays_as_it_was_opened_and_another_project_is_refused_by_name(
    world, sessions
):
    """1.15: startup stamps, a resume never restamps; nothing that was given is dropped without a word."""
    given = {"session": "standup", "agent": "planner", "project": "site", "scope": "work"}
    run = await sessions.open(world.caller, given)
    assert (await sessions.open(world.caller, {"session": "standup", "agent": "planner"})).project == "site"
    head = await world.engine.log.head()
    for field, other in (("project", "shop"), ("scope", "personal")):
        with pytest.raises(InvalidInput) as refused:
            await sessions.open(world.caller, {**given, field: other})
        assert refused.value.field == field
    assert await world.engine.log.head() == head
    assert await world.engine.directory.find(world.caller.tenant, "project", "shop") is None
    plain = await begin(world, sessions, "retro")
    with pytest.raises(InvalidInput):
        await sessions.open(world.caller, {"session": "retro", "project": "site"})
    assert (await sessions.show(world.caller, {"session_run_id": plain})).project is None
    assert (await sessions.open(world.caller, given)).epoch == run.epoch + 2
