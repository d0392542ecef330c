"""Deciding many proposals at once: looked at first, then each on its own or all together.

``each``: every proposal is decided by the ordinary rules, in a unit of its own, and has its own result; what is
refused does not hold up the rest. ``all``: one unit, all or nothing.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Self
from uuid import UUID

from pydantic import Field, model_validator

from ...domain.errors import Conflict, InvalidInput, LethelogError
from ...domain.fields import CommandKey as KeyText
from ...domain.fields import Id, Reason, parse
from ...projections.generations import tenant_read_models
from ...projections.progress import wait_for
from ..access.caller import Caller
from ..bulk_writing import accident
from ..engine import Engine
from ..kinds import refuse_filter
from ..operating.views import BulkDecided, BulkItem, BulkPreview
from ..sessions.provenance import written_in
from .deciding import Decide, Deciding, Done
from .queue import ProposalFilter, Queue, condition

MOST_EACH = 10_000
MOST_TOGETHER = 100
"""Proposals that are decided in one unit at most: it holds up every other write meanwhile."""
Report = Callable[[int, int], None]


class _Waiting(ProposalFilter):
    """Open proposals that a filter finds."""

    status: Literal["proposed"] | None = None  # pyright: ignore[reportIncompatibleVariableOverride] - narrower


class PreviewBulk(_Waiting):
    """Which open proposals would be decided."""

    limit: int = Field(default=25, ge=1, le=100)


class DecideMany(_Waiting):
    """Decide open proposals: those named, or all that the filter finds."""

    verdict: Literal["accept", "reject"]
    proposal_ids: tuple[Id, ...] = Field(default=(), max_length=MOST_EACH)
    expected: int | None = Field(default=None, ge=0, strict=True)
    """How many the preview found; another number decides nothing."""
    together: bool = False
    """All or nothing, in one unit."""
    comment: Reason | None = None
    key: KeyText | None = None
    """With ``proposal_ids``: a retry with the same key decides nothing twice and gives the same results."""
    session_run_id: Id | None = None
    """The session run that they are decided in."""

    @model_validator(mode="after")
    def _says_which(self) -> Self:
        asked = [name for name in ProposalFilter.model_fields if getattr(self, name) is not None]
        if self.proposal_ids and asked:
            raise ValueError("give proposal_ids or a filter, not both")
        if not self.proposal_ids and self.expected is None:
            raise ValueError("a filter goes with expected: how many proposals the preview found")
        if self.key is not None and not self.proposal_ids:
            raise ValueError("a key goes with proposal_ids, since a filter finds others the second time")
        return self


def silent(done: int, of: int) -> None:
    """Reports nothing."""


class Bulk:
    """Decides many proposals of one caller's tenant."""

    def __init__(self, engine: Engine, queue: Queue, deciding: Deciding) -> None:
        self._engine = engine
        self._queue = queue
        self._deciding = deciding

    async def preview(self, caller: Caller, arguments: Mapping[str, Any]) -> BulkPreview:
        """How many open proposals a filter finds, and the first of them. Appends nothing."""
        caller.require("memory:review")
        query = parse(PreviewBulk, arguments)
        await wait_for(self._engine.doors, "review_queue", await self._engine.log.head())
        asked = query.model_dump(exclude_none=True, exclude={"status", "limit"})
        page = await self._queue.list(caller, {**asked, "status": "proposed", "limit": query.limit})
        stale = sum(one.stale for one in page.proposals)
        return BulkPreview(total=page.total, totals=page.totals, proposals=page.proposals, stale=stale)

    async def decide(self, caller: Caller, arguments: Mapping[str, Any], report: Report = silent) -> BulkDecided:
        """Accept or reject them, oldest first; each has its result.

        Raises `Conflict` where another number is found than ``expected``, and with ``together`` for the first
        proposal that cannot be decided, and `NotFound` for a session run that is none; then nothing is decided.
        """
        caller.require("memory:review")
        command = parse(DecideMany, arguments)
        # Before anything is decided: a run that is none refuses all of them, not each on its own.
        await written_in(self._engine.log, caller.tenant, command.session_run_id)
        ids = await self._ids(caller.tenant, command)
        if command.together and ids:
            if len(ids) > MOST_TOGETHER:
                raise InvalidInput(
                    "together", f"decides at most {MOST_TOGETHER} proposals at once", "Narrow the filter"
                )
            return await self._together(caller, command, ids)
        items: list[BulkItem] = []
        for number, one in enumerate(ids, 1):
            items.append(await self._one(caller, command, one))
            report(number, len(ids))
        position = max((item.position for item in items if item.position is not None), default=None)
        if position is not None:
            await self._deciding.settle(position)
        return _answer(items, position)

    async def _one(self, caller: Caller, command: DecideMany, proposal_id: UUID) -> BulkItem:
        key = None
        if command.key is not None:
            key = f"{hashlib.sha256(command.key.encode()).hexdigest()}:{proposal_id}"
        decision = _decision(command, proposal_id, key)
        try:
            done = await self._deciding.decide_one(caller, decision, accept=command.verdict == "accept")
        except LethelogError as why:
            return _refused(proposal_id, why)
        except Exception as error:
            return _refused(proposal_id, accident(error)).model_copy(update={"status": "failed"})
        return _decided(command, proposal_id, done)

    async def _together(self, caller: Caller, command: DecideMany, ids: Sequence[UUID]) -> BulkDecided:
        decisions = [_decision(command, one) for one in ids]
        done = await self._deciding.decide_together(
            caller, decisions, accept=command.verdict == "accept", command=command, key=command.key
        )
        return _answer([_decided(command, one, done) for one in ids], done.position)

    async def _ids(self, tenant: UUID, command: DecideMany) -> list[UUID]:
        if command.proposal_ids:
            return list(dict.fromkeys(command.proposal_ids))
        await wait_for(self._engine.doors, "review_queue", await self._engine.log.head())
        where, values = condition(tenant, command.model_copy(update={"status": "proposed"}))
        async with tenant_read_models(self._engine.doors, tenant) as connection:
            cursor = await connection.execute(
                f"select proposal_id from review_queue where {where} order by created_at, proposal_id "
                "limit %(limit)s",
                {**values, "limit": MOST_EACH + 1},
            )
            ids = [row[0] for row in await cursor.fetchall()]
        if not ids:
            await refuse_filter(self._engine.log, tenant, "memory_id", command.memory_id, "memory")
        if len(ids) > MOST_EACH:
            raise InvalidInput("expected", f"more than {MOST_EACH} are found; at most so many are decided at once")
        if len(ids) != command.expected:
            raise Conflict(
                f"{len(ids)} {'proposal is' if len(ids) == 1 else 'proposals are'} found now, "
                f"not {command.expected}; look at them again",
                found=len(ids),
                expected=command.expected,
            )
        return ids


def _decision(command: DecideMany, proposal_id: UUID, key: str | None = None) -> Decide:
    return Decide(proposal_id=proposal_id, comment=command.comment, key=key, session_run_id=command.session_run_id)


def _decided(command: DecideMany, proposal_id: UUID, done: Done) -> BulkItem:
    return BulkItem(
        proposal_id=proposal_id,
        status="applied" if command.verdict == "accept" else "rejected",
        changed=done.changed.get(proposal_id, ()),
        withdrawn=done.withdrawn.get(proposal_id, ()),
        position=done.position,
    )


def _refused(proposal_id: UUID, why: LethelogError) -> BulkItem:
    return BulkItem(proposal_id=proposal_id, status="refused", reason=why.code, says=str(why))


def _answer(items: Sequence[BulkItem], position: int | None) -> BulkDecided:
    counts: dict[str, int] = {}
    for item in items:
        counts[item.status] = counts.get(item.status, 0) + 1
    return BulkDecided(counts=counts, items=tuple(items), position=position)
