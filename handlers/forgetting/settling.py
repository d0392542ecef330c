"""What becomes of a verdict: a proposal, or a dismissal (behaviour.md 1.16; A24, A25, settlement 12)."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal
from uuid import UUID, uuid5

from ...domain import events as e
from ...domain.forgetting_pass import PassState, proposal_id
from ...streams.log import Claim, ClaimHeld, CommandKey, Log, NewEvent, Outcome, Unit
from ...streams.payloads import Envelope, RecordedEvent
from .open_proposals import take_slot
from .pass_log import WORKER

_Reason = Literal["keep", "below_threshold", "no_threshold", "already_open"]


class Settler:
    """Settles verdicts. Any number of processes may settle the same one; it happens once."""

    def __init__(self, log: Log) -> None:
        self._log = log

    async def settle(self, recorded: RecordedEvent, state: PassState) -> None:
        """Stage a confident verdict, dismiss any other one."""
        verdict = recorded.event
        assert isinstance(verdict, e.VerdictRecorded)
        stream = proposal_id(state.id, verdict.ref)
        thresholds = state.thresholds
        threshold = thresholds.for_action(verdict.action)
        judgment = {name: getattr(verdict, name) for name in e.Judgment.model_fields}
        if threshold is None or not thresholds.clears(verdict.action, verdict.probability):
            reason: _Reason = "below_threshold" if threshold is not None else "no_threshold"
            reason = "keep" if verdict.action == "keep" else reason
            await self._append(recorded, state, stream, _dismissal(judgment, recorded, threshold, reason), ())
            return
        staged = e.ProposalStaged(
            **judgment,
            threshold=threshold,
            unselected=not thresholds.selected,
            verdict_event=recorded.event_id,
        )
        slot = take_slot(verdict.memory_id.bytes + verdict.action.encode(), stream)
        outcome = await self._append(recorded, state, stream, staged, (slot,))
        # The claim is also held when this very proposal was staged before: then the stream exists already.
        if isinstance(outcome, ClaimHeld) and outcome.holder != stream:
            await self._append(
                recorded, state, stream, _dismissal(judgment, recorded, threshold, "already_open"), ()
            )

    async def settle_missing(self, tenant: UUID, state: PassState, verdicts: Sequence[UUID]) -> None:
        """Settle verdicts whose message never came through, from the log itself."""
        for recorded in (await self._log.read_streams(tenant, verdicts)).values():
            if isinstance(recorded[0].event, e.VerdictRecorded):
                await self.settle(recorded[0], state)

    async def _append(
        self,
        recorded: RecordedEvent,
        state: PassState,
        stream: UUID,
        event: e.ProposalStaged | e.ProposalDismissed,
        claims: Sequence[Claim],
    ) -> Outcome:
        return await self._log.append(
            Unit(
                tenant=recorded.tenant,
                subject=stream,
                events=[NewEvent(stream, 1, event)],
                envelope=Envelope(
                    WORKER,
                    cause=recorded.event_id,
                    correlation=state.id,
                    policy=recorded.envelope.policy,
                    judge=event.judge,
                ),
                claims=claims,
                command=CommandKey(uuid5(stream, event.NAME).bytes, b""),
            )
        )


def _dismissal(
    judgment: Mapping[str, Any], recorded: RecordedEvent, threshold: float | None, reason: _Reason
) -> e.ProposalDismissed:
    return e.ProposalDismissed(**judgment, threshold=threshold, reason=reason, verdict_event=recorded.event_id)
