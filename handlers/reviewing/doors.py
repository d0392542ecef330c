"""The part of the Python doors that reviews: the queue, decisions, explaining, undoing."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict, Unpack

from ...domain.proposal_events import ProposalAction, ProposalKind
from ..access.caller import Caller
from ..arguments import AnyId, AnyInstant, DigestFields, ProposalFields, ReadFields, WrittenFields
from ..explaining import Explaining
from ..operating.views import BulkDecided, BulkPreview, Chain, Decided, ProposalDetail, ProposalPage
from ..undoing.undoing import Undoing
from ..undoing.views import UndoPreview, UndoView
from .bulk import Report, silent
from .digest import ReviewDigest
from .reviewing import Reviewing


class WaitingFields(TypedDict, total=False):
    """Which open proposals; every part that is given narrows it."""

    kind: ProposalKind
    action: ProposalAction
    memory_id: AnyId
    judge: str
    source: AnyId
    created_after: AnyInstant
    created_before: AnyInstant


class UndoFields(TypedDict, total=False):
    """Which effects: exactly one of the first eight."""

    effect: AnyId
    proposal_id: AnyId
    undo_id: AnyId
    pass_id: AnyId
    judge: str
    policy: int
    reviewer: str
    session: AnyId
    since: AnyInstant


class AsyncReviewDoor:
    """Deciding what is proposed, and taking back what was decided."""

    position: int
    _reviewing: Reviewing
    _explaining: Explaining
    _undoing: Undoing

    async def caller(self) -> Caller:
        """Who calls; whoever has this door says so."""
        raise NotImplementedError

    def _dated(self, given: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
        """The arguments of a read; whoever has this door says so."""
        raise NotImplementedError

    async def proposals(self, **query: Unpack[ProposalFields]) -> ProposalPage:
        """A page of the review queue. Listing changes nothing."""
        return await self._reviewing.list(await self.caller(), self._dated(query))

    async def proposal(self, proposal_id: AnyId, **waiting: Unpack[ReadFields]) -> ProposalDetail:
        """One proposal with both memories."""
        return await self._reviewing.show(await self.caller(), self._dated(waiting, proposal_id=proposal_id))

    async def review_digest(self, **query: Unpack[DigestFields]) -> ReviewDigest:
        """What waits for reviewers per kind and action, how long, and what came and was decided since a moment."""
        return await self._reviewing.digest(await self.caller(), self._dated(query))

    async def accept(
        self,
        proposal_id: AnyId,
        *,
        comment: str | None = None,
        holds: AnyId | None = None,
        key: str | None = None,
        **written: Unpack[WrittenFields],
    ) -> Decided:
        """Agree to a proposal: its effect happens now, against the versions the proposal saw.

        ``holds`` goes with a contradiction and names the memory that holds; left out, both stay.
        """
        arguments = {**written, "proposal_id": proposal_id, "comment": comment, "holds": holds, "key": key}
        return self._decided(await self._reviewing.accept(await self.caller(), arguments))

    async def reject(
        self,
        proposal_id: AnyId,
        *,
        comment: str | None = None,
        key: str | None = None,
        **written: Unpack[WrittenFields],
    ) -> Decided:
        """Decline a proposal: nothing changes, and the question rests until the memory's freshness moves."""
        arguments = {**written, "proposal_id": proposal_id, "comment": comment, "key": key}
        return self._decided(await self._reviewing.reject(await self.caller(), arguments))

    async def explain(self, about: AnyId, **waiting: Unpack[ReadFields]) -> Chain:
        """The causal chain of a memory, proposal or effect: pass, verdict, proposal, decision, effect, undo."""
        return await self._explaining.chain(await self.caller(), self._dated(waiting, about=about))

    async def preview_decisions(self, *, limit: int = 25, **which: Unpack[WaitingFields]) -> BulkPreview:
        """How many open proposals a filter finds, and the first of them. Nothing is decided."""
        return await self._reviewing.preview_many(await self.caller(), {**which, "limit": limit})

    async def decide_many(
        self,
        verdict: Literal["accept", "reject"],
        *,
        proposal_ids: Sequence[AnyId] = (),
        expected: int | None = None,
        together: bool = False,
        comment: str | None = None,
        key: str | None = None,
        session_run_id: AnyId | None = None,
        report: Report = silent,
        **which: Unpack[WaitingFields],
    ) -> BulkDecided:
        """Accept or reject open proposals: those named, or all that a filter finds.

        A filter goes with ``expected``, the ``total`` of the preview: where another number is found now, nothing
        is decided. Each proposal is decided on its own and has its own result; with ``together`` all are, in one
        unit, or none.
        """
        arguments = {
            **which,
            "verdict": verdict,
            "proposal_ids": proposal_ids,
            "expected": expected,
            "together": together,
            "comment": comment,
            "key": key,
            "session_run_id": session_run_id,
        }
        decided = await self._reviewing.decide_many(await self.caller(), arguments, report)
        self.position = max(self.position, decided.position or 0)
        return decided

    async def preview_undo(
        self, *, limit: int = 25, cursor: str | None = None, **what: Unpack[UndoFields]
    ) -> UndoPreview:
        """What an undo would take back, and what not and why. Nothing is changed."""
        arguments = {**what, "limit": limit, "cursor": cursor}
        return await self._undoing.preview(await self.caller(), arguments)

    async def undo(
        self,
        *,
        key: str | None = None,
        session_run_id: AnyId | None = None,
        report: Report = silent,
        **what: Unpack[UndoFields],
    ) -> UndoView:
        """Take back what decisions or policies did: one effect, a proposal's, a pass's, or all of a judge, policy
        version, reviewer or session, optionally since a time. An undo is undone by its ``undo_id``.

        Refused effect by effect, with reasons, where later history stands on it. Erasures cannot be undone.
        ``session_run_id`` is the run that it is asked for in, ``session`` the one whose effects go.
        """
        arguments = {**what, "key": key, "session_run_id": session_run_id}
        return self._undone(await self._undoing.undo(await self.caller(), arguments, report))

    async def resume_undo(
        self, undo_id: AnyId, *, session_run_id: AnyId | None = None, report: Report = silent
    ) -> UndoView:
        """Carry an interrupted undo to its end."""
        arguments = {"undo_id": undo_id, "session_run_id": session_run_id}
        return self._undone(await self._undoing.resume(await self.caller(), arguments, report))

    async def show_undo(self, undo_id: AnyId, **waiting: Unpack[ReadFields]) -> UndoView:
        """One undo as it stands."""
        return await self._undoing.show(await self.caller(), self._dated(waiting, undo_id=undo_id))

    def _decided(self, decided: Decided) -> Decided:
        self.position = max(self.position, decided.position)
        return decided

    def _undone(self, done: UndoView) -> UndoView:
        self.position = max(self.position, done.position)
        return done
