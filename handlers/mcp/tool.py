"""What a tool is."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import mcp_types as wire

from ...domain.fields import Input, parse
from .answers import Answer
from .schemas import takes

if TYPE_CHECKING:
    from ..arguments import WrittenFields
    from ..memory import AsyncMemory


@dataclass(frozen=True)
class Call:
    """One call of a tool."""

    memory: "AsyncMemory"
    given: dict[str, Any]
    """The arguments that were given, checked for their shape."""
    provenance: Callable[[], Awaitable["WrittenFields"]]
    """What a write names as the session that it is made in; nothing where sessions are off."""

    async def written_in(self, command: type[Input], **arguments: Any) -> "WrittenFields":
        """The session of a write. None is opened for arguments that the command itself refuses: `InvalidInput`."""
        parse(command, arguments)
        return await self.provenance()


@dataclass(frozen=True)
class Tool:
    """One tool, and what its client is told about it."""

    name: str
    says: str
    takes: type[Input]
    gives: dict[str, Any]
    run: Callable[[Call], Awaitable[Answer]]
    reads: bool = False
    """Whether it changes nothing."""
    destroys: bool = False
    """Whether it takes something out of sight, so that a client asks its user first. Nothing is ever lost."""
    repeatable: bool = False
    """Whether the same call again has no further effect."""

    @property
    def declared(self) -> wire.Tool:
        """As the protocol tells it."""
        # What is left out is as the protocol presumes; a tool that reads need not say that it destroys nothing.
        hints = wire.ToolAnnotations(
            read_only_hint=True if self.reads else None,
            destructive_hint=None if self.reads else self.destroys,
            idempotent_hint=True if self.reads or self.repeatable else None,
            open_world_hint=False,
        )
        return wire.Tool(
            name=self.name,
            description=self.says,
            input_schema=takes(self.takes),
            output_schema=self.gives,
            annotations=hints,
        )
