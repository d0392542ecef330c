"""The part of the Python doors that is about sessions: ``memory.sessions``."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypedDict, TypeVar, Unpack

from ..access.caller import Caller
from ..arguments import AnyId
from ..engine import Engine
from .sessions import Sessions
from .views import SessionPage, SessionView

T = TypeVar("T")


class OpenFields(TypedDict, total=False):
    """What a session is opened with beside its name."""

    user: str
    agent: str
    project: str
    scope: str


class SessionsFields(TypedDict, total=False):
    """Which sessions to list."""

    user: str
    agent: str
    limit: int
    cursor: str
    after: int


class AsyncSessions:
    """Sessions of one tenant, for one actor."""

    def __init__(
        self, engine: Engine, caller: Callable[[], Awaitable[Caller]], noted: Callable[[int], int]
    ) -> None:
        """``noted`` takes the position of a write, and gives the one that reads wait for."""
        self._sessions = Sessions(engine)
        self._caller = caller
        self._noted = noted

    async def open(self, session: str, **fields: Unpack[OpenFields]) -> SessionView:
        """Begin a run; where there is one of this user, agent and session already, it is taken up."""
        return self._told(await self._sessions.open(await self._caller(), {**fields, "session": session}))

    async def resume(self, session_run_id: AnyId) -> SessionView:
        """Take a run up, also one that was closed."""
        return self._told(await self._sessions.resume(await self._caller(), {"session_run_id": session_run_id}))

    async def heartbeat(self, session_run_id: AnyId) -> SessionView:
        """Say that a run is there: its lease of 30 minutes begins anew."""
        return self._told(await self._sessions.heartbeat(await self._caller(), {"session_run_id": session_run_id}))

    async def close(self, session_run_id: AnyId) -> SessionView:
        """End a run. Later writes that name it succeed, and are no part of it."""
        return self._told(await self._sessions.close(await self._caller(), {"session_run_id": session_run_id}))

    async def show(self, session_run_id: AnyId) -> SessionView:
        """One run as it stands."""
        return await self._sessions.show(await self._caller(), {"session_run_id": session_run_id})

    async def list(self, **query: Unpack[SessionsFields]) -> SessionPage:
        """A page of runs, the last opened first."""
        arguments: dict[str, Any] = {**query}
        if query.get("after") is None:
            arguments["after"] = self._noted(0)
        return await self._sessions.page(await self._caller(), arguments)

    def _told(self, view: SessionView) -> SessionView:
        self._noted(view.position)
        return view


class Run(Protocol):
    """Runs a coroutine and waits for it."""

    def __call__(self, work: Coroutine[Any, Any, T], /) -> T: ...


class BlockingSessions:
    """The same for programs without asyncio."""

    def __init__(self, run: Run, sessions: AsyncSessions) -> None:
        self._run = run
        self._sessions = sessions

    def open(self, session: str, **fields: Unpack[OpenFields]) -> SessionView:
        """See `AsyncSessions.open`."""
        return self._run(self._sessions.open(session, **fields))

    def resume(self, session_run_id: AnyId) -> SessionView:
        """See `AsyncSessions.resume`."""
        return self._run(self._sessions.resume(session_run_id))

    def heartbeat(self, session_run_id: AnyId) -> SessionView:
        """See `AsyncSessions.heartbeat`."""
        return self._run(self._sessions.heartbeat(session_run_id))

    def close(self, session_run_id: AnyId) -> SessionView:
        """See `AsyncSessions.close`."""
        return self._run(self._sessions.close(session_run_id))

    def show(self, session_run_id: AnyId) -> SessionView:
        """See `AsyncSessions.show`."""
        return self._run(self._sessions.show(session_run_id))

    def list(self, **query: Unpack[SessionsFields]) -> SessionPage:
        """See `AsyncSessions.list`."""
        return self._run(self._sessions.list(**query))
