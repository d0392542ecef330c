"""An erasure that was done, as the ledger and the log have it."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from ...domain import events as e
from ...domain.erasure import Erasure
from ...streams.erasure_ledger import Entry
from .targets import LEFT_SHOWN

IDS_PER_EVENT = 1_000
EXPORTS_SHOWN = 100


@dataclass(frozen=True, slots=True)
class OutOfItsReach:
    """What an erasure does not reach, as far as it is known."""

    providers: tuple[e.ProviderCall, ...]
    """Who received text of it."""
    exports: list[e.ExportedCopy]
    """Archives that may hold text of it, oldest first."""
    left: tuple[UUID, ...]
    """Memories that follow from it and stay."""


def ledger_entry(
    tenant: UUID, state: Erasure, memories: tuple[UUID, ...], names: tuple[UUID, ...], at: datetime
) -> Entry:
    """What the ledger says of an erasure that was asked for."""
    assert state.requested is not None
    return Entry(
        tenant=tenant,
        erasure=state.id,
        kind=state.previewed.kind,
        reason=state.requested.reason,
        re_entry=state.requested.re_entry,
        at=at,
        memories=memories,
        names=names,
        everything=state.previewed.kind == "tenant",
    )


def performed_events(
    entry: Entry,
    counts: dict[str, int],
    because: str,
    blocked: int,
    beyond: OutOfItsReach,
) -> list[e.ErasurePerformed]:
    """What goes on record with it, in portions that fit a message; the last one carries the counts."""
    portions = [
        entry.memories[start : start + IDS_PER_EVENT] for start in range(0, len(entry.memories), IDS_PER_EVENT)
    ] or [()]
    last = e.ErasurePerformed(
        memories=portions[-1],
        names=entry.names[:IDS_PER_EVENT] if len(entry.names) <= IDS_PER_EVENT else (),
        tenant_key=entry.everything,
        because="ledger" if because == "ledger" else "request",
        blocked=blocked,
        left=beyond.left[:LEFT_SHOWN],
        left_count=len(beyond.left),
        providers=beyond.providers,
        exports=tuple(beyond.exports[-EXPORTS_SHOWN:]),
        exports_count=len(beyond.exports),
        places=counts,
    )
    earlier = [
        e.ErasurePerformed(memories=portion, because=last.because, final=False) for portion in portions[:-1]
    ]
    if len(entry.names) > IDS_PER_EVENT:
        earlier += [
            e.ErasurePerformed(
                memories=(),
                names=entry.names[start : start + IDS_PER_EVENT],
                because=last.because,
                final=False,
            )
            for start in range(0, len(entry.names), IDS_PER_EVENT)
        ]
    return [*earlier, last]
