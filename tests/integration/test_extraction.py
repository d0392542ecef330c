"""Facts read in memories by a model elsewhere: proposed once, never guessed, and never without leave (S3; 1.14.3).

The model is a real HTTP server of the tests' own, which speaks the chat format of OpenAI.
"""

import asyncio
from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from lethelog.domain.errors import (
    BudgetExceeded,
    Conflict,
    Erased,
    ExtractorMalformed,
    ExtractorRejected,
    ExtractorUnavailable,
    KeyReused,
    Misconfigured,
    NotFound,
)
from lethelog.domain.extraction import (
    EXTRACTION_OPERATION,
    MOST_CHARS,
)
from lethelog.handlers.access.caller import Caller
from lethelog.handlers.erasure.erasures import Erasures
from lethelog.handlers.explaining import Explaining
from lethelog.handlers.extracting.by_hand import ExtractingByHand
from lethelog.handlers.extracting.chat_extractor import ChatExtractor
from lethelog.handlers.extracting.extracting import Extracting
from lethelog.handlers.extracting.settings import ExtractorSettings
from lethelog.handlers.facts import Facts
from lethelog.handlers.operating.workers import Workers, durables_of_roles
from lethelog.handlers.undoing.undoing import Undoing
from lethelog.projections.rebuild import Rebuilder
from lethelog.streams.consumers import Consumers
from lethelog.streams.handling import RetryLater, RetryPolicy
from lethelog.streams.subscriptions import EventSubscription
from lethelog.streams.topology import Topology
from pydantic import SecretStr

from ..chat_server import Answer, ChatServer, answer, chatting, completion, fact, facts
from .broker_fixtures import eventually
from .review_desk import with_views
from .test_erasure import erase

TEXT = "Ada moved to Porto in January and works for Orla."
PORTO = fact("Ada", "lives in", "Porto", "Ada moved to Porto in January")
ORLA = fact("Ada", "works for", "Orla", "works for Orla", 0.6)


def told(_text: str) -> Answer:
    return answer(facts(PORTO, ORLA))


@pytest.fixture
async def chat() -> AsyncGenerator[ChatServer]:
    async with chatting(says=told) as server:
        yield server


def settings(chat: ChatServer, **changes: Any) -> ExtractorSettings:
    fields: dict[str, Any] = {"base_url": chat.url, "model": "told-1", "max_attempts": 1}
    return ExtractorSettings(**{**fields, **changes})


@pytest.fixture
async def extractor(chat: ChatServer) -> AsyncGenerator[ChatExtractor]:
    opened = ChatExtractor(settings(chat))
    yield opened
    await opened.close()


@pytest.fixture
def extracting(world, extractor) -> Extracting:
    return Extracting(world.engine, extractor)


@pytest.fixture
async def opted(world):
    """A world whose tenant allows it."""
    await world.engine.tenants.set_judgment(world.caller.tenant, True, world.caller.actor)
    return world


async def remembered(world, memory_id: UUID, caller: Caller | None = None):
    """What the broker brings when a memory came to be."""
    [first, *_] = await world.engine.log.read_stream((caller or world.caller).tenant, memory_id)
    return first


async def read(world, extracting: Extracting, memory_id: UUID, caller: Caller | None = None) -> None:
    """A worker hears of a memory."""
    await world.catch_up()
    await extracting.on_remembered(await remembered(world, memory_id, caller))


async def queue(world, caller: Caller | None = None, **query: Any):
    await world.catch_up()
    return (await world.reviewing.list(caller or world.caller, {"kind": "fact", **query})).proposals


async def by_hand(world, extractor, memory_id: UUID, key: str | None = None):
    await world.catch_up()
    return await ExtractingByHand(world.engine, extractor).extract(
        world.caller, {"memory_id": memory_id, "key": key}
    )


async def budget(world):
    return await world.engine.tenants.budget(world.caller.tenant, (await world.engine.log.now()).date())


async def records(world) -> list[Any]:
    found = await world.engine.log.beginnings(world.caller.tenant, "extraction.", after=0, upto=2**62, limit=100)
    streams = await world.engine.log.read_streams(world.caller.tenant, [stream for _, stream in found])
    recorded = [one for events in streams.values() for one in events]
    return [one.event for one in sorted(recorded, key=lambda one: one.position)]


# --- what is proposed --------------------------------------------------------------------------------------------------


