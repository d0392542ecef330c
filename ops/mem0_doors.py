"""Opening a memory in the shape of mem0: what ``from lethelog import Mem0Memory, AsyncMem0Memory`` gives."""

from collections.abc import Mapping
from typing import Any, Self

from ..handlers.blocking import BlockingMemory
from ..handlers.facades.mem0_blocking import BlockingMem0
from ..handlers.facades.mem0_door import InferPolicy, Mem0Door
from ..handlers.facades.mem0_settings import Mem0Settings, read_config
from ..handlers.memory import AsyncMemory as AsyncDoor
from .local import AsyncMemory, Memory


class Mem0Memory(BlockingMem0):
    """mem0's ``Memory`` on Lethelog: over a memory that is open, or over the one in the data directory.

    ``llm={"model": …, "base_url": …, "api_key": …}`` is the model that ``add(infer=True)`` asks, any that speaks
    OpenAI's format; without it there is ``infer=False``. With ``infer_policy="stage"`` each message is remembered
    as it is, and facts in it are for the tenant's extractor to propose. Raises `Misconfigured`.
    """

    def __init__(
        self,
        memory: BlockingMemory | None = None,
        *,
        llm: Mapping[str, Any] | None = None,
        custom_instructions: str | None = None,
        infer_policy: InferPolicy = "remember",
        **settings: Any,
    ) -> None:
        chosen = Mem0Settings(llm, custom_instructions)
        super().__init__(
            (lambda: Memory.local(**settings)) if memory is None else lambda: memory,
            chosen.model(),
            custom_instructions,
            infer_policy,
            owned=memory is None,
        )

    @classmethod
    def from_config(cls, config_dict: Mapping[str, Any]) -> Self:
        """From a configuration of mem0: its ``llm`` and ``custom_instructions`` are used, and under ``lethelog``
        the settings of `Memory.local`; of the rest a warning says that it is not."""
        chosen = read_config(config_dict)
        return cls(llm=chosen.llm, custom_instructions=chosen.instructions, **(chosen.lethelog or {}))


class AsyncMem0Memory(Mem0Door):
    """mem0's ``AsyncMemory`` on Lethelog; see `Mem0Memory`. The memory is opened by the first call."""

    def __init__(
        self,
        memory: AsyncDoor | None = None,
        *,
        llm: Mapping[str, Any] | None = None,
        custom_instructions: str | None = None,
        infer_policy: InferPolicy = "remember",
        **settings: Any,
    ) -> None:
        self._owned = memory is None

        async def opened() -> AsyncDoor:
            return await AsyncMemory.local(**settings) if memory is None else memory

        super().__init__(opened, Mem0Settings(llm, custom_instructions).model(), custom_instructions, infer_policy)

    @classmethod
    def from_config(cls, config_dict: Mapping[str, Any]) -> Self:
        """See `Mem0Memory.from_config`."""
        chosen = read_config(config_dict)
        return cls(llm=chosen.llm, custom_instructions=chosen.instructions, **(chosen.lethelog or {}))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close what was opened here."""
        await super().close()
        if self._owned and self._memory is not None:
            await self._memory.close()
