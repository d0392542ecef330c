"""Keys of tenants, replaced while everything runs; needs ``installation:admin``."""

from collections.abc import Callable
from typing import Any, NamedTuple
from uuid import UUID

from ..domain.errors import Erased
from ..domain.fields import Input, Instant, parse
from ..streams.rotation import Rotated, Rotation
from .access.caller import Caller
from .engine import Engine

Report = Callable[[int, int], None]


class RotatedKeys(NamedTuple):
    """What came of replacing the keys of all tenants."""

    tenants: int
    data_keys: int
    """How many were wrapped anew."""


class _Rotating(Input):
    made_before: Instant | None = None


class Keys:
    """Replaces keys of tenants."""

    def __init__(self, engine: Engine) -> None:
        self._rotation = Rotation(engine.database, engine.vault)

    async def rotate(self, caller: Caller, report: Report) -> Rotated:
        """Replace the key of the caller's tenant, or finish what was broken off."""
        caller.require("installation:admin")
        return await self._rotation.rotate(caller.tenant, report)

    async def rotate_all(self, caller: Caller, arguments: dict[str, Any], report: Report) -> RotatedKeys:
        """Replace the keys of all tenants, or those made before an instant; ``report`` counts tenants."""
        caller.require("installation:admin")
        tenants = await self._rotation.tenants(parse(_Rotating, arguments).made_before)
        report(0, len(tenants))
        rotated, data_keys = 0, 0
        for number, tenant in enumerate(tenants, 1):
            done = await self._rotate_or_pass(tenant)
            if done is not None:
                rotated, data_keys = rotated + 1, data_keys + done.data_keys
            report(number, len(tenants))
        return RotatedKeys(rotated, data_keys)

    async def _rotate_or_pass(self, tenant: UUID) -> Rotated | None:
        try:
            return await self._rotation.rotate(tenant, lambda _done, _of: None)
        except Erased:
            return None
