"""What erasure answers: ids, codes and counts, never what was said."""

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import Field

from ...domain.erasure import Phase
from ...domain.events import CheckedPlace, Derived, ErasureKind, ExportedCopy, ProviderCall, ReEntry
from ..operating.views import View


class ErasurePreview(View):
    """What an erasure would reach. ``id`` is what to erase by."""

    id: UUID
    kind: ErasureKind
    memories: int
    ids: tuple[UUID, ...] = ()
    """Those memories; the first hundred."""
    warning: str | None = None
    """What must not be overlooked: that nothing of a tenant would be left."""
    derived: int
    """How many of them only follow from what was asked for."""
    derived_choice: Derived
    left: tuple[UUID, ...] = ()
    """Memories that follow from these and stay, to be looked at; the first hundred."""
    left_count: int = 0
    places: dict[str, int]
    """Entries per place."""
    position: int


class Acknowledged(View):
    """A subscriber, and when it was on record that it erased its copies."""

    consumer: str
    at: datetime


class ErasureView(View):
    """One erasure as it stands."""

    id: UUID
    kind: ErasureKind
    phase: Phase
    reason: str | None = None
    re_entry: ReEntry | None = None
    memories: int
    previewed: int
    """How many the preview found; more may have been written before it was performed, and went too."""
    since_preview: int = 0
    """How many more went than the preview found."""
    blocked: int = 0
    left: tuple[UUID, ...] = ()
    left_count: int = 0
    previewed_at: datetime
    requested_at: datetime | None = None
    performed_at: datetime | None = None
    times_performed: int = 0
    verified_at: datetime | None = None
    places: tuple[CheckedPlace, ...] = ()
    """What looking again found; empty until it is verified."""
    remaining: dict[str, str] = Field(default_factory=dict[str, str])
    """Places that are not clean yet, and why."""
    providers: tuple[ProviderCall, ...] = ()
    exports: tuple[ExportedCopy, ...] = ()
    """Archives written before that may hold what was erased; the last hundred of ``exports_count``."""
    exports_count: int = 0
    acknowledged: tuple[Acknowledged, ...] = ()
    """Subscribers that said they erased their copies, in that order."""
    late: tuple[str, ...] | None = None
    """Subscribers there are on the broker now that have not said so, the first hundred; None where nobody looked:
    before it is performed, in lists, and where the broker does not answer."""
    late_count: int = 0
    certificate: dict[str, Any] | None = None
    """The signed certificate, once it is verified; write it to a file for ``lethelog erase verify``."""

    @property
    def verified(self) -> bool:
        """Whether every place was looked at and holds nothing."""
        return self.phase == "verified"


class ErasurePage(View):
    """Erasures of a tenant, newest first."""

    erasures: tuple[ErasureView, ...]
    next_cursor: str | None = None


class DeploymentKey(View):
    """The public half of the key that certificates are signed with."""

    public_key: str
    """Base64, as certificates carry it; to be kept elsewhere and named by ``--public-key``."""
    fingerprint: str


class CertificateCheck(View):
    """What holding a certificate against the system found."""

    erasure_id: UUID
    own_key: bool
    """Whether this deployment's key signed it."""
    on_record: bool
    """Whether the log says that exactly this was certified."""
    done_again: bool = False
    """Whether the log was put back from before it and it was done again by the ledger: that log cannot say so."""
    remaining: dict[str, str] = Field(default_factory=dict[str, str])
    """Places in which something is there again."""

    @property
    def holds(self) -> bool:
        """Whether all of it still holds."""
        return self.own_key and (self.on_record or self.done_again) and not self.remaining
