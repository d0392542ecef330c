"""In which session run what a client writes is made: one for each MCP session, opened by its first write."""

import asyncio
import contextlib
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from mcp.server.context import ServerRequestContext

from ...domain.errors import LethelogError
from ...domain.session import LEASE

if TYPE_CHECKING:
    from ..arguments import WrittenFields
    from ..memory import AsyncMemory

SESSIONS_KEPT = 10_000
_SESSION_HEADER = "mcp-session-id"
_NAME_LIMIT = 256


@dataclass
class _Run:
    opening: "asyncio.Future[UUID]"
    written_at: float = field(default_factory=time.monotonic)

    @property
    def paused(self) -> bool:
        """Whether nothing was written in it for as long as a lease lasts."""
        return time.monotonic() - self.written_at >= LEASE.total_seconds()


class SessionRuns:
    """The runs of the sessions that a server serves.

    Over stdio the process is the session. Over HTTP it is the one that the request names; the protocol of
    2026-07-28 has none, and there the writes of one client with one credential are one session until it pauses for
    as long as a lease lasts.
    """

    def __init__(self) -> None:
        self._runs: OrderedDict[str, _Run] = OrderedDict()

    async def of(self, context: ServerRequestContext[Any, Any], memory: "AsyncMemory") -> "WrittenFields":
        """What a write of this request names, as keyword arguments. Raises what opening a session does."""
        agent = _agent(context)
        session, named = _session(context, agent)
        run = self._runs.get(session)
        if run is None or (run.paused and not named):
            run = self._runs[session] = _Run(asyncio.ensure_future(_opened(memory, agent)))
            if len(self._runs) > SESSIONS_KEPT:
                # Its lease ends by itself.
                self._runs.popitem(last=False)
        run.written_at = time.monotonic()
        self._runs.move_to_end(session)
        try:
            return {"session_run_id": await asyncio.shield(run.opening)}
        except Exception:
            # Whatever it was, the next write tries again.
            if self._runs.get(session) is run:
                del self._runs[session]
            raise

    async def close(self, memory: "AsyncMemory") -> None:
        """Say that the runs of this process have ended."""
        for run in self._runs.values():
            # A run that nobody could close ends with its lease.
            with contextlib.suppress(LethelogError, asyncio.CancelledError):
                await memory.sessions.close(await run.opening)
        self._runs.clear()


def _session(context: ServerRequestContext[Any, Any], agent: str | None) -> tuple[str, bool]:
    """Which session, and whether it says itself when it ends.

    It is that of the process, or of a credential and the name it gives, since names prove nothing.
    """
    if context.request is None:
        return "", True
    owner, named = context.request.user.access_token.client_id, context.request.headers.get(_SESSION_HEADER)
    return (f"{owner}/{agent}", False) if named is None else (f"{owner}:{named}", True)


async def _opened(memory: "AsyncMemory", agent: str | None) -> UUID:
    named = {} if agent is None else {"agent": agent}
    return (await memory.sessions.open(f"mcp-{uuid4()}", **named)).id


def _agent(context: ServerRequestContext[Any, Any]) -> str | None:
    """The client's name, as it gives it itself."""
    client = context.session.client_params
    name = "" if client is None else client.client_info.name.replace("\x00", "").strip()
    return name[:_NAME_LIMIT] or None
