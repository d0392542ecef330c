"""The same for programs without asyncio: what erases; see `handlers.erasure.doors`."""

from abc import ABC, abstractmethod
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar, Unpack

from ...domain.events import ReEntry
from ..arguments import AnyId
from .doors import AsyncErasureDoor, ErasureFields
from .ledger import LedgerView
from .rehearsal import Rehearsal, Step
from .views import CertificateCheck, DeploymentKey, ErasurePage, ErasurePreview, ErasureView

T = TypeVar("T")


class BlockingErasureDoor(ABC):
    """Waits for each answer of the asyncio door."""

    @property
    @abstractmethod
    def _erasing(self) -> AsyncErasureDoor:
        """The asyncio door."""

    @abstractmethod
    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine of the asyncio door and wait for it."""

    def preview_erasure(self, **what: Unpack[ErasureFields]) -> ErasurePreview:
        """See `AsyncMemory.preview_erasure`."""
        return self.run(self._erasing.preview_erasure(**what))

    def erase(self, erasure_id: AnyId, *, reason: str, re_entry: ReEntry = "none") -> ErasureView:
        """See `AsyncMemory.erase`."""
        return self.run(self._erasing.erase(erasure_id, reason=reason, re_entry=re_entry))

    def retry_erasure(self, erasure_id: AnyId) -> ErasureView:
        """See `AsyncMemory.retry_erasure`."""
        return self.run(self._erasing.retry_erasure(erasure_id))

    def erasure(self, erasure_id: AnyId) -> ErasureView:
        """See `AsyncMemory.erasure`."""
        return self.run(self._erasing.erasure(erasure_id))

    def erasures(self, *, unfinished: bool = False, limit: int = 25, cursor: str | None = None) -> ErasurePage:
        """See `AsyncMemory.erasures`."""
        return self.run(self._erasing.erasures(unfinished=unfinished, limit=limit, cursor=cursor))

    def check_certificate(self, document: Mapping[str, Any]) -> CertificateCheck:
        """See `AsyncMemory.check_certificate`."""
        return self.run(self._erasing.check_certificate(document))

    def erasure_ledger(self) -> LedgerView:
        """See `AsyncMemory.erasure_ledger`."""
        return self.run(self._erasing.erasure_ledger())

    def complete_erasure_ledger(self) -> LedgerView:
        """See `AsyncMemory.complete_erasure_ledger`."""
        return self.run(self._erasing.complete_erasure_ledger())

    def erasure_key(self) -> DeploymentKey:
        """See `AsyncMemory.erasure_key`."""
        return self.run(self._erasing.erasure_key())

    def rehearse_erasure(self, step: Step = lambda _what: None) -> Rehearsal:
        """See `AsyncMemory.rehearse_erasure`."""
        return self.run(self._erasing.rehearse_erasure(step))
