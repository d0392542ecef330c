"""The methods of mem0 2.x for programs without asyncio: ``from lethelog import Mem0Memory``."""

import functools
from collections.abc import Callable, Coroutine
from contextlib import suppress
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from ...domain.errors import Unavailable
from ..blocking import BlockingMemory
from ..memory import AsyncMemory
from .behind import memory_behind
from .fact_model import FactModel
from .mem0_door import InferPolicy, Mem0Door

P = ParamSpec("P")
R = TypeVar("R")


def waiting(
    method: Callable[Concatenate[Mem0Door, P], Coroutine[Any, Any, R]],
) -> "Callable[Concatenate[BlockingMem0, P], R]":
    """The same method with the same arguments, which waits for the answer."""

    @functools.wraps(method)
    def waited(self: "BlockingMem0", /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.wait_for(lambda door: method(door, *args, **kwargs))

    return waited


class BlockingMem0:
    """Waits for each answer of `Mem0Door`. ``opened`` opens the memory, or gives one that is open."""

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
                self.wait_for(Mem0Door.close)
        if self._owned:
            self._memory.close()

    add = waiting(Mem0Door.add)
    get = waiting(Mem0Door.get)
    get_all = waiting(Mem0Door.get_all)
    search = waiting(Mem0Door.search)
    update = waiting(Mem0Door.update)
    delete = waiting(Mem0Door.delete)
    delete_all = waiting(Mem0Door.delete_all)
    history = waiting(Mem0Door.history)
    reset = waiting(Mem0Door.reset)
    chat = waiting(Mem0Door.chat)

    def wait_for(self, answer: Callable[[Mem0Door], Coroutine[Any, Any, R]]) -> R:
        """What the asyncio door answers."""
        return self._memory.run(answer(self._door))

    async def _inside(self) -> AsyncMemory:
        return self._behind
