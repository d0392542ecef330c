"""A process of its own for a test that kills it, or lets several of them meet. One job; tells what it did, line by line.

Arguments: the job, and what it needs as JSON.
"""

import asyncio
import json
import sys
from typing import Any
from uuid import UUID

from lethelog.domain.errors import Conflict, LethelogError
from lethelog.handlers.caller import Caller
from lethelog.handlers.engine import Engine, open_engine
from lethelog.handlers.memories import MemoryCommands, Retry
from lethelog.projections.embedders import open_embedder
from lethelog.projections.runner import ProjectionRunner
from lethelog.streams.broker import BrokerSettings
from lethelog.streams.closed import decode_closed
from lethelog.streams.consumers import Consumers
from lethelog.streams.database import Database
from lethelog.streams.handling import RetryPolicy
from lethelog.streams.master_keys import Keyring
from lethelog.streams.payloads import Actor, RecordedEvent
from lethelog.streams.reader import LogTail
from lethelog.streams.relay import Relay
from lethelog.streams.subscriptions import EventSubscription


def tell(**said: Any) -> None:
    sys.stdout.write(json.dumps(said, default=str) + "\n")
    sys.stdout.flush()


async def opened(given: dict[str, Any]) -> tuple[Engine, Caller, MemoryCommands]:
    engine = await open_engine(given["database_url"], Keyring.of(b"m" * 32), open_embedder())
    return engine, Caller(UUID(given["tenant"]), Actor("person", UUID(given["actor"]))), MemoryCommands(engine)


async def write(given: dict[str, Any]) -> None:
    """Remember numbered texts, all at once, each under a key of its own; tells each acknowledgement."""
    engine, caller, commands = await opened(given)

    async def one(number: int) -> None:
        text = {"topic": f"write {number}", "content": f"This is write number {number}"}
        written = await commands.remember(caller, text, Retry(f"key {number}"))
        tell(number=number, id=written.memory.id)

    for first, last in given["batches"]:
        await asyncio.gather(*(one(number) for number in range(first, last)))
        tell(upto=last)
    await engine.close()


async def remember_alike(given: dict[str, Any]) -> None:
    """Remember one sentence several times at once."""
    engine, caller, commands = await opened(given)
    text = {"topic": "deploys", "content": "Deploys go to Hetzner"}
    for written in await asyncio.gather(*(commands.remember(caller, text) for _ in range(given["count"]))):
        tell(id=written.memory.id, changed=written.changed)
    await engine.close()


async def revise(given: dict[str, Any]) -> None:
    """Revise a version of a memory."""
    engine, caller, commands = await opened(given)
    change = {"memory_id": given["memory"], "content": given["content"], "expected_version": given["version"]}
    try:
        tell(id=(await commands.revise(caller, change)).memory.id)
    except Conflict as conflict:
        tell(conflict=conflict.details)
    await engine.close()


async def project(given: dict[str, Any]) -> None:
    """Lead a read model, or stand by; tells which."""
    engine, _, _ = await opened(given)
    [view] = [one for one in engine.projections if one.name == given["view"]]
    runner = ProjectionRunner(engine.database, engine.log, engine.tail, view)
    running = asyncio.ensure_future(runner.run())
    await _tell_when(running, runner.leadership.still_held)


async def relay(given: dict[str, Any]) -> None:
    """Carry the log to the broker, or stand by; tells which."""
    database = Database(given["database_url"])
    await database.open()
    tail = LogTail(database)
    await tail.open()
    carrying = Relay(database, tail, BrokerSettings(given["broker_url"], given["prefix"]))
    await carrying.open()

    async def leads() -> bool:
        return carrying.leading

    await _tell_when(asyncio.ensure_future(asyncio.Event().wait()), leads)


async def consume(given: dict[str, Any]) -> None:
    """Take events of a durable and never finish with one; tells which it has."""

    async def handle(event: RecordedEvent) -> None:
        tell(begun=event.version, of=event.stream)
        await asyncio.Event().wait()

    consumers = Consumers(BrokerSettings(given["broker_url"], given["prefix"]), decode_closed)
    policy = RetryPolicy(ack_wait=given["ack_wait"])
    await consumers.open([EventSubscription(given["durable"], ("*",), handle, policy=policy)])
    tell(ready=True)
    await asyncio.Event().wait()


async def _tell_when(running: "asyncio.Future[Any]", leads: Any) -> None:
    tell(ready=True)
    while not running.done():
        if await leads():
            tell(leading=True)
            break
        await asyncio.sleep(0.02)
    await running


JOBS = {job.__name__: job for job in (write, remember_alike, revise, project, relay, consume)}

try:
    asyncio.run(JOBS[sys.argv[1]](json.loads(sys.argv[2])))
except LethelogError as error:
    tell(error=error.code, message=error.message)