async def test_a_new_memory_is_read_and_what_it_states_waits_for_a_reviewer(opted, chat, extracting):
    memory = await opted.remember(TEXT, topic="Ada")
    await read(opted, extracting, memory)
    assert chat.texts == [TEXT]
    shown = {(one.memory_id, one.action, one.probability, one.status) for one in await queue(opted)}
    assert shown == {(memory, "assert", 0.9, "proposed"), (memory, "assert", 0.6, "proposed")}
    assert (await Facts(opted.engine).get(opted.caller, {})).facts == (), "an extractor writes no fact"
    [said] = await records(opted)
    assert (said.outcome, said.model, said.dropped, said.already_there) == ("read", "told-2026-10-01", {}, 0)
    assert {one.id for one in await queue(opted)} == set(said.proposals)
    assert len({one.source for one in await queue(opted)}) == 1
    accepted = next(one for one in await queue(opted) if one.probability == 0.9)
    decided = await opted.reviewing.accept(opted.caller, {"proposal_id": accepted.id})
    await opted.catch_up()
    [one] = (await Facts(opted.engine).get(opted.caller, {})).facts
    assert (one.id, one.subject, one.predicate, one.value) == (decided.fact_id, "Ada", "lives in", "Porto")


async def test_the_chain_of_a_proposal_names_the_reading_and_the_model(opted, extracting, extractor):
    memory = await opted.remember(TEXT)
    await read(opted, extracting, memory)
    [first, _] = await queue(opted)
    chain = await Explaining(opted.engine, opted.reviewing).chain(opted.caller, {"about": first.id})
    says = [link.says for link in chain.links]
    assert f"its text was read for facts by {extractor.identity} (told-2026-10-01)" in says
    assert {link.judge for link in chain.links if link.event != "memory.remembered"} == {extractor.identity}


async def test_the_window_is_the_memory_s_own_and_none_is_guessed(opted, extracting):
    given = {"valid_from": "2026-01-01T00:00:00Z", "valid_to": "2026-03-01T00:00:00Z"}
    for text, window in ((TEXT, {}), (f"{TEXT} So it was.", given)):
        memory = await opted.remember(text, **window)
        await read(opted, extracting, memory)
        for one in await queue(opted, memory_id=memory):
            assert {name: one.details.get(name) for name in given} == {name: window.get(name) for name in given}


async def test_words_that_do_not_stand_in_the_text_are_left_out_and_counted(opted, chat, extractor):
    chat.says = lambda _text: answer(
        facts(PORTO, PORTO | {"value": "Lisbon"}, PORTO | {"subject": "Grace"}, PORTO | {"extra": 1}, PORTO)
    )
    memory = await opted.remember(TEXT)
    found = await by_hand(opted, extractor, memory)
    assert len(found.proposals) == 1 and found.dropped == {"malformed": 1, "not_in_text": 2, "twice": 1}
    assert [one.id for one in await queue(opted)] == list(found.proposals)


async def test_what_is_on_record_already_is_not_proposed_again(opted, extractor):
    said = {name: PORTO[name] for name in ("subject", "predicate", "value")}
    written = await opted.commands.remember(
        opted.caller, {"topic": "Ada", "content": TEXT, "facts": [said | {"subject": "ADA"}]}
    )
    memory = written.memory.id
    first = await by_hand(opted, extractor, memory)
    assert (len(first.proposals), first.already_there) == (1, 1)
    again = await by_hand(opted, extractor, memory)
    assert (again.proposals, again.already_there) == ((), 2), "one is open"
    await opted.catch_up()
    await opted.reviewing.accept(opted.caller, {"proposal_id": first.proposals[0]})
    assert (await by_hand(opted, extractor, memory)).already_there == 2, "it was accepted"
    assert len(await queue(opted)) == 1


async def test_a_rejected_claim_comes_again_only_where_the_text_is_read_anew(opted, extracting, extractor):
    """Reject allows re-proposal; the same reading asks once."""
    memory = await opted.remember(TEXT)
    await read(opted, extracting, memory)
    for one in await queue(opted):
        await opted.reviewing.reject(opted.caller, {"proposal_id": one.id})
    await read(opted, extracting, memory)
    assert await queue(opted, status="proposed") == ()
    assert len((await by_hand(opted, extractor, memory)).proposals) == 2


