"""Opening, taking up, keeping and closing sessions, and looking at them (behaviour.md 1.15).

User, agent and session name a run; a claim of the log keeps that there is one of each. Times are those of the log.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

from pydantic import Field

from ...domain.errors import Conflict, InvalidInput
from ...domain.event import Event
from ...domain.events import SessionOpened
from ...domain.fields import Id, Input, Name, Position, Scope, parse
from ...domain.session import Session, decide_resume, decide_seen, decide_session_end
from ...projections.generations import tenant_read_models
from ...projections.progress import wait_for
from ...projections.sessions import SessionRuns
from ...streams.directory import NameKind
from ...streams.ids import new_id
from ...streams.log import Appended, Claim, NewEvent, Repeated, Unit
from ...streams.payloads import Envelope
from ..access.caller import Caller
from ..cursors import make_cursor, read_cursor
from ..engine import Engine
from ..memories import ATTEMPTS
from .provenance import load_session, session_of
from .views import CloserView, SessionPage, SessionView

CLAIM = "session"
"""Kind of the claim on (user, agent, session)."""


class OpenSession(Input):
    """Begin a run, or take up the one of this name."""

    session: Name
    user: Name | None = None
    agent: Name | None = None
    project: Name | None = None
    scope: Scope | None = None


class SessionQuery(Input):
    """Which run."""

    session_run_id: Id


class SessionsQuery(Input):
    """Which runs to list. ``limit`` 1 to 100."""

    user: Name | None = None
    agent: Name | None = None
    limit: int = Field(default=25, ge=1, le=100)
    cursor: str | None = Field(default=None, max_length=400, strict=True)
    after: Position | None = None


class Sessions:
    """The sessions of one caller's tenant."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def open(self, caller: Caller, arguments: Mapping[str, Any]) -> SessionView:
        """Begin a run; where there is one of this user, agent and session already, it is taken up.

        What it is about stays as it was opened (1.15): raises `InvalidInput` for another project or scope.
        """
        caller.require("memory:write")
        command = parse(OpenSession, arguments)
        tenant, log = caller.tenant, self._engine.log
        run_id = new_id()
        for _ in range(ATTEMPTS):
            fence = await log.fence(tenant)
            session = await self._name(tenant, "session", command.session)
            assert session is not None
            user = await self._name(tenant, "user", command.user)
            agent = await self._name(tenant, "agent", command.agent)
            digest = b"".join((one or UUID(int=0)).bytes for one in (user, agent, session))
            [holder] = await log.holders(tenant, [(CLAIM, digest)])
            if holder is not None:
                await self._refuse_others(tenant, holder, command)
                return await self._move(caller, holder, lambda state: decide_resume(state, "open"))
            opened = SessionOpened(
                session=session,
                user=user,
                agent=agent,
                project=await self._name(tenant, "project", command.project),
                scope=command.scope,
            )
            outcome = await log.append(
                Unit(
                    tenant=tenant,
                    subject=run_id,
                    events=[NewEvent(run_id, 1, opened)],
                    envelope=await self._envelope(caller),
                    claims=[Claim(CLAIM, digest, None, run_id)],
                    fence=fence,
                )
            )
            if isinstance(outcome, Appended):
                return await self._view(tenant, run_id, outcome.position)
        raise Conflict("another one opens this session again and again; try again")

    async def resume(self, caller: Caller, arguments: Mapping[str, Any]) -> SessionView:
        """Take a run up: also one that was closed. Raises `NotFound`."""
        caller.require("memory:write")
        query = parse(SessionQuery, arguments)
        return await self._move(caller, query.session_run_id, lambda state: decide_resume(state, "resume"))

    async def heartbeat(self, caller: Caller, arguments: Mapping[str, Any]) -> SessionView:
        """Say that a run is there, which begins its lease anew; recorded at most once a minute."""
        caller.require("memory:write")
        query = parse(SessionQuery, arguments)
        now = await self._engine.log.now()
        return await self._move(caller, query.session_run_id, lambda state: decide_seen(state, now, "heartbeat"))

    async def close(self, caller: Caller, arguments: Mapping[str, Any]) -> SessionView:
        """End a run; a second time changes nothing."""
        caller.require("memory:write")
        query = parse(SessionQuery, arguments)
        return await self._move(caller, query.session_run_id, decide_session_end)

    async def show(self, caller: Caller, arguments: Mapping[str, Any]) -> SessionView:
        """One run, from the log. Raises `NotFound`."""
        caller.require("memory:read")
        query = parse(SessionQuery, arguments)
        return await self._view(caller.tenant, query.session_run_id, 0)

    async def page(self, caller: Caller, arguments: Mapping[str, Any]) -> SessionPage:
        """A page of runs, the last opened first."""
        caller.require("memory:read")
        query = parse(SessionsQuery, arguments)
        if query.after:
            await wait_for(self._engine.doors, SessionRuns.name, query.after)
        where, values = ["tenant = %(tenant)s"], dict[str, Any](tenant=caller.tenant, limit=query.limit + 1)
        named: tuple[tuple[NameKind, str | None], ...] = (("user", query.user), ("agent", query.agent))
        for kind, name in named:
            if name is None:
                continue
            values[kind] = await self._engine.directory.find(caller.tenant, kind, name)
            if values[kind] is None:
                return SessionPage(sessions=(), total=0)
            where.append(f"{kind}_ref = %({kind})s")
        asked = query.model_dump(exclude={"cursor", "limit", "after"})
        beyond = ""
        if query.cursor is not None:
            values["after_at"], values["after_id"] = read_cursor(query.cursor, asked)
            beyond = " and (opened_at, run_id) < (%(after_at)s, %(after_id)s)"
        chosen = f"from sessions where {' and '.join(where)}"
        async with tenant_read_models(self._engine.doors, caller.tenant) as connection:
            cursor = await connection.execute(
                f"select run_id, opened_at {chosen}{beyond} order by opened_at desc, run_id desc limit %(limit)s",
                values,
            )
            rows = await cursor.fetchall()
            counted = await (await connection.execute(f"select count(*) {chosen}", values)).fetchone()
        assert counted is not None
        page = rows[: query.limit]
        return SessionPage(
            sessions=await self._views(caller.tenant, [row[0] for row in page]),
            total=counted[0],
            next_cursor=make_cursor(asked, page[-1][1], page[-1][0]) if len(rows) > len(page) else None,
        )

    async def _move(self, caller: Caller, run_id: UUID, decide: Callable[[Session], list[Event]]) -> SessionView:
        for _ in range(ATTEMPTS):
            state = await load_session(self._engine.log, caller.tenant, run_id)
            events = decide(state)
            if not events:
                return await self._view(caller.tenant, run_id, 0)
            outcome = await self._engine.log.append(
                Unit(
                    tenant=caller.tenant,
                    subject=run_id,
                    events=[NewEvent(run_id, state.version + n, event) for n, event in enumerate(events, 1)],
                    envelope=await self._envelope(caller),
                )
            )
            if isinstance(outcome, Appended | Repeated):
                return await self._view(caller.tenant, run_id, outcome.position)
        raise Conflict("the session keeps changing while this is tried; try again")

    async def _refuse_others(self, tenant: UUID, run_id: UUID, command: OpenSession) -> None:
        state = await load_session(self._engine.log, tenant, run_id)
        project = command.project
        present = None if project is None else await self._engine.directory.find(tenant, "project", project)
        if project is not None and (present is None or present != state.project):
            raise _opened_otherwise("project")
        if command.scope not in (None, state.scope):
            raise _opened_otherwise("scope")

    async def _envelope(self, caller: Caller) -> Envelope:
        command = new_id()
        tenant = await self._engine.tenants.get(caller.tenant)
        return Envelope(caller.actor, cause=command, correlation=command, policy=tenant.policy_version)

    async def _name(self, tenant: UUID, kind: NameKind, name: str | None) -> UUID | None:
        return None if name is None else await self._engine.directory.register(tenant, kind, name)

    async def _view(self, tenant: UUID, run_id: UUID, position: int) -> SessionView:
        [view] = await self._views(tenant, [run_id], position)
        return view

    async def _views(self, tenant: UUID, run_ids: Sequence[UUID], position: int = 0) -> tuple[SessionView, ...]:
        """Runs that are there, in the order asked for, by as many queries for many as for one."""
        streams = await self._engine.log.read_streams(tenant, run_ids)
        states = [session_of(streams.get(run_id, ()), run_id) for run_id in run_ids]
        names = await self._engine.directory.names(
            tenant, [ref for one in states for ref in (one.session, one.user, one.agent, one.project)]
        )
        now = await self._engine.log.now()

        def name(ref: UUID | None) -> str | None:
            return None if ref is None else names.get(ref)

        return tuple(
            SessionView(
                id=one.id,
                session=name(one.session),
                user=name(one.user),
                agent=name(one.agent),
                project=name(one.project),
                scope=one.scope,
                running=one.running(now),
                opened_at=one.opened_at,
                last_seen_at=one.last_seen_at,
                closed_at=one.closed_at,
                epoch=one.epoch,
                needs_look=one.unlooked and not one.running(now),
                closer=CloserView(
                    looked_at=one.looked_at,
                    resolved=len(one.resolved),
                    proposed=len(one.proposed),
                    failures=one.failures,
                    next_attempt_at=one.next_attempt_at,
                ),
                position=position or streams[one.id][-1].position,
            )
            for one in states
        )


def _opened_otherwise(field: str) -> InvalidInput:
    return InvalidInput(
        field,
        "is not the one that this session was opened with",
        "Leave it out, or open a session of another name",
    )
