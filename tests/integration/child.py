"""A process of its own for a test that kills it, or lets several of them meet. One job; tells what it did, line by line.

Arguments: the job, and what it needs as JSON.
"""

import asyncio
import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from lethelog.domain.errors import Conflict, LethelogError
from lethelog.handlers.access.caller import Caller
from lethelog.handlers.archive import importing
from lethelog.handlers.engine import Engine, open_engine
from lethelog.handlers.extracting.chat_extractor import ChatExtractor
from lethelog.handlers.extracting.extracting import Extracting
from lethelog.handlers.extracting.settings import ExtractorSettings
from lethelog.handlers.forgetting.judge_worker import JudgeWorker
from lethelog.handlers.forgetting.settings import task_queue
from lethelog.handlers.memories import MemoryCommands, Retry
from lethelog.handlers.operating.workers import JUDGE_POLICY
from lethelog.handlers.sessions.closer import Closer
from lethelog.handlers.webhooks.settings import WebhookSettings
from lethelog.handlers.webhooks.worker import WebhookWorker
from lethelog.projections import runner
from lethelog.projections.embedders import open_embedder
from lethelog.projections.projection import Projection
from lethelog.projections.rebuild import Rebuilder
from lethelog.projections.replay import Replayer
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
from lethelog.streams.subscriber_kit import Erased, subscribe
from lethelog.streams.subscriptions import EventSubscription, TaskSubscription


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


async def import_archive(given: dict[str, Any]) -> None:
    """Read an archive in by small units; waits for good before the one after ``units``, or that with ``hold_at``."""
    importing._EVENTS = 5
    engine, caller, _ = await opened(given)
    append, left = engine.log.append, given["units"]

    async def counted(unit: Any) -> Any:
        nonlocal left
        if not left or given.get("hold_at") == unit.events[0].event.NAME:
            tell(holding=True)
            await asyncio.Event().wait()
        left -= 1
        return await append(unit)

    engine.log.append = counted
    await importing.Importing(engine).import_archive(caller, Path(given["archive"]))


async def send_webhooks(given: dict[str, Any]) -> None:
    """Send what is due to webhooks, until killed."""
    settings = WebhookSettings(allow_private=True, timeout=30.0)
    engine = await open_engine(given["database_url"], Keyring.of(b"m" * 32), open_embedder(), webhooks=settings)
    tell(sending=True)
    await WebhookWorker(engine).run()


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
    engine, view = await viewed(given)
    leader = ProjectionRunner(engine.database, engine.log, engine.tail, view)
    running = asyncio.ensure_future(leader.run())
    await _tell_when(running, leader.leadership.still_held)


async def rebuild(given: dict[str, Any]) -> None:
    """Build a read model anew."""
    engine, view = await viewed(given)
    tell(ready=True)
    await Rebuilder(engine.database, engine.log, engine.tail, view).rebuild()
    tell(rebuilt=True)


async def compare(given: dict[str, Any]) -> None:
    """Hold a read model against its rebuild."""
    engine, view = await viewed(given)
    await Rebuilder(engine.database, engine.log, engine.tail, view).compare()


async def replay(given: dict[str, Any]) -> None:
    """Write all read models into the schema of the replay ``may``."""
    engine, _ = await viewed(given)
    replayer = Replayer(engine.database, engine.log, engine.tail, engine.projections)
    await replayer.replay("may", await engine.log.head(), datetime.now(UTC))


async def viewed(given: dict[str, Any]) -> tuple[Engine, Projection]:
    """An engine, and the read model that is named; it never ends the page that holds the position ``hold``."""
    runner.LARGEST_PAGE = 10
    engine = await open_engine(given["database_url"], Keyring.of(b"m" * 32), open_embedder())
    view = engine.projection(given["view"])
    assert view is not None
    return engine, _held(view, given["hold"]) if given.get("hold") else view