async def test_the_history_of_a_memory_names_what_was_read_proposed_and_asserted(opted, extracting):
    written = await opted.commands.remember(
        opted.caller,
        {"topic": "Ada", "content": TEXT, "facts": [{"subject": "Ada", "predicate": "uses", "value": "Vim"}]},
    )
    memory = written.memory.id
    await read(opted, extracting, memory)
    [first, _] = await queue(opted)
    await opted.reviewing.accept(opted.caller, {"proposal_id": first.id})
    undoing = Undoing(opted.engine, opted.commands)
    await with_views(opted, undoing.undo(opted.caller, {"proposal_id": first.id}))
    await opted.catch_up()
    entries = (await opted.reading.history(opted.caller, {"memory_id": memory})).entries
    assert [one.event for one in entries] == [
        "memory.remembered",
        "fact.asserted",
        "proposal.fact_staged",
        "proposal.fact_staged",
        "extraction.recorded",
        "proposal.accepted",
        "fact.asserted",
        "fact.effect_undone",
    ]
    assert entries[1].detail["value"] == "Vim" and entries[6].detail["value"] in ("Porto", "Orla")
    assert (entries[6].old, entries[6].new, entries[4].judge) == (None, None, entries[2].judge)

    await erase(opted, Erasures(opted.engine), memory_id=memory)
    async with opted.engine.database.connection() as connection:
        cursor = await connection.execute(
            "select count(*) from lethelog_views.memory_history where detail::text ~ 'Vim|Porto|Orla'"
        )
        assert await cursor.fetchone() == (0,)
    engine = opted.engine
    rebuilder = Rebuilder(engine.database, engine.log, engine.tail, engine.memory_history)
    assert (await rebuilder.compare()).equal, "as a rebuild after the erasure makes it"


# --- once --------------------------------------------------------------------------------------------------------------


async def test_a_message_that_comes_again_sends_nothing_and_stages_nothing(opted, chat, extracting):
    memory = await opted.remember(TEXT)
    await read(opted, extracting, memory)
    head = await opted.engine.log.head()
    await read(opted, extracting, memory)
    assert (len(chat.asked), await opted.engine.log.head()) == (1, head)


async def test_two_processes_that_read_the_same_text_at_once_propose_it_once(opted, chat, extractor):
    chat.released = asyncio.Event()
    memory = await opted.remember(TEXT)
    await opted.catch_up()
    recorded = await remembered(opted, memory)
    several = [
        asyncio.ensure_future(Extracting(opted.engine, extractor).on_remembered(recorded)) for _ in range(3)
    ]
    await eventually(lambda: len(chat.asked) == 3, "all are asked")
    chat.released.set()
    await asyncio.gather(*several)
    assert len(await queue(opted)) == 2 and len(await records(opted)) == 1
    spent = await budget(opted)
    assert (len(spent.reserved), len(spent.settled)) == (1, 1)


@pytest.mark.parametrize("point", ["after the reserve", "after the answer", "after the proposals"])
async def test_a_worker_killed_there_leads_to_one_charge_and_each_fact_proposed_once(
    opted, broker, carried, database_url, start, chat, extracting, point
):
    """F43: SIGKILL, and the message comes to another process."""
    memory = await opted.remember(TEXT)
    await opted.catch_up()
    killed = await start(
        "extract",
        database_url=database_url,
        broker_url=broker.url,
        prefix=broker.prefix,
        endpoint=chat.url,
        fatal=point,
    )
    assert await killed.process.wait() == 9
    await read(opted, extracting, memory)
    assert len(await queue(opted)) == 2 and len(await records(opted)) == 1
    spent = await budget(opted)
    assert (len(spent.reserved), len(spent.settled)) == (1, 1)
    assert len(chat.asked) == (1 if point == "after the reserve" else 2)


async def test_by_hand_a_key_makes_a_retry_safe(opted, chat, extractor):
    memory, other = await opted.remember(TEXT), await opted.remember(f"{TEXT} And so on.")
    first = await by_hand(opted, extractor, memory, "k1")
    assert await by_hand(opted, extractor, memory, "k1") == first and len(chat.asked) == 1
    with pytest.raises(KeyReused):
        await by_hand(opted, extractor, other, "k1")
    assert len(chat.asked) == 1


# --- leave -------------------------------------------------------------------------------------------------------------


