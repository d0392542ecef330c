"""Looking at what an undo would take back, and carrying it to its end.

An undo is recorded before it begins. It goes decision by decision, newest first, each in one unit of its own under
a key that follows from the undo, so that whoever is interrupted goes on where it stopped.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid5

from pydantic import Field

from ...domain.errors import Conflict, InvalidInput, KeyReused, NotFound, WrongKind
from ...domain.events import RefusedUndo, UndoPerformed
from ...domain.fields import CommandKey as KeyText
from ...domain.fields import Id, Input, Position, parse
from ...domain.undo import Undo
from ...projections.generations import tenant_read_models
from ...projections.progress import wait_for
from ...streams.ids import new_id
from ...streams.log import Appended, CommandKey, KeyTaken, NewEvent, Repeated, Unit
from ...streams.payloads import Envelope
from ..access.caller import NAMED_KINDS, Caller
from ..command_keys import command_key
from ..cursors import make_cursor, read_cursor
from ..engine import Engine
from ..kinds import kind_of
from ..memories import MemoryCommands
from ..reviewing.changes import Changes
from ..sessions.provenance import note_written, written_in
from .selecting import Effect, Selection, UndoSelector, requested, select_decisions
from .telling import code_of, item_of, load_undo, show_undo
from .undoers import undoers
from .views import UndoItem, UndoPreview, UndoView

DECISIONS_AT_A_TIME = 50
ATTEMPTS = 10
MOST = 100_000
"""Effects that one undo takes back at most; more are a rebuild of trust, and asked for in parts."""
Report = Callable[[int, int], None]


class PreviewUndo(UndoSelector):
    """Look at what would be taken back."""

    limit: int = Field(default=25, ge=1, le=100)
    """How many decisions a page holds."""
    cursor: str | None = Field(default=None, max_length=400, strict=True)


class RequestUndo(UndoSelector):
    """Take it back."""

    key: KeyText | None = None
    session_run_id: Id | None = None
    """The session run that it is asked for in; ``session`` is the one whose effects go."""


class UndoQuery(Input):
    undo_id: Id


class ShowUndo(UndoQuery):
    """Look at it."""

    after: Position | None = None


class ResumeUndo(UndoQuery):
    """Carry it on."""

    session_run_id: Id | None = None
    """The session run that it is carried on in."""


@dataclass(frozen=True, slots=True)
class _Performer:
    """Who carries an undo out, and in which session run."""

    caller: Caller
    run: UUID | None

    def envelope(self, undo: UUID, policy: int | None = None) -> Envelope:
        """Of the events that come of it."""
        return Envelope(self.caller.actor, undo, undo, policy=policy, session=self.run)


def silent(done: int, of: int) -> None:
    """Reports nothing."""


class Undoing:
    """Undoes effects of one caller's tenant."""

    def __init__(self, engine: Engine, memories: MemoryCommands) -> None:
        self._engine = engine
        self._undoers = undoers(engine, memories)

    async def preview(self, caller: Caller, arguments: Mapping[str, Any]) -> UndoPreview:
        """What an undo would take back, and what it would not and why. Appends nothing.

        Raises `NotFound` or `WrongKind` for an id that is none of what was asked for.
        """
        caller.require("memory:review")
        query = parse(PreviewUndo, arguments)
        asked = query.model_dump(exclude={"cursor", "limit"}, exclude_none=True)
        below = None
        if query.cursor is not None:
            _, last = read_cursor(query.cursor, asked)
            below = last.int
        selection = await self._selection(caller.tenant, query)
        decisions, total = await select_decisions(
            self._engine, caller.tenant, selection, limit=query.limit + 1, below=below
        )
        if not total:
            await self._refuse_unknown(caller.tenant, query)
        items: list[UndoItem] = []
        for decision in decisions[: query.limit]:
            again = _again(selection, decision)
            try:
                await self._changes(caller.tenant, decision, new_id(), again=again)
            except Conflict as why:
                items += [item_of(one, again=again, why=why) for one in decision]
            else:
                items += [item_of(one, again=again) for one in decision]
        more = len(decisions) > query.limit
        end = decisions[query.limit - 1][0] if more else None
        return UndoPreview(
            effects=total,
            items=tuple(items),
            possible=sum(item.reason is None for item in items),
            next_cursor=make_cursor(asked, end.recorded_at, UUID(int=end.position)) if end else None,
        )

    async def undo(self, caller: Caller, arguments: Mapping[str, Any], report: Report = silent) -> UndoView:
        """Take effects back; item by item refused where later history stands on them.

        With a ``key``, a repeat goes on where an interrupted one stopped and gives the same answer. Raises
        `NotFound` or `WrongKind` for an id that is none of what was asked for; then nothing is on record.
        """
        caller.require("memory:review")
        command = parse(RequestUndo, arguments)
        by = _Performer(caller, await written_in(self._engine.log, caller.tenant, command.session_run_id))
        key = await command_key(self._engine.vault, caller.tenant, command, command.key)
        if command.key is not None:
            earlier = await self._engine.log.find_command(caller.tenant, key)
            if earlier is not None:
                return await self._carry_on(by, _repeated(earlier), report)
        selection = await self._selection(caller.tenant, command)
        _, total = await select_decisions(self._engine, caller.tenant, selection, limit=1)
        if not total:
            await self._refuse_unknown(caller.tenant, command)
        if total > MOST:
            raise InvalidInput("since", f"finds {total} effects; at most {MOST} are undone at once", "Narrow it")
        undo_id = new_id()
        settings = await self._engine.tenants.get(caller.tenant)
        outcome = await self._engine.log.append(
            Unit(
                tenant=caller.tenant,
                subject=undo_id,
                events=[NewEvent(undo_id, 1, selection.said)],
                envelope=by.envelope(undo_id, settings.policy_version),
                command=key,
            )
        )
        if isinstance(outcome, Repeated | KeyTaken):
            return await self._carry_on(by, _repeated(outcome), report)
        if not isinstance(outcome, Appended):
            raise Conflict("the undo could not be put on record; try again")
        return await self._carry_on(by, undo_id, report)

    async def resume(self, caller: Caller, arguments: Mapping[str, Any], report: Report = silent) -> UndoView:
        """Carry an undo on that was interrupted; nothing more happens where it is complete."""
        caller.require("memory:review")
        command = parse(ResumeUndo, arguments)
        by = _Performer(caller, await written_in(self._engine.log, caller.tenant, command.session_run_id))
        return await self._carry_on(by, command.undo_id, report)

    async def show(self, caller: Caller, arguments: Mapping[str, Any]) -> UndoView:
        """One undo as it stands. Raises `NotFound` or `WrongKind`."""
        caller.require("memory:read")
        query = parse(ShowUndo, arguments)
        if query.after:
            await wait_for(self._engine.doors, "effects", query.after)
        return await show_undo(self._engine, caller.tenant, query.undo_id)

    async def _carry_on(self, by: _Performer, undo_id: UUID, report: Report) -> UndoView:
        tenant = by.caller.tenant
        state = await load_undo(self._engine.log, tenant, undo_id)
        selection = Selection(state.requested, state.id)
        items: list[UndoItem] = []
        settled = _settled(state)
        below: int | None = None
        while not state.complete:
            await wait_for(self._engine.doors, "effects", await self._engine.log.head())
            decisions, total = await select_decisions(
                self._engine, tenant, selection, limit=DECISIONS_AT_A_TIME, below=below
            )
            open_ones = [one for one in decisions if not settled.issuperset(effect.id for effect in one)]
            done, refused, told = await self._undo_all(by, state, open_ones)
            last = len(decisions) < DECISIONS_AT_A_TIME
            recorded = not (done or refused or last) or await self._record(
                by, state, UndoPerformed(undone=done, refused=refused, complete=last)
            )
            # Where somebody else carries it on as well, this page is looked at again in the light of that.
            if recorded:
                items += told
                below = decisions[-1][0].position if decisions else below
            state = await load_undo(self._engine.log, tenant, undo_id)
            settled = _settled(state)
            report(len(settled), max(total, len(settled)))
        return await show_undo(self._engine, tenant, undo_id, items)

    async def _undo_all(
        self, by: _Performer, state: Undo, decisions: Sequence[list[Effect]]
    ) -> tuple[tuple[UUID, ...], tuple[RefusedUndo, ...], list[UndoItem]]:
        done: list[UUID] = []
        refused: list[RefusedUndo] = []
        items: list[UndoItem] = []
        for decision in decisions:
            again = _again(Selection(state.requested), decision)
            try:
                await self._undo_one(by, state, decision, again=again)
            except Conflict as why:
                refused += [RefusedUndo(effect=one.id, reason=code_of(why)) for one in decision]
                items += [item_of(one, again=again, why=why) for one in decision]
            else:
                done += [one.id for one in decision]
                items += [item_of(one, again=again) for one in decision]
        return tuple(done), tuple(refused), items

    async def _undo_one(self, by: _Performer, state: Undo, decision: Sequence[Effect], *, again: bool) -> None:
        """Take back what one decision did, in one unit. Raises `Conflict`."""
        tenant = by.caller.tenant
        key = CommandKey(uuid5(state.id, str(decision[0].correlation)).bytes, b"undo")
        if await self._engine.log.find_command(tenant, key) is not None:
            return
        settings = await self._engine.tenants.get(tenant)
        for _ in range(ATTEMPTS):
            # Before anything is read: a digest of what is erased from now on must not be claimed again.
            fence = await self._engine.log.fence(tenant)
            try:
                changes = await self._changes(tenant, decision, state.id, again=again)
            except Conflict:
                if await self._engine.log.find_command(tenant, key) is not None:
                    # Somebody else carries this undo on, and took just this back.
                    return
                raise
            outcome = await self._engine.log.append(
                Unit(
                    tenant=tenant,
                    subject=state.id,
                    events=changes.new_events(),
                    envelope=by.envelope(state.id, settings.policy_version),
                    claims=changes.claims,
                    command=key,
                    fence=fence,
                )
            )
            if isinstance(outcome, Appended | Repeated):
                return
        raise Conflict("what it would change keeps changing; try again")

    async def _changes(self, tenant: UUID, decision: Sequence[Effect], undo: UUID, *, again: bool) -> Changes:
        if again != decision[0].undone or any(one.undone != decision[0].undone for one in decision):
            raise Conflict("it is undone already" if not again else "it holds already")
        changes = Changes()
        for kind in dict.fromkeys(one.name.partition(".")[0] for one in decision):
            undoer = self._undoers.get(kind)
            if undoer is None:
                raise Conflict(f"effects on a {kind} cannot be undone")
            mine = [one for one in decision if one.name.partition(".")[0] == kind]
            part = await undoer.undo(tenant, mine[::-1] if again else mine, undo, again=again)
            changes.streams += part.streams
            changes.claims += part.claims
        return changes

    async def _record(self, by: _Performer, state: Undo, event: UndoPerformed) -> bool:
        """Put on record how far it got; False where somebody else was quicker."""
        outcome = await self._engine.log.append(
            Unit(
                tenant=by.caller.tenant,
                subject=state.id,
                events=[NewEvent(state.id, state.version + 1, event)],
                envelope=by.envelope(state.id),
            )
        )
        if not isinstance(outcome, Appended):
            return False
        await note_written(self._engine.log, by.caller, by.run, new_id())
        return True

    async def _selection(self, tenant: UUID, said: UndoSelector) -> Selection:
        head = await self._engine.log.head()
        for name in ("effects", "review_queue"):
            await wait_for(self._engine.doors, name, head)
        reviewer: UUID | None = None
        if said.reviewer is not None:
            kind, _, name = said.reviewer.partition(":")
            wanted = name if kind in NAMED_KINDS and name else said.reviewer
            reviewer = await self._engine.directory.find(tenant, "actor", wanted)
            if reviewer is None:
                raise NotFound("reviewer: nobody of this name ever decided anything here", field="reviewer")
        return Selection(requested(said, reviewer, head))

    async def _refuse_unknown(self, tenant: UUID, said: UndoSelector) -> None:
        """Raise for an id under which nothing was found, unless it is of what it was given as."""
        for field, kinds in _KINDS.items():
            one: UUID | None = getattr(said, field)
            if one is None:
                continue
            kind = kind_of((await self._engine.log.stream_names(tenant, [one])).get(one, ""))
            if field == "pass_id" and kind not in kinds and await self._led_to_proposals(tenant, one):
                # A command or a proposal may lead to proposals, too.
                continue
            if not kind:
                raise NotFound(f"{field}: no {_WORDS[field]} {one}", field=field, id=one)
            if kind not in kinds:
                raise WrongKind.of(one, kind, _WORDS[field], field=field)

    async def _led_to_proposals(self, tenant: UUID, source: UUID) -> bool:
        async with tenant_read_models(self._engine.doors, tenant) as connection:
            cursor = await connection.execute(
                "select from review_queue where tenant = %s and source = %s limit 1", (tenant, source)
            )
            return await cursor.fetchone() is not None


_WORDS = {
    "effect": "effect",
    "proposal_id": "proposal",
    "undo_id": "undo",
    "pass_id": "pass",
    "session": "session run",
}
"""What the ids of a selector are of."""
_KINDS = {
    "effect": (),
    "proposal_id": ("proposal",),
    "undo_id": ("undo",),
    "pass_id": ("pass", "consolidation"),
    "session": ("session",),
}
"""The first word of the events of such a stream; an effect is none, but an event of one."""


def _repeated(earlier: Repeated | KeyTaken) -> UUID:
    """The undo that this key was used for."""
    if isinstance(earlier, KeyTaken):
        raise KeyReused("this command key was used for another command; use a new key for a new command")
    return earlier.subject


def _settled(state: Undo) -> set[UUID]:
    """Effects about which it is decided."""
    return {*state.undone, *(one.effect for one in state.refused)}


def _again(selection: Selection, decision: Sequence[Effect]) -> bool:
    """Whether the effects are to hold again: an undo of an undo turns them back."""
    return selection.said.undo is not None and decision[0].undone
