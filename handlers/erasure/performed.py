"""An erasure that was done, as the ledger and the log have it."""

from datetime import datetime
from uuid import UUID

from ...domain import events as e
from ...domain.erasure import Erasure
from ...streams.erasure_ledger import Entry
from .targets import LEFT_SHOWN

IDS_PER_EVENT = 1_000


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
    providers: tuple[e.ProviderCall, ...],
    left: tuple[UUID, ...],
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
        left=left[:LEFT_SHOWN],
        left_count=len(left),
        providers=providers,
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
