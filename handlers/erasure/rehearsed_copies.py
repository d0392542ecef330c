"""Copies of what is rehearsed outside the database: an archive, and a message that a consumer parked."""

import asyncio
import tempfile
from pathlib import Path
from uuid import UUID

from ...domain.events import MemoryRemembered
from ...streams.broker import BrokerSettings, close, connect, jetstream, translated
from ...streams.parking_place import ParkingPlace
from ...streams.stored_messages import delete_message
from ...streams.topology import Topology
from ...streams.unhandled import Parked
from ..access.caller import Caller, Permission
from ..archive.exporting import Exporting
from ..archive.importing import Importing
from ..engine import Engine

EXPORT, PARKED = "export", "parked message"
_MAY_EXPORT: tuple[Permission, ...] = ("memory:read", "memory:import", "tenant:admin")


class RehearsedCopies:
    """Of one rehearsal, made for its caller and taken away again whatever happens."""

    def __init__(self, engine: Engine, broker: BrokerSettings | None, caller: Caller, mark: str) -> None:
        self._engine = engine
        self._broker = broker
        self._caller = caller
        self._consumer = f"rehearsal-{mark}"
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self.left_out: list[str] = []
        """What could not be made here, and why."""

    async def make(self, memory: UUID, scope: str) -> None:
        """Write an archive of the scope, and park a message about the memory."""
        missing = [one for one in _MAY_EXPORT if one not in self._caller.permissions]
        if missing:
            self.left_out.append(f"{EXPORT}: this needs {', '.join(_MAY_EXPORT)}")
        else:
            self._folder = await asyncio.to_thread(tempfile.TemporaryDirectory, prefix="lethelog-rehearsal-")
            await Exporting(self._engine).export(self._caller, self._archive, {"scope": scope})
        if self._broker is None:
            self.left_out.append(f"{PARKED}: this memory was opened without a broker")
        else:
            await self._park(self._broker, memory)

    async def count(self) -> dict[str, int]:
        """What they would bring back: memories that an import takes, and parked messages that say something."""
        counts: dict[str, int] = {}
        if self._folder is not None:
            told = await Importing(self._engine).import_archive(self._caller, self._archive, dry_run=True)
            memories = told.counts.get("memory", {})
            counts[EXPORT] = sum(memories.get(one, 0) for one in ("imported", "continued", "present"))
        if self._broker is not None:
            counts[PARKED] = await self._opened(self._broker)
        return counts

    async def remove(self) -> None:
        """Take them away."""
        if self._folder is not None:
            await asyncio.to_thread(self._folder.cleanup)
        if self._broker is not None:
            client = await connect(self._broker, name="erasure-rehearsal", reconnect=False)
            try:
                parked, _ = await ParkingPlace(client, self._broker, self._engine.database).page(
                    consumer=self._consumer
                )
                with translated():
                    for one in parked:
                        stream = self._broker.stream("parked")
                        await delete_message(jetstream(client, self._broker), stream, one.id)
            finally:
                await close(client)

    @property
    def _archive(self) -> Path:
        assert self._folder is not None
        return Path(self._folder.name) / "rehearsal.jsonl"

    async def _park(self, broker: BrokerSettings, memory: UUID) -> None:
        [first, *_] = await self._engine.log.read_stream(self._caller.tenant, memory)
        message = Parked(
            durable=self._consumer,
            subject=broker.parked_subject(self._consumer),
            stream=broker.stream("events"),
            sequence=0,
            deliveries=1,
            error="rehearsal",
            position=first.position,
            tenant=str(self._caller.tenant),
            aggregate=str(memory),
        )
        client = await connect(broker, name="erasure-rehearsal", reconnect=False)
        try:
            await Topology(broker).ensure(client)
            with translated():
                await jetstream(client, broker).publish(
                    broker.parked_subject(self._consumer), message.to_json(), stream=broker.stream("parked")
                )
        finally:
            await close(client)

    async def _opened(self, broker: BrokerSettings) -> int:
        client = await connect(broker, name="erasure-rehearsal", reconnect=False)
        try:
            place = ParkingPlace(client, broker, self._engine.database)
            parked, _ = await place.page(consumer=self._consumer)
        finally:
            await close(client)
        opened = 0
        for one in parked:
            assert one.place is not None
            events = await self._engine.log.read_stream(one.place.tenant, one.place.aggregate)
            opened += any(isinstance(it.event, MemoryRemembered) and it.event.content is not None for it in events)
        return opened
