"""Closing passes, and going on with those whose messages were lost.

The broker is not the truth: whatever a message should have caused is also found here, from the log, after a
while of silence. Every step is keyed, so a message that comes after all changes nothing.
"""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from uuid import UUID

from ...domain import events as e
from ...domain.forgetting_pass import PassState, proposal_id, verdict_id
from ..engine import Engine
from .pass_log import OPEN_KIND, PassReader, load_pass, move_pass, which_exist
from .settling import Settler

LOOK_SECONDS = 0.25
"""How often open passes are looked at."""
LOOK_AROUND_SECONDS = 10.0
"""How often passes opened by other processes are looked for."""
SETTLE_AFTER_SECONDS = 5.0
"""Silence after which verdicts without a proposal or dismissal are settled from the log."""
RESUME_AFTER_SECONDS = 150.0
"""Silence after which an unfinished pass is sent out again; longer than the broker remembers task ids."""

_LOG = logging.getLogger(__name__)
Resume = Callable[[UUID, PassState], Awaitable[None]]


@dataclass(slots=True)
class _Watched:
    """How far a pass was when it last moved, and when that was."""

    ends: int
    since: float


class Completion:
    """Watches open passes. Any number may run; the log decides who was first."""

    def __init__(self, engine: Engine, passes: PassReader, settler: Settler, resume: Resume) -> None:
        self._engine = engine
        self._passes = passes
        self._settler = settler
        self._resume = resume
        self._open: dict[tuple[UUID, UUID], _Watched] = {}

    def watch(self, tenant: UUID, pass_id: UUID) -> None:
        """Look at this pass from now on."""
        self._open.setdefault((tenant, pass_id), _Watched(-1, _now()))

    async def run(self) -> None:
        """Go on until cancelled. A database that is away is waited for."""
        looked = 0.0
        while True:
            if _now() - looked > LOOK_AROUND_SECONDS:
                with _carried_on("looking for open passes"):
                    await self._look_around()
                looked = _now()
            for tenant, pass_id in list(self._open):
                with _carried_on("looking at a pass"):
                    if await self.look(tenant, pass_id):
                        del self._open[(tenant, pass_id)]
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self, tenant: UUID, pass_id: UUID) -> bool:
        """Close a pass when every item has its verdict and every verdict its end; True when it is closed."""
        state = await self._passes.get(tenant, pass_id)
        if not state.open:
            return True
        if state.phase not in ("selected", "dispatched"):
            return await self._go_on(tenant, state, 0)
        verdicts = {verdict_id(pass_id, item.ref): item.ref for item in state.items}
        names = await self._engine.log.stream_names(tenant, verdicts)
        answered = {stream: ref for stream, ref in verdicts.items() if names.get(stream) == "verdict.recorded"}
        ends = await which_exist(
            self._engine.log, tenant, [proposal_id(pass_id, ref) for ref in answered.values()]
        )
        if len(names) == len(verdicts) and len(ends) == len(answered):
            return await self._close(tenant, state, len(answered), len(verdicts) - len(answered))
        watched = self._open.get((tenant, pass_id))
        if watched is not None and _now() - watched.since > SETTLE_AFTER_SECONDS and len(ends) < len(answered):
            missing = [stream for stream, ref in answered.items() if proposal_id(pass_id, ref) not in ends]
            await self._settler.settle_missing(tenant, state, missing)
        return await self._go_on(tenant, state, len(names) + len(ends))

    async def _go_on(self, tenant: UUID, state: PassState, ends: int) -> bool:
        """Note whether the pass moves, and take it up again when it has not moved for long."""
        watched = self._open.setdefault((tenant, state.id), _Watched(ends, _now()))
        if watched.ends != ends:
            watched.ends, watched.since = ends, _now()
        elif _now() - watched.since > RESUME_AFTER_SECONDS:
            watched.since = _now()
            await self._resume(tenant, state)
        return False

    async def _close(self, tenant: UUID, state: PassState, judged: int, refused: int) -> bool:
        proposed: Counter[str] = Counter()
        dismissed: Counter[str] = Counter()
        ends = [proposal_id(state.id, item.ref) for item in state.items]
        for recorded in (await self._engine.log.read_streams(tenant, ends)).values():
            first = recorded[0].event
            if isinstance(first, e.ProposalStaged):
                proposed[first.action] += 1
            elif isinstance(first, e.ProposalDismissed):
                dismissed[first.action] += 1
        completed = e.PassCompleted(
            judged=judged, refused=refused, proposed=dict(proposed), dismissed=dict(dismissed)
        )
        settings = await self._engine.tenants.get(tenant)
        present = await load_pass(self._engine.log, tenant, state.id)
        return not present.open or await move_pass(
            self._engine.log,
            tenant,
            present,
            completed,
            policy=settings.policy_version,
            cause=state.id,
            releases=True,
        )

    async def _look_around(self) -> None:
        async with self._engine.database.connection() as connection:
            cursor = await connection.execute(
                "select tenant, holder from lethelog.claims where kind = %s", (OPEN_KIND,)
            )
            for tenant, pass_id in await cursor.fetchall():
                self.watch(tenant, pass_id)


@contextlib.contextmanager
def _carried_on(what: str) -> Generator[None]:
    """One pass that cannot be looked at just now holds up no other."""
    try:
        yield
    except Exception as error:
        _LOG.warning("%s failed with %s; it is tried again", what, type(error).__name__)


def _now() -> float:
    return asyncio.get_running_loop().time()
