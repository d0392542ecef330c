"""One memory, open for a whole module, and doors of tenants of their own to it."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from lethelog import Memory
from lethelog.handlers.access.caller import Caller
from lethelog.handlers.blocking import BlockingMemory
from lethelog.handlers.forgetting.settings import PassSettings
from lethelog.handlers.judges.none import NoJudge
from lethelog.handlers.memory import AsyncMemory
from lethelog.ops.local import open_memory
from lethelog.ops.settings import Settings
from lethelog.streams.payloads import Actor

from ..conftest import TestServers, fresh_database
from .conftest import HeldClock


class OfTenant(BlockingMemory):
    """The door of one tenant to a memory that is open already."""

    def __init__(self, whole: BlockingMemory, caller: Caller, position: int = 0) -> None:
        self._loop = whole._loop
        self.asyncio = self._door = AsyncMemory(
            whole.asyncio.engine, caller, PassSettings(NoJudge(), None, 0.0), position=position
        )


@dataclass
class Opened:
    """A memory, and the clock that it goes by."""

    memory: BlockingMemory
    clock: HeldClock

    def tenant(self, **given: Any) -> OfTenant:
        """A tenant of its own."""
        caller = Caller(uuid4(), Actor("person", uuid4()), **given)
        engine = self.memory.asyncio.engine
        self.memory.run(engine.tenants.ensure(caller.tenant, caller.actor))
        return OfTenant(self.memory, caller)


@contextmanager
def opened_memory(
    servers: TestServers, template: str, drop: Callable[[str], None], folder: Path
) -> Generator[Opened]:
    """A memory over a fresh database that keeps its read models up to date, until the block ends."""
    clock = HeldClock()
    with fresh_database(servers, template, drop) as url:
        settings = Settings.load(
            data_dir=folder,
            database_url=url,
            broker_url=servers.broker_url,
            broker_prefix=f"t{uuid4().hex[:12]}",
        )
        with Memory(lambda: open_memory(settings, ("views",), clock=clock)) as memory:
            yield Opened(memory, clock)
