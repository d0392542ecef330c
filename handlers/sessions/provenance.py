"""In which session run a write is made (behaviour.md 1.15).

A run that was closed by somebody takes no further writes: they succeed without naming it. A run whose lease ran
out begins again with the write.
"""

from collections.abc import Sequence
from uuid import UUID, uuid5

from ...domain.errors import NotFound
from ...domain.session import Session, decide_seen, evolve_session
from ...streams.folding import fold_stream
from ...streams.log import CommandKey, Log, NewEvent, Unit
from ...streams.payloads import Envelope, RecordedEvent
from ..access.caller import Caller
from ..kinds import refuse_other_kind


async def load_session(log: Log, tenant: UUID, run_id: UUID) -> Session:
    """Its state. Raises `NotFound`, or `WrongKind` for another thing's id."""
    return session_of(await log.read_stream(tenant, run_id), run_id)


def session_of(recorded: Sequence[RecordedEvent], run_id: UUID) -> Session:
    """The state of a run from its events. Raises `NotFound` where there are none, or `WrongKind`."""
    refuse_other_kind(run_id, recorded, "session", field="session_run_id")
    state = fold_stream(recorded, evolve_session)
    if state is None:
        raise NotFound(f"session_run_id: no session run {run_id}", field="session_run_id", id=run_id)
    return state


async def written_in(log: Log, tenant: UUID, run_id: UUID | None) -> UUID | None:
    """The run that the events of a write name. Raises `NotFound`."""
    if run_id is None:
        return None
    state = await load_session(log, tenant, run_id)
    return None if state.closed_at is not None else state.id


async def note_written(log: Log, caller: Caller, run_id: UUID | None, cause: UUID) -> None:
    """Say after a write that its session is there. One that is overtaken is no loss: somebody said so."""
    if run_id is None:
        return
    state = await load_session(log, caller.tenant, run_id)
    events = decide_seen(state, await log.now(), "write")
    if events:
        await log.append(
            Unit(
                tenant=caller.tenant,
                subject=run_id,
                events=[NewEvent(run_id, state.version + n, event) for n, event in enumerate(events, 1)],
                envelope=Envelope(caller.actor, cause=cause, correlation=cause),
                command=CommandKey(uuid5(run_id, f"written:{cause}").bytes, b""),
            )
        )
