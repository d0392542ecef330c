"""In which session run what a client writes is made: one for each MCP session, opened by its first write."""

import asyncio
import contextlib
from collections import OrderedDict
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from mcp.server.context import ServerRequestContext

from ...domain.errors import LethelogError

if TYPE_CHECKING:
    from ..arguments import WrittenFields
    from ..memory import AsyncMemory

SESSIONS_KEPT = 10_000
_SESSION_HEADER = "mcp-session-id"
_NAME_LIMIT = 256


class SessionRuns:
    """The runs of the sessions that a server serves.

    Over stdio the process is the session. Over HTTP the protocol of 2026-07-28 has none, and its writes name no
    run.
    """

    def __init__(self) -> None:
        self._runs: OrderedDict[str, asyncio.Future[UUID]] = OrderedDict()

    async def of(self, context: ServerRequestContext[Any, Any], memory: "AsyncMemory") -> "WrittenFields":
        """What a write of this request names, as keyword arguments. Raises what opening a session does."""
        session = _session(context)
        if session is None:
            return {}
        opening = self._runs.get(session)
        if opening is None:
            opening = self._runs[session] = asyncio.ensure_future(_opened(memory, _agent(context)))
            if len(self._runs) > SESSIONS_KEPT:
                # Its lease ends by itself.
                self._runs.popitem(last=False)
        try:
            return {"session_run_id": await asyncio.shield(opening)}
        except Exception:
            # Whatever it was, the next write tries again.
            if self._runs.get(session) is opening:
                del self._runs[session]
            raise

    async def close(self, memory: "AsyncMemory") -> None:
        """Say that the runs of this process have ended."""
        for opening in self._runs.values():
            # A run that nobody could close ends with its lease.
            with contextlib.suppress(LethelogError, asyncio.CancelledError):
                await memory.sessions.close(await opening)
        self._runs.clear()


def _session(context: ServerRequestContext[Any, Any]) -> str | None:
    """Which session: that of the process, or of a credential and the name it gives, since names prove nothing."""
    if context.request is None:
        return ""
    named = context.request.headers.get(_SESSION_HEADER)
    return None if named is None else f"{context.request.user.access_token.client_id}:{named}"


async def _opened(memory: "AsyncMemory", agent: str | None) -> UUID:
    named = {} if agent is None else {"agent": agent}
    return (await memory.sessions.open(f"mcp-{uuid4()}", **named)).id


def _agent(context: ServerRequestContext[Any, Any]) -> str | None:
    """The client's name, as it gives it itself."""
    client = context.session.client_params
    name = "" if client is None else client.client_info.name.replace("\x00", "").strip()
    return name[:_NAME_LIMIT] or None
