"""Does the log still say what was written? One log holds all tenants, so this is for who administers them."""

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from pydantic import Field

from ...domain.errors import InvalidInput
from ...domain.fields import Input, parse
from ...projections.rebuild import Report
from ...streams import audit
from ...streams.audit import Checkpoint, Verification
from ..access.caller import Caller
from ..engine import Engine

AnyCheckpoint = Checkpoint | str | PathLike[str]
"""A checkpoint, or the file that one was written to."""


class VerifyQuery(Input):
    """From which commit on."""

    from_position: int = Field(default=1, ge=1, le=2**62, strict=True)


class Audit:
    """Verifies, and gives what proves it later."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def verify(
        self, caller: Caller, arguments: Mapping[str, Any], checkpoint: AnyCheckpoint | None, report: Report
    ) -> Verification:
        """Recompute the hash chain from the commit that holds ``from_position`` on, and compare with a checkpoint.

        Raises `InvalidInput` for a position that the log does not have, and a checkpoint that is none.
        """
        caller.require("installation:admin")
        first = parse(VerifyQuery, arguments).from_position
        known = _opened(checkpoint)
        head = await self._engine.log.head()
        if first > max(head, 1):
            raise InvalidInput("from_position", f"is beyond the end of the log, which is at position {head}")
        return await audit.verify(self._engine.database, first=first, known=known, report=report)

    async def checkpoint(self, caller: Caller) -> Checkpoint:
        """What the log says now. Raises `Misconfigured` for an empty log."""
        caller.require("installation:admin")
        return await audit.checkpoint(self._engine.database)


def _opened(checkpoint: AnyCheckpoint | None) -> Checkpoint | None:
    if checkpoint is None or isinstance(checkpoint, Checkpoint):
        return checkpoint
    if not isinstance(checkpoint, str | PathLike):  # pyright: ignore[reportUnnecessaryIsInstance] - not all are typed
        raise InvalidInput("checkpoint", "must be a checkpoint, or the file that one was written to")
    return Checkpoint.read(Path(checkpoint))