async def test_without_the_opt_in_nothing_is_sent(world, chat, extracting, extractor):
    memory = await world.remember(TEXT)
    await read(world, extracting, memory)
    with pytest.raises(Conflict, match="judgment on"):
        await by_hand(world, extractor, memory)
    assert chat.asked == [] and await queue(world) == () and await records(world) == []
    assert (await budget(world)).reserved == frozenset()


async def test_an_opt_out_between_the_message_and_the_call_is_heeded(opted, chat, extractor, monkeypatch):
    """A32: read right before the text is sent."""
    memory = await opted.remember(TEXT)
    await opted.catch_up()
    reached, go_on = asyncio.Event(), asyncio.Event()
    now = opted.engine.log.now

    async def held():
        reached.set()
        await go_on.wait()
        return await now()

    monkeypatch.setattr(opted.engine.log, "now", held)
    reading = asyncio.ensure_future(
        Extracting(opted.engine, extractor).on_remembered(await remembered(opted, memory))
    )
    await reached.wait()
    await opted.engine.tenants.set_judgment(opted.caller.tenant, False, opted.caller.actor)
    go_on.set()
    await reading
    assert chat.asked == [] and await queue(opted) == ()


async def test_two_tenants_one_of_which_allows_it(opted, chat, extracting):
    other = await opted.another_caller()
    theirs = await opted.commands.remember(other, {"topic": "t", "content": f"{TEXT} Theirs."})
    own = await opted.remember(TEXT)
    await read(opted, extracting, theirs.memory.id, other)
    await read(opted, extracting, own)
    assert chat.texts == [TEXT]
    await opted.engine.tenants.set_judgment(other.tenant, True, other.actor)
    await read(opted, extracting, theirs.memory.id, other)
    assert {one.memory_id for one in await queue(opted)} == {own}
    assert {one.memory_id for one in await queue(opted, other)} == {theirs.memory.id}
    assert len((await budget(opted)).reserved) == 1, "each pays for its own"


async def test_a_used_up_budget_sends_nothing_and_says_so(opted, chat, extracting, extractor):
    await opted.engine.tenants.set_policy(opted.caller.tenant, {"judge_calls_per_day": 1}, opted.caller.actor)
    first, second = await opted.remember(TEXT), await opted.remember(f"{TEXT} And so on.")
    await read(opted, extracting, first)
    await read(opted, extracting, second)
    assert len(chat.asked) == 1 and {one.memory_id for one in await queue(opted)} == {first}
    assert [(one.memory_id, one.outcome, one.call_id) for one in await records(opted)][1:] == [
        (second, "budget_exceeded", None)
    ]
    with pytest.raises(BudgetExceeded):
        await by_hand(opted, extractor, second)
    assert len(chat.asked) == 1


async def test_calls_are_metered_with_what_they_used_and_whose_text_they_held(opted, extracting):
    memory = await opted.remember(TEXT)
    await read(opted, extracting, memory)
    day = await budget(opted)
    reserved, settled = [one.event for one in await opted.engine.log.read_stream(opted.caller.tenant, day.id)]
    assert (reserved.operation, settled.operation) == (EXTRACTION_OPERATION,) * 2
    assert reserved.shown == (memory,)
    assert (settled.input_tokens, settled.output_tokens, settled.cost_usd) == (120, 30, 0.0001)


async def test_a_memory_that_is_not_live_is_not_sent(opted, chat, extracting, extractor):
    async def one(how: str, **fields: Any) -> UUID:
        return await opted.remember(f"Ada is {how}", **fields)

    memories = {how: await one(how) for how in ("archived", "superseded", "refuted", "erased")}
    await opted.commands.archive(opted.caller, {"memory_id": memories["archived"]})
    await opted.commands.revise(opted.caller, {"memory_id": memories["superseded"], "content": "Ada moved on"})
    await opted.commands.refute(opted.caller, {"memory_id": memories["refuted"]})
    memories["quarantined"] = await one("refuted")
    await erase(opted, Erasures(opted.engine), memory_id=memories["erased"])
    expired = await one("expired", expires_at=opted.clock.now + timedelta(hours=1))
    opted.clock.forward(hours=2)
    for memory in (*memories.values(), expired):
        await read(opted, extracting, memory)
    for how, memory in memories.items():
        with pytest.raises(Erased if how == "erased" else Conflict):
            await by_hand(opted, extractor, memory)
    assert chat.asked == [] and await records(opted) == []


