"""What the tests of the session closer share: sessions that are over, and looks at them."""

import asyncio
from uuid import UUID

from lethelog.handlers.commitments.riding import Commitments
from lethelog.handlers.sessions.closer import Closer
from lethelog.handlers.sessions.sessions import Sessions

from .passes import ToldCloser
from .review_desk import with_views


async def promise(world, text: str = "Send the report to Ada", **fields) -> UUID:
    return await world.remember(text, memory_type="commitment", **fields)


async def over(world, *texts: str, name: str = "standup", fields=None, **given) -> UUID:
    """A session in which something was written, and that was closed."""
    sessions = Sessions(world.engine)
    run = (await sessions.open(world.caller, {"session": name, **given})).id
    for text in texts or ("The report went to Ada this morning",):
        await world.remember(text, session_run_id=run, **(fields or {}))
    await sessions.close(world.caller, {"session_run_id": run})
    await world.catch_up()
    return run


async def look(world, judge: ToldCloser, now=None, **given) -> int:
    """One look of the closer, the read models being kept up beside."""
    await world.catch_up()
    looked = await with_views(world, Closer(world.engine, judge, **given).look(now))
    await world.catch_up()
    return looked


async def status(world, memory: UUID) -> str:
    state = await Commitments(world.engine.log, world.engine.directory).of_memory(world.caller.tenant, memory)
    assert state is not None
    return state.status


async def queue(world, **query) -> list:
    await world.catch_up()
    return list((await world.reviewing.list(world.caller, {"kind": "resolution", **query})).proposals)


async def judged(world, run: UUID) -> list:
    """What the judge said after a session, as it stands on record."""
    recorded = await world.engine.log.read_stream(world.caller.tenant, run)
    return [one for one in recorded if one.name == "session.closer_judged"]


async def budget(world, judge: ToldCloser) -> tuple[int, int]:
    """Calls of today that were reserved and settled."""
    day = (await world.engine.log.now()).date()
    state = await world.engine.tenants.budget(world.caller.tenant, day)
    return len(state.reserved), len(state.settled)


async def while_asked(world, judge: ToldCloser, meanwhile) -> None:
    """A look during which something happens while the judge is asked."""
    judge.released = asyncio.Event()
    looking = asyncio.ensure_future(look(world, judge))
    await judge.asked.wait()
    await meanwhile
    judge.released.set()
    await looking
