"""The methods of mem0 2.x on Lethelog, asyncio: ``from lethelog import AsyncMem0Memory``.

Arguments, keys of answers and errors are mem0's; where they differ is told in docs/how-to/mem0.md.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any, Literal, get_args

from ...domain.errors import InvalidInput, Misconfigured
from ...domain.fields import TRUST_ORDER
from ...domain.ranking import Legs
from ..access.caller import Caller
from ..arguments import AnyInstant
from ..memory import AsyncMemory
from ..operating.views import Written
from . import mem0_arguments as given
from .behind import memory_behind
from .fact_asking import FactAsking
from .fact_model import FactModel
from .mem0_reading import Mem0Reading, unexpired
from .mem0_writing import Mem0Writing, deleted, result

InferPolicy = Literal["remember", "stage"]
"""What ``infer=True`` does: remember what a model finds, or each message as it is, in which the tenant's extractor
finds facts that it puts before a reviewer."""


class Mem0Door:
    """mem0's methods over a memory that is opened when it is first needed."""

    def __init__(
        self,
        opened: Callable[[], Awaitable[AsyncMemory]],
        model: FactModel | None = None,
        instructions: str | None = None,
        infer_policy: InferPolicy = "remember",
    ) -> None:
        if infer_policy not in get_args(InferPolicy):
            raise InvalidInput("infer_policy", "must be remember or stage")
        self._infer_policy = infer_policy
        self._open = opened
        self._opening = asyncio.Lock()
        self._memory: AsyncMemory | None = None
        self._model = model
        self._instructions = instructions

    async def memory(self) -> AsyncMemory:
        """The memory behind, with everything that mem0 has no word for."""
        async with self._opening:
            if self._memory is None:
                self._memory = memory_behind(await self._open())
                self._reading = Mem0Reading(self._memory.engine)
                self._writing = Mem0Writing(self._memory.engine, self._reading)
                self._asking = FactAsking(self._memory.engine, self._reading)
            return self._memory

    async def add(
        self,
        messages: Any,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        metadata: dict[str, Any] | None = None,
        timestamp: Any = None,
        expiration_date: Any = None,
        infer: bool = True,
        memory_type: str | None = None,
        prompt: str | None = None,
    ) -> dict[str, Any]:
        """Remember a conversation: what a model finds worth it, or with ``infer=False`` each message as it is.

        ``infer=True`` needs a model (``llm`` of the constructor or of `from_config`), unless the policy is to
        ``stage``. A text that these owners have already is found and not written again; its event is ``NONE``.
        """
        _refuse_unsupported(timestamp, memory_type)
        owners = given.owners({"user_id": user_id, "agent_id": agent_id, "run_id": run_id})
        if not owners:
            raise given.RefusedInput("user_id", "is missing, and so are agent_id and run_id", "Give one of them")
        day, said, taken = given.expiration(expiration_date), given.metadata(metadata), given.messages(messages)
        memory = await self.memory()
        if not infer or self._infer_policy == "stage":
            return await self._add_as_said(memory, taken, owners, said, day)
        model = self._needed_model()
        caller = await memory.caller()
        caller.require("memory:write")
        wanted = "\n\n".join(filter(None, (self._instructions, prompt))) or None
        facts = await self._asking.facts(caller, model, taken, owners, wanted, memory.position)
        trust = min(caller.trust, "agent", key=TRUST_ORDER.index)
        found: list[dict[str, Any]] = []
        for fact in facts:
            kept = {"expiration_date": day, "inferred_by": model.name}
            written = await self._writing.remember(caller, fact, owners, said, kept, producer="agent", trust=trust)
            self._reached(memory, written.position)
            # As with mem0, what was known already is no result.
            if not written.deduplicated:
                found.append(result(written))
        return {"results": found}

    async def get(
        self, memory_id: str, *, known_at: AnyInstant | int | None = None, valid_at: AnyInstant | None = None
    ) -> dict[str, Any] | None:
        """A memory; None for one that there is not, or that was deleted."""
        memory = await self.memory()
        return await self._reading.get(await memory.caller(), memory_id, _times(memory, known_at, valid_at))

    async def get_all(
        self,
        *,
        filters: dict[str, Any] | None = None,
        top_k: int = 20,
        show_expired: bool = False,
        known_at: AnyInstant | int | None = None,
        valid_at: AnyInstant | None = None,
        **others: Any,
    ) -> dict[str, Any]:
        """The newest memories of a user, agent or run; ``total`` says how many there are."""
        wanted, limit = given.filters(filters, "get_all", others), given.top_k(top_k)
        memory = await self.memory()
        times = _times(memory, known_at, valid_at)
        return await self._reading.get_all(await memory.caller(), wanted, limit, unexpired(show_expired), times)

    async def search(
        self,
        query: str,
        *,
        top_k: int = 20,
        filters: dict[str, Any] | None = None,
        threshold: float | None = 0.1,
        rerank: bool = False,
        explain: bool = False,
        reference_date: Any = None,
        show_expired: bool = False,
        known_at: AnyInstant | int | None = None,
        valid_at: AnyInstant | None = None,
        **others: Any,
    ) -> dict[str, Any]:
        """The best matches among the memories of a user, agent or run. ``rerank`` does nothing here."""
        if reference_date is not None:
            raise given.RefusedInput("reference_date", "is not taken", "Use valid_at or known_at")
        wanted, limit = given.filters(filters, "search", others), given.top_k(top_k)
        least = given.threshold(threshold)
        memory = await self.memory()
        found = await self._reading.search(
            await memory.caller(),
            query,
            wanted,
            limit,
            least,
            unexpired(show_expired),
            _times(memory, known_at, valid_at),
        )
        if not explain:
            return {"results": [one for one, _ in found]}
        return {"results": [{**one, "score_details": _details(hit.legs)} for one, hit in found]}

    async def update(
        self,
        memory_id: str,
        text: str | None = None,
        metadata: dict[str, Any] | None = None,
        expiration_date: Any = given.UNSET,
        data: str | None = None,
    ) -> dict[str, Any]:
        """Write the successor of a memory, which keeps its id here. What was there stays in the history.

        Raises `UnknownMemory` (a ``ValueError``).
        """
        memory = await self.memory()
        written = await self._writing.update(
            await memory.caller(),
            memory_id,
            data if text is None else text,
            metadata,
            expiration_date,
            memory.position,
        )
        self._reached(memory, written.position)
        return {
            "message": "Memory updated successfully!",
            "predecessor": str(written.memory.predecessor),
            "successor": str(written.memory.id),
        }

    async def delete(self, memory_id: str) -> dict[str, Any]:
        """Archive a memory, which `Memory.restore` takes back. Raises `UnknownMemory` (a ``ValueError``)."""
        memory = await self.memory()
        position, events = await self._writing.delete(await memory.caller(), memory_id, memory.position)
        self._reached(memory, position)
        return deleted("Memory deleted successfully!", events, 0)

    async def delete_all(
        self, user_id: str | None = None, agent_id: str | None = None, run_id: str | None = None
    ) -> dict[str, Any]:
        """Archive every memory of a user, agent or run, however many."""
        owners = given.owners({"user_id": user_id, "agent_id": agent_id, "run_id": run_id})
        if not owners:
            raise given.RefusedInput(
                "user_id", "is missing, and so are agent_id and run_id", "To delete everything use reset"
            )
        return await self._delete_all(owners)

    async def history(self, memory_id: str, *, known_at: AnyInstant | int | None = None) -> list[dict[str, Any]]:
        """What happened to a memory, oldest first: mem0's keys, and where each event is found on record."""
        memory = await self.memory()
        return await self._reading.history(await memory.caller(), memory_id, _times(memory, known_at, None))

    async def reset(self) -> dict[str, Any]:
        """Archive every memory that was added through this facade in this tenant."""
        return await self._delete_all(None)

    async def close(self) -> None:
        """Close what was opened here."""
        if self._model is not None:
            await self._model.close()

    async def chat(self, query: str) -> None:
        """Not there, as it is not in mem0."""
        raise NotImplementedError("there is no chat; search, and give what is found to your model")

    async def _add_as_said(
        self,
        memory: AsyncMemory,
        messages: list[Mapping[str, Any]],
        owners: Mapping[str, str],
        metadata: Mapping[str, Any],
        day: str | None,
    ) -> dict[str, Any]:
        caller = await memory.caller()
        found: list[dict[str, Any]] = []
        for one in messages:
            role, actor = one["role"], one.get("name") or None
            if role == "system":
                continue
            kept = {"role": role, "actor_id": actor, "expiration_date": day}
            written = await self._writing.remember(caller, one["content"], owners, metadata, kept)
            self._reached(memory, written.position)
            found.append(await self._known_by(memory, caller, written, {"actor_id": actor, "role": role}))
        return {"results": found}

    async def _known_by(
        self, memory: AsyncMemory, caller: Caller, written: Written, more: Mapping[str, Any]
    ) -> dict[str, Any]:
        said = result(written, **more)
        if not written.deduplicated:
            return said
        line = await self._reading.get(caller, written.memory.id, _times(memory, None, None))
        return said if line is None else {**said, "id": line["id"]}

    async def _delete_all(self, owners: Mapping[str, str] | None) -> dict[str, Any]:
        memory = await self.memory()
        position, events, left = await self._writing.delete_all(await memory.caller(), owners, memory.position)
        self._reached(memory, position)
        return deleted("Memories deleted successfully!", events, left)

    def _needed_model(self) -> FactModel:
        if self._model is None:
            raise Misconfigured(
                "infer=True needs a model, and none is set: give llm={'model': …, 'base_url': …, 'api_key': …} or "
                "llm in from_config, or add with infer=False, which needs none",
                setting="llm",
            )
        return self._model

    def _reached(self, memory: AsyncMemory, position: int) -> None:
        memory.position = max(memory.position, position)


def _times(
    memory: AsyncMemory, known_at: datetime | str | int | None, valid_at: datetime | str | None
) -> dict[str, Any]:
    if known_at is None:
        return {"after": memory.position} if valid_at is None else {"after": memory.position, "valid_at": valid_at}
    return {"known_at": known_at} if valid_at is None else {"known_at": known_at, "valid_at": valid_at}


def _details(legs: Legs) -> dict[str, float]:
    return {"text": legs.text, "vector": legs.vector, "topic": legs.topic}


def _refuse_unsupported(timestamp: object, memory_type: object) -> None:
    if timestamp is not None:
        raise given.RefusedInput("timestamp", "is not taken", "Use import_memory with occurred_at")
    if memory_type is not None:
        raise given.RefusedInput("memory_type", "is not taken: procedural memories are not made here")