async def test_a_text_too_long_is_not_read_in_part(opted, chat, extracting, extractor):
    written = await opted.commands.import_memory(
        opted.caller, {"topic": "long", "content": "long " * (MOST_CHARS // 5) + "x"}
    )
    await read(opted, extracting, written.memory.id)
    with pytest.raises(Conflict, match=str(MOST_CHARS)):
        await by_hand(opted, extractor, written.memory.id)
    assert chat.asked == [] and [one.outcome for one in await records(opted)] == ["too_long"]


async def test_by_hand_without_an_extractor_or_a_memory_the_error_says_what_is_missing(opted, extractor, chat):
    memory = await opted.remember(TEXT)
    with pytest.raises(Misconfigured, match="LETHELOG_EXTRACTOR_URL"):
        await by_hand(opted, None, memory)
    with pytest.raises(NotFound):
        await by_hand(opted, extractor, UUID(int=7))
    theirs = await opted.another_caller()
    foreign = await opted.commands.remember(theirs, {"topic": "t", "content": TEXT})
    with pytest.raises(NotFound):
        await by_hand(opted, extractor, foreign.memory.id)
    assert chat.asked == []


# --- while it is asked -------------------------------------------------------------------------------------------------


async def while_asked(world, chat, extracting, memory: UUID, meanwhile) -> None:
    chat.released = asyncio.Event()
    await world.catch_up()
    reading = asyncio.ensure_future(extracting.on_remembered(await remembered(world, memory)))
    await chat.arrived.wait()
    await meanwhile
    chat.released.set()
    await reading


async def test_what_was_erased_while_it_was_asked_about_is_proposed_to_nobody(opted, chat, extracting, extractor):
    memory = await opted.remember(TEXT)
    erasures = Erasures(opted.engine)
    done = []

    async def meanwhile() -> None:
        done.append(await erase(opted, erasures, memory_id=memory))

    await while_asked(opted, chat, extracting, memory, meanwhile())
    assert await queue(opted) == ()
    [receiver] = done[0].providers
    assert (receiver.provider, receiver.operation, receiver.calls) == (extractor.identity, "extraction", 1)
    assert done[0].certificate["statement"]["providers"][0]["operation"] == "extraction"
    async with opted.engine.database.connection() as connection:
        cursor = await connection.execute(
            "select count(*) from lethelog.events where name = 'proposal.fact_staged'"
        )
        assert await cursor.fetchone() == (0,)
    assert len((await budget(opted)).settled) == 1, "the call was made all the same"


async def test_the_erasure_of_another_memory_meanwhile_loses_no_fact(opted, chat, extracting):
    memory, other = await opted.remember(TEXT), await opted.remember("Lunch is at noon")
    erasures = Erasures(opted.engine)
    await while_asked(opted, chat, extracting, memory, erase(opted, erasures, memory_id=other))
    assert len(await queue(opted)) == 2


@pytest.mark.parametrize("point", ["fence", "stage"])
async def test_an_erasure_in_the_middle_of_staging_is_noticed(opted, chat, extractor, monkeypatch, point):
    """The memory is looked at again behind the fence, and another one's erasure only makes it look again."""
    memory, other = await opted.remember(TEXT), await opted.remember("Lunch is at noon")
    erased = memory if point == "fence" else other
    extracting = Extracting(opted.engine, extractor)
    load, times = extracting._memories.load_many, []

    async def then_erased(tenant, ids):
        found = await load(tenant, ids)
        times.append(ids)
        # The first look is at whether to ask at all, the second stands between the fence and the proposals.
        if len(times) == 2:
            await erase(opted, Erasures(opted.engine), memory_id=erased)
        return found

    monkeypatch.setattr(extracting._memories, "load_many", then_erased)
    await read(opted, extracting, memory)
    assert len(times) == 3, "it was refused, and looked again"
    assert len(await queue(opted)) == (0 if erased == memory else 2)
    assert [one.outcome for one in await records(opted)] == ["ended_meanwhile" if erased == memory else "read"]


async def test_what_was_revised_meanwhile_is_left_to_its_successor(opted, chat, extracting):
    memory = await opted.remember(TEXT)
    revising = opted.commands.revise(opted.caller, {"memory_id": memory, "content": f"{TEXT} Since 3 January."})
    await while_asked(opted, chat, extracting, memory, revising)
    assert await queue(opted) == ()
    assert [(one.outcome, one.proposals) for one in await records(opted)] == [("ended_meanwhile", ())]


async def test_what_was_only_filed_elsewhere_meanwhile_is_proposed_at_its_new_state(opted, chat, extracting):
    memory = await opted.remember(TEXT)
    moving = opted.commands.move(opted.caller, {"memory_id": memory, "scope": "work"})
    await while_asked(opted, chat, extracting, memory, moving)
    assert {one.seen[memory] for one in await queue(opted)} == {2} and len(await queue(opted)) == 2


# --- when it fails -----------------------------------------------------------------------------------------------------


async def test_an_answer_that_is_none_gives_no_fact_and_is_paid_for_each_time(opted, chat, extracting, extractor):
    chat.says = lambda _text: answer(completion("```json\n{}\n```"))
    memory = await opted.remember(TEXT)
    for number in (1, 2):
        with pytest.raises(ExtractorMalformed):
            await read(opted, extracting, memory)
        spent = await budget(opted)
        assert (len(spent.reserved), len(spent.settled), len(chat.asked)) == (number, number, number)
    assert await queue(opted) == () and await records(opted) == []
    chat.says = told
    await read(opted, extracting, memory)
    assert len(await queue(opted)) == 2


async def test_a_reply_too_large_or_cut_off_is_no_answer(opted, chat, extracting):
    cut_off = completion({"facts": [PORTO]}, finish_reason="length")
    for reply in (b"x" * 2_000_000, completion(None), cut_off):
        chat.says = lambda _text, reply=reply: answer(reply)
        with pytest.raises(ExtractorMalformed):
            await read(opted, extracting, await opted.remember(f"{TEXT} {len(chat.asked)}"))
    assert await queue(opted) == () and len(chat.asked) == 3


async def test_a_refusal_is_on_record_and_not_asked_again(opted, chat, extracting):
    message = {"role": "assistant", "content": None, "refusal": "I cannot help with that."}
    chat.says = lambda _text: answer(completion(None, message=message))
    memory = await opted.remember(TEXT)
    for _ in range(2):
        await read(opted, extracting, memory)
    assert len(chat.asked) == 1 and [one.outcome for one in await records(opted)] == ["refused"]


async def test_a_server_that_is_down_or_busy_is_asked_later(opted, chat, extracting, extractor):
    for reply, delay in (
        (answer({}, 500), 60.0),
        (answer({}, 503), 60.0),
        (answer({}, 429), 60.0),
        (answer({}, 429, retry_after="90"), 90.0),
        (answer({}, 429, retry_after="86400"), 600.0),
    ):
        chat.says = lambda _text, reply=reply: reply
        memory = await opted.remember(f"{TEXT} {reply.status} {reply.headers}")
        before = len((await budget(opted)).reserved)
        for _ in range(2):
            with pytest.raises(RetryLater) as later:
                await read(opted, extracting, memory)
            assert later.value.delay == delay
        assert len((await budget(opted)).reserved) == before + 1, "one call, however often it is tried"
        with pytest.raises(ExtractorUnavailable):
            await by_hand(opted, extractor, memory)
    chat.says = told
    await read(opted, extracting, memory)
    assert len(await queue(opted, memory_id=memory)) == 2


async def test_a_call_without_an_answer_is_asked_again_the_next_day_and_charged_to_that_day(
    opted, chat, extracting, monkeypatch
):
    chat.says = lambda _text: answer({}, 503)
    memory = await opted.remember(TEXT)
    with pytest.raises(RetryLater):
        await read(opted, extracting, memory)
    tomorrow = await opted.engine.log.now() + timedelta(days=1)

    async def a_day_later():
        return tomorrow

    monkeypatch.setattr(opted.engine.log, "now", a_day_later)
    chat.says = told
    await read(opted, extracting, memory)
    assert len(await queue(opted)) == 2 and len(chat.asked) == 2
    assert [one.outcome for one in await records(opted)] == ["read"]
    days = [
        await opted.engine.tenants.budget(opted.caller.tenant, day.date())
        for day in (tomorrow - timedelta(days=1), tomorrow)
    ]
    assert [(len(day.reserved), len(day.settled)) for day in days] == [(1, 0), (1, 1)]


async def test_a_server_that_never_answers_costs_the_timeout_and_no_more(opted, chat):
    chat.released = asyncio.Event()
    slow = ChatExtractor(settings(chat, timeout=0.1))
    with pytest.raises(RetryLater):
        await read(opted, Extracting(opted.engine, slow), await opted.remember(TEXT))
    await slow.close()


async def test_where_nobody_listens_it_is_tried_later(opted, chat):
    nobody = ChatExtractor(settings(chat, base_url="http://127.0.0.1:1/v1"))
    with pytest.raises(RetryLater):
        await read(opted, Extracting(opted.engine, nobody), await opted.remember(TEXT))
    await nobody.close()


async def test_a_request_that_is_refused_names_the_setting_and_never_the_text(opted, chat, extractor, caplog):
    caplog.set_level("DEBUG")
    memory = await opted.remember(TEXT)
    for status, setting in ((401, "KEY"), (404, "MODEL"), (400, "EXTRA_BODY"), (307, "URL")):
        echo = {"error": {"message": f"cannot read {TEXT}", "code": "bad", "param": TEXT}}
        reply = answer(echo, status, location="http://elsewhere.example.com/")
        chat.says = lambda _text, reply=reply: reply
        before = len(chat.asked)
        with pytest.raises(ExtractorRejected, match=f"LETHELOG_EXTRACTOR_{setting}") as refused:
            await by_hand(opted, extractor, memory)
        assert refused.value.details["status"] == status and len(chat.asked) == before + 1
        said = repr(refused.value.as_dict()) + str(refused.value) + repr(refused.value.__cause__) + caplog.text
        assert "Porto" not in said and "extractor" in said


async def test_the_key_travels_as_a_bearer_token(opted, chat):
    keyed = ChatExtractor(settings(chat, api_key=SecretStr("sk-told")))
    await by_hand(opted, keyed, await opted.remember(TEXT))
    await keyed.close()
    assert chat.keys == ["Bearer sk-told"]


# --- the worker --------------------------------------------------------------------------------------------------------


async def test_the_worker_hears_of_new_memories_from_the_broker(opted, broker, carried, chat, extractor):
    before = await opted.remember("Ada wrote this before there was an extractor")
    await carried.reached(await opted.engine.log.head())
    workers = Workers(opted.engine, broker=broker, roles=("views", "extraction"), extractor=extractor)
    # As it stands once a worker ran: what comes from now on is read.
    await Topology(broker, durables_of_roles(broker, ("extraction",), "none")).ensure()
    await workers.open()
    try:
        memory = await opted.remember(TEXT)

        async def proposed() -> bool:
            return len((await opted.reviewing.list(opted.caller, {"kind": "fact"})).proposals) == 2

        await eventually(proposed, "its facts are proposed")
    finally:
        await workers.close()
    assert TEXT in chat.texts and {one.memory_id for one in await queue(opted)} == {memory}
    assert before not in {one.memory_id for one in await records(opted)}


async def test_without_an_extractor_the_role_takes_nothing_from_the_broker(opted, broker):
    workers = Workers(opted.engine, broker=broker, roles=("extraction",))
    await workers.open()
    await workers.close()
    [durable, _] = durables_of_roles(broker, ("extraction",), "none")
    drift = await Topology(broker, [durable]).drift()
    assert any(durable.name in one and one.endswith("is missing") for one in drift)


async def test_a_text_that_is_answered_badly_again_and_again_is_set_aside_and_the_others_go_on(
    opted, broker, carried, chat, extracting
):
    chat.says = lambda text: answer(b"no JSON") if "secret" in text else told(text)
    await opted.remember(f"{TEXT} A secret one.")
    good = await opted.remember(TEXT)
    await opted.catch_up()
    consumers = Consumers(broker, opted.engine.log.decode)
    policy = RetryPolicy(max_deliveries=2, delays=(0.05,), ack_wait=5)
    await consumers.open(
        [EventSubscription("reading", ("memory.remembered",), extracting.on_remembered, policy=policy)]
    )

    async def done() -> bool:
        await opted.catch_up()
        return consumers.rule.outcomes["reading", "parked"] == 1 and len(await queue(opted)) == 2

    await eventually(done, "one is parked, the other proposed")
    await consumers.close()
    assert {one.memory_id for one in await queue(opted)} == {good}
    assert len([text for text in chat.texts if "secret" in text]) == 2, "tried as often as the policy says"
