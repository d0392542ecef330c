"""Reading one memory for facts because somebody asks for it."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from ...domain.errors import KeyReused, Misconfigured
from ...domain.events import ExtractionRecorded
from ...domain.extraction import FactExtractor
from ...domain.fields import CommandKey as KeyText
from ...domain.fields import Id, Input, parse
from ...domain.memory_rules import refuse_unless_live
from ...streams.ids import new_id
from ...streams.log import KeyTaken
from ..access.caller import Caller
from ..command_keys import command_key
from ..engine import Engine
from ..memories import MemoryCommands
from .extracting import Extracting, Task
from .views import ExtractionView


class ExtractFacts(Input):
    """Which memory to read."""

    memory_id: Id
    key: KeyText | None = None


class ExtractingByHand:
    """Reads memories for one caller's tenant; without an extractor it says so."""

    def __init__(self, engine: Engine, extractor: FactExtractor | None) -> None:
        self._engine = engine
        self._extractor = extractor
        self._memories = MemoryCommands(engine)

    async def extract(self, caller: Caller, arguments: Mapping[str, Any]) -> ExtractionView:
        """Read a memory, and give what was proposed.

        Raises `Misconfigured` without an extractor, `NotFound`, `Conflict` for a memory that is not live or a
        tenant that does not allow it, `BudgetExceeded`, and what an extractor raises.
        """
        caller.require("memory:write")
        command = parse(ExtractFacts, arguments)
        key = await command_key(self._engine.vault, caller.tenant, command, command.key, "extract")
        if command.key is not None:
            earlier = await self._engine.log.find_command(caller.tenant, key)
            if isinstance(earlier, KeyTaken):
                raise KeyReused("this command key was used for another command; use a new key for a new command")
            if earlier is not None:
                return await self._view(caller.tenant, earlier.subject)
        memory = await self._memories.load(caller.tenant, command.memory_id)
        refuse_unless_live(memory, "read for facts")
        if self._extractor is None:
            raise Misconfigured(
                "no extractor is configured; set LETHELOG_EXTRACTOR_URL and LETHELOG_EXTRACTOR_MODEL",
                setting="LETHELOG_EXTRACTOR_URL",
            )
        read = new_id()
        task = Task(caller.tenant, memory.id, read, caller.actor, read, key)
        return await self._view(caller.tenant, await Extracting(self._engine, self._extractor).read(task, memory))

    async def _view(self, tenant: UUID, extraction: UUID) -> ExtractionView:
        [recorded] = await self._engine.log.read_stream(tenant, extraction)
        said = recorded.event
        assert isinstance(said, ExtractionRecorded)
        return ExtractionView(
            id=extraction,
            memory_id=said.memory_id,
            extractor=said.extractor,
            model=said.model,
            outcome=said.outcome,
            proposals=said.proposals,
            already_there=said.already_there,
            dropped=said.dropped,
            position=recorded.position,
        )
