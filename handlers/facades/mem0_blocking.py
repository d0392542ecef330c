"""The methods of mem0 2.x for programs without asyncio: ``from lethelog import Mem0Memory``."""

from collections.abc import Callable, Coroutine
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeVar

from ...domain.errors import Unavailable
from ..arguments import AnyInstant
from ..blocking import BlockingMemory
from ..memory import AsyncMemory
from . import mem0_arguments as given
from .behind import memory_behind
from .fact_model import FactModel
from .mem0_door import InferPolicy, Mem0Door

T = TypeVar("T")


class BlockingMem0:
    """Waits for each answer of `Mem0Door`. ``opened`` says how to open the memory when it is first needed."""

    def __init__(
        self,
        opened: Callable[[], BlockingMemory],
        model: FactModel | None = None,
        instructions: str | None = None,
        infer_policy: InferPolicy = "remember",
        *,
        owned: bool = True,
    ) -> None:
        self._memory = opened()
        self._behind = memory_behind(self._memory)
        self._owned = owned
        self._closed = False
        self._door = Mem0Door(self._inside, model, instructions, infer_policy)

    @property
    def memory(self) -> BlockingMemory:
        """The memory behind, with everything that mem0 has no word for."""
        return self._memory

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close what was opened here. May be called twice."""
        if not self._closed:
            self._closed = True
            # A memory that was closed before took its connections along.
            with suppress(Unavailable):
                self._run(self._door.close())
        if self._owned:
            self._memory.close()

    def add(
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
        """See `Mem0Door.add`."""
        return self._run(
            self._door.add(
                messages,
                user_id=user_id,
                agent_id=agent_id,
                run_id=run_id,
                metadata=metadata,
                timestamp=timestamp,
                expiration_date=expiration_date,
                infer=infer,
                memory_type=memory_type,
                prompt=prompt,
            )
        )

    def get(
        self, memory_id: str, *, known_at: AnyInstant | int | None = None, valid_at: AnyInstant | None = None
    ) -> dict[str, Any] | None:
        """See `Mem0Door.get`."""
        return self._run(self._door.get(memory_id, known_at=known_at, valid_at=valid_at))

    def get_all(
        self,
        *,
        filters: dict[str, Any] | None = None,
        top_k: int = 20,
        show_expired: bool = False,
        known_at: AnyInstant | int | None = None,
        valid_at: AnyInstant | None = None,
        **others: Any,
    ) -> dict[str, Any]:
        """See `Mem0Door.get_all`."""
        return self._run(
            self._door.get_all(
                filters=filters,
                top_k=top_k,
                show_expired=show_expired,
                known_at=known_at,
                valid_at=valid_at,
                **others,
            )
        )

    def search(
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
        """See `Mem0Door.search`."""
        return self._run(
            self._door.search(
                query,
                top_k=top_k,
                filters=filters,
                threshold=threshold,
                rerank=rerank,
                explain=explain,
                reference_date=reference_date,
                show_expired=show_expired,
                known_at=known_at,
                valid_at=valid_at,
                **others,
            )
        )

    def update(
        self,
        memory_id: str,
        text: str | None = None,
        metadata: dict[str, Any] | None = None,
        expiration_date: Any = given.UNSET,
        data: str | None = None,
    ) -> dict[str, Any]:
        """See `Mem0Door.update`."""
        return self._run(self._door.update(memory_id, text, metadata, expiration_date, data))

    def delete(self, memory_id: str) -> dict[str, Any]:
        """See `Mem0Door.delete`."""
        return self._run(self._door.delete(memory_id))

    def delete_all(
        self, user_id: str | None = None, agent_id: str | None = None, run_id: str | None = None
    ) -> dict[str, Any]:
        """See `Mem0Door.delete_all`."""
        return self._run(self._door.delete_all(user_id, agent_id, run_id))

    def history(self, memory_id: str, *, known_at: AnyInstant | int | None = None) -> list[dict[str, Any]]:
        """See `Mem0Door.history`."""
        return self._run(self._door.history(memory_id, known_at=known_at))

    def reset(self) -> dict[str, Any]:
        """See `Mem0Door.reset`."""
        return self._run(self._door.reset())

    def chat(self, query: str) -> None:
        """See `Mem0Door.chat`."""
        return self._run(self._door.chat(query))

    async def _inside(self) -> AsyncMemory:
        return self._behind

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._memory.run(work)