def _held(view: Any, position: int) -> Any:
    apply, loading = view.apply, view.loading

    async def held(connection: Any, schema: str, page: Any, prepared: Any) -> None:
        await apply(connection, schema, page, prepared)
        if page[0].position <= position <= page[-1].position:
            tell(holding=True)
            await asyncio.Event().wait()

    view.apply = held
    view.loading = lambda start, target: _held(loading(start, target), position)
    return view


async def judge(given: dict[str, Any]) -> None:
    """Judge tasks, and end without any clean-up at the point ``fatal``."""
    # A script has no package around it, so what tests share is found beside it.
    sys.path.insert(0, str(Path(__file__).parent))
    from passes import ToldJudge, pass_settings, sure

    async def checkpoint(point: str) -> None:
        if point == given["fatal"]:
            os._exit(9)

    engine = await open_engine(given["database_url"], Keyring.of(b"m" * 32), open_embedder())
    settings = pass_settings(ToldJudge(sure("archive")))
    worker = JudgeWorker(engine, settings, checkpoint=checkpoint)
    consumers = Consumers(BrokerSettings(given["broker_url"], given["prefix"]), engine.log.decode)
    queue = task_queue(settings.judge.identity)
    await consumers.open([TaskSubscription(queue, worker.handle, policy=JUDGE_POLICY)])
    await asyncio.Event().wait()


async def close_sessions(given: dict[str, Any]) -> None:
    """Look at sessions once, and end without any clean-up at the point ``fatal``."""
    sys.path.insert(0, str(Path(__file__).parent))
    from passes import ToldCloser

    async def checkpoint(point: str) -> None:
        if point == given["fatal"]:
            os._exit(9)

    engine = await open_engine(given["database_url"], Keyring.of(b"m" * 32), open_embedder())
    await Closer(engine, ToldCloser(sure=0.95), checkpoint=checkpoint).look()


async def extract(given: dict[str, Any]) -> None:
    """Read new memories for facts, and end without any clean-up at the point ``fatal``."""

    async def checkpoint(point: str) -> None:
        if point == given["fatal"]:
            os._exit(9)

    engine = await open_engine(given["database_url"], Keyring.of(b"m" * 32), open_embedder())
    extractor = ChatExtractor(ExtractorSettings(base_url=given["endpoint"], model="told-1", max_attempts=1))
    reading = Extracting(engine, extractor, checkpoint=checkpoint)
    consumers = Consumers(BrokerSettings(given["broker_url"], given["prefix"]), engine.log.decode)
    await consumers.open([EventSubscription("extraction", ("memory.remembered",), reading.on_remembered)])
    await asyncio.Event().wait()


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


async def subscriber(given: dict[str, Any]) -> None:
    """A subscriber whose read model holds everything up to a position; tells what it is to erase.

    With ``hangs`` it erases and never comes to saying so.
    """

    async def apply(event: RecordedEvent) -> None:
        tell(applied=event.position)

    async def erase(erased: Erased) -> None:
        tell(erasure=erased.erasure, memories=erased.memories)
        if given["hangs"]:
            await asyncio.Event().wait()

    await subscribe(
        BrokerSettings(given["broker_url"], given["prefix"]),
        given["durable"],
        ["memory.*"],
        apply,
        position=lambda: given["position"],
        policy=RetryPolicy(ack_wait=1),
        erased=erase,
    )


async def _tell_when(running: "asyncio.Future[Any]", leads: Any) -> None:
    tell(ready=True)
    while not running.done():
        if await leads():
            tell(leading=True)
            break
        await asyncio.sleep(0.02)
    await running


JOBS = {
    job.__name__: job
    for job in (
        write,
        import_archive,
        remember_alike,
        revise,
        project,
        rebuild,
        compare,
        replay,
        relay,
        consume,
        judge,
        close_sessions,
        extract,
        subscriber,
        send_webhooks,
    )
}

try:
    asyncio.run(JOBS[sys.argv[1]](json.loads(sys.argv[2])))
except LethelogError as error:
    tell(error=error.code, message=error.message)
