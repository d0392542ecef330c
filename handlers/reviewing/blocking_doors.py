"""The same for programs without asyncio: what reviews; see `handlers.reviewing.doors`."""

from abc import ABC, abstractmethod
from collections.abc import Coroutine, Sequence
from typing import Any, Literal, TypeVar, Unpack

from ..arguments import AnyId, DigestFields, ProposalFields, ReadFields, WrittenFields
from ..operating.views import BulkDecided, BulkPreview, Chain, Decided, ProposalDetail, ProposalPage
from ..undoing.views import UndoPreview, UndoView
from .bulk import Report, silent
from .digest import ReviewDigest
from .doors import AsyncReviewDoor, UndoFields, WaitingFields

T = TypeVar("T")


class BlockingReviewDoor(ABC):
    """Waits for each answer of the asyncio door."""

    @property
    @abstractmethod
    def _reviewer(self) -> AsyncReviewDoor:
        """The asyncio door."""

    @abstractmethod
    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine of the asyncio door and wait for it."""

    def proposals(self, **query: Unpack[ProposalFields]) -> ProposalPage:
        """See `AsyncMemory.proposals`."""
        return self.run(self._reviewer.proposals(**query))

    def proposal(self, proposal_id: AnyId, **waiting: Unpack[ReadFields]) -> ProposalDetail:
        """See `AsyncMemory.proposal`."""
        return self.run(self._reviewer.proposal(proposal_id, **waiting))

    def review_digest(self, **query: Unpack[DigestFields]) -> ReviewDigest:
        """See `AsyncMemory.review_digest`."""
        return self.run(self._reviewer.review_digest(**query))

    def accept(
        self,
        proposal_id: AnyId,
        *,
        comment: str | None = None,
        holds: AnyId | None = None,
        key: str | None = None,
        **written: Unpack[WrittenFields],
    ) -> Decided:
        """See `AsyncMemory.accept`."""
        return self.run(self._reviewer.accept(proposal_id, comment=comment, holds=holds, key=key, **written))

    def reject(
        self,
        proposal_id: AnyId,
        *,
        comment: str | None = None,
        key: str | None = None,
        **written: Unpack[WrittenFields],
    ) -> Decided:
        """See `AsyncMemory.reject`."""
        return self.run(self._reviewer.reject(proposal_id, comment=comment, key=key, **written))

    def explain(self, about: AnyId, **waiting: Unpack[ReadFields]) -> Chain:
        """See `AsyncMemory.explain`."""
        return self.run(self._reviewer.explain(about, **waiting))

    def preview_decisions(self, *, limit: int = 25, **which: Unpack[WaitingFields]) -> BulkPreview:
        """See `AsyncMemory.preview_decisions`."""
        return self.run(self._reviewer.preview_decisions(limit=limit, **which))

    def decide_many(
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
        """See `AsyncMemory.decide_many`."""
        return self.run(
            self._reviewer.decide_many(
                verdict,
                proposal_ids=proposal_ids,
                expected=expected,
                together=together,
                comment=comment,
                key=key,
                session_run_id=session_run_id,
                report=report,
                **which,
            )
        )

    def preview_undo(
        self, *, limit: int = 25, cursor: str | None = None, **what: Unpack[UndoFields]
    ) -> UndoPreview:
        """See `AsyncMemory.preview_undo`."""
        return self.run(self._reviewer.preview_undo(limit=limit, cursor=cursor, **what))

    def undo(
        self,
        *,
        key: str | None = None,
        session_run_id: AnyId | None = None,
        report: Report = silent,
        **what: Unpack[UndoFields],
    ) -> UndoView:
        """See `AsyncMemory.undo`."""
        return self.run(self._reviewer.undo(key=key, session_run_id=session_run_id, report=report, **what))

    def resume_undo(
        self, undo_id: AnyId, *, session_run_id: AnyId | None = None, report: Report = silent
    ) -> UndoView:
        """See `AsyncMemory.resume_undo`."""
        return self.run(self._reviewer.resume_undo(undo_id, session_run_id=session_run_id, report=report))

    def show_undo(self, undo_id: AnyId, **waiting: Unpack[ReadFields]) -> UndoView:
        """See `AsyncMemory.show_undo`."""
        return self.run(self._reviewer.show_undo(undo_id, **waiting))
