"""The erasure ledger held against the log: what it lacks, and how that is written to it again.

A ledger that was lost is made anew from the erasures the log holds. Only ever appended to: what stands in it
stays, since it may name erasures that this database never heard of.
"""

import asyncio
from uuid import UUID

from ...streams.erasure_ledger import Entry
from ..access.caller import Caller
from ..engine import Engine
from ..operating.views import View
from .performed import ledger_entry
from .saga import ERASURE, Saga

_PAGE = 500
NAMED = 100


class LedgerView(View):
    """How the ledger stands."""

    file: str
    entries: int
    missing: tuple[UUID, ...] = ()
    """Erasures that were done, as the log says, and that it lacks; the first hundred."""
    missing_count: int = 0
    added: int = 0
    """Entries that were written to it now."""


class LedgerKeeping:
    """The ledger of the deployment; needs ``installation:admin``, since it is about all tenants."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._saga = Saga(engine)

    async def show(self, caller: Caller) -> LedgerView:
        """What it holds and what it lacks. Raises `Misconfigured` for a damaged one."""
        caller.require("installation:admin")
        return self._view(await self._missing(), 0)

    async def complete(self, caller: Caller) -> LedgerView:
        """Write to it what it lacks, as far as the log knows. Raises `Misconfigured` for a damaged one.

        An erasure that only the lost file knew of, since the database was put back from before it, stays unknown.
        """
        caller.require("installation:admin")
        missing = await self._missing()
        if missing:
            await asyncio.to_thread(self._saga.means.ledger.append, missing)
        return self._view([], len(missing))

    async def _missing(self) -> list[Entry]:
        """In the order in which they were done."""
        done: list[Entry] = []
        after: tuple[UUID, bytes] = (UUID(int=0), b"")
        while True:
            async with self._engine.database.connection() as connection:
                cursor = await connection.execute(
                    "select tenant, holder, digest from lethelog.claims where kind = %s "
                    "and (tenant, digest) > (%s, %s) order by tenant, digest limit %s",
                    (ERASURE, *after, _PAGE),
                )
                rows = await cursor.fetchall()
            for tenant, erasure, digest in rows:
                after = (tenant, bytes(digest))
                state, _ = await self._saga.load(tenant, erasure)
                if state.performed_at is not None and state.performed is not None:
                    done.append(ledger_entry(tenant, state, state.memories, state.names, state.performed_at))
            if len(rows) < _PAGE:
                break
        # Read afterwards: an erasure writes to the ledger before it is in the log.
        held = {entry.erasure for entry in self._saga.means.ledger.read()}
        return sorted((one for one in done if one.erasure not in held), key=lambda one: one.at)

    def _view(self, missing: list[Entry], added: int) -> LedgerView:
        ledger = self._saga.means.ledger
        return LedgerView(
            file=str(ledger.path),
            entries=len(ledger.read()),
            missing=tuple(one.erasure for one in missing[:NAMED]),
            missing_count=len(missing),
            added=added,
        )
