"""The process manager of forgetting passes (design.md 7; settlements 6 to 9).

Consumes ``pass.requested`` and verdicts from the broker. Every step is read from the pass's own stream and
appended under a key of its own, so that redelivery, a second process or a crash goes on where it stopped.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Literal
from uuid import UUID, uuid5

from ...domain import events as e
from ...domain.errors import LethelogError
from ...domain.forgetting_pass import PassState, proposal_id, verdict_id
from ...domain.proposal import Proposal, changed_since, decide_withdraw, evolve_proposal
from ...domain.tenant import Tenant
from ...projections.candidates import select_candidates
from ...projections.neighbours import refresh
from ...projections.runner import wait_for
from ...streams.log import Claim, ClaimHeld, CommandKey, NewEvent, Unit
from ...streams.payloads import Envelope, RecordedEvent
from ...streams.tasks import TaskPublisher
from ..engine import Engine
from ..memories import MemoryCommands
from .open_proposals import KIND as OPEN_PROPOSAL
from .open_proposals import open_claim, open_digest
from .pass_log import OPEN_KIND, WORKER, PassReader, load_pass, move_pass, which_exist
from .settings import ITEMS_PER_TASK, TASK_QUEUE, PassSettings, proposes_nothing_because

COMPLETION_SECONDS = 0.25
"""How often open passes are looked at for completion."""
LOOK_AROUND_SECONDS = 10.0
"""How often passes opened by other processes are looked for."""
VIEW_SECONDS = 60.0
"""How long a pass waits for the read models it selects from."""


class PassManager:
    """Moves passes along. Any number may run; the log decides who was first."""

    def __init__(self, engine: Engine, settings: PassSettings, tasks: TaskPublisher) -> None:
        self._engine = engine
        self._settings = settings
        self._tasks = tasks
        self._memories = MemoryCommands(engine)
        self._passes = PassReader(engine.log)
        self._open: set[tuple[UUID, UUID]] = set()

    async def on_requested(self, recorded: RecordedEvent) -> None:
        """Start a requested pass, select its candidates and send them out."""
        tenant, pass_id = recorded.tenant, recorded.stream
        state = await load_pass(self._engine.log, tenant, pass_id)
        if state.phase == "requested":
            await self._start(recorded, state)
            state = await load_pass(self._engine.log, tenant, pass_id)
        if state.phase == "started":
            await self._select(recorded, state)
            state = await load_pass(self._engine.log, tenant, pass_id)
        if state.phase in ("selected", "dispatched"):
            await self._dispatch(recorded, state)
            self._open.add((tenant, pass_id))

    async def on_verdict(self, recorded: RecordedEvent) -> None:
        """Turn one verdict into a proposal or a dismissal, exactly once."""
        verdict = recorded.event
        if isinstance(verdict, e.VerdictRecorded):
            state = await self._passes.get(recorded.tenant, verdict.pass_id)
            if state.open:
                await self._settle(recorded, verdict, state)
                self._open.add((recorded.tenant, verdict.pass_id))
        elif isinstance(verdict, e.VerdictRefused):
            self._open.add((recorded.tenant, verdict.pass_id))

    async def run(self) -> None:
        """Complete passes whose items all have their end. Goes on until cancelled."""
        looked = 0.0
        while True:
            with contextlib.suppress(LethelogError):
                if asyncio.get_running_loop().time() - looked > LOOK_AROUND_SECONDS:
                    self._open |= await self._open_passes()
                    looked = asyncio.get_running_loop().time()
                for tenant, pass_id in list(self._open):
                    if await self.complete_if_done(tenant, pass_id):
                        self._open.discard((tenant, pass_id))
            await asyncio.sleep(COMPLETION_SECONDS)

    async def complete_if_done(self, tenant: UUID, pass_id: UUID) -> bool:
        """Close a pass when every item has its verdict and every verdict its end; True when it is closed."""
        state = await self._passes.get(tenant, pass_id)
        if not state.open:
            return True
        if state.phase not in ("selected", "dispatched"):
            return False
        verdicts = {verdict_id(pass_id, item.ref): item.ref for item in state.items}
        names = await self._engine.log.stream_names(tenant, verdicts)
        if len(names) < len(verdicts):
            return False
        answered = [ref for stream, ref in verdicts.items() if names[stream] == "verdict.recorded"]
        ends = [proposal_id(pass_id, ref) for ref in answered]
        if len(await which_exist(self._engine.log, tenant, ends)) < len(ends):
            return False
        proposed: Counter[str] = Counter()
        dismissed: Counter[str] = Counter()
        for recorded in (await self._engine.log.read_streams(tenant, ends)).values():
            first = recorded[0].event
            if isinstance(first, e.ProposalStaged):
                proposed[first.action] += 1
            elif isinstance(first, e.ProposalDismissed):
                dismissed[first.action] += 1
        event = e.PassCompleted(
            judged=len(answered),
            refused=len(verdicts) - len(answered),
            proposed=dict(proposed),
            dismissed=dict(dismissed),
        )
        tenant_state = await self._engine.tenants.get(tenant)
        state = await load_pass(self._engine.log, tenant, pass_id)
        return not state.open or await move_pass(
            self._engine.log,
            tenant,
            state,
            event,
            policy=tenant_state.policy_version,
            cause=pass_id,
            releases=True,
        )

    async def _start(self, recorded: RecordedEvent, state: PassState) -> None:
        tenant = await self._engine.tenants.get(recorded.tenant, fresh=True)
        reason = "judgment_off" if not tenant.judgment else None
        if reason is None and proposes_nothing_because(self._settings) is not None:
            reason = "no_judge"
        if reason is not None:
            failed = e.PassFailed(reason=reason)
            await self._move(recorded, state, failed, tenant, releases=True)
            return
        policy, thresholds = tenant.policy, self._settings.thresholds
        started = e.PassStarted(
            judge=self._settings.judge.identity,
            thresholds={
                "archive": thresholds.archive,
                "supersede": thresholds.supersede,
                "conflict": thresholds.conflict,
            },
            unselected=not thresholds.selected,
            embedding_model=self._engine.embedder.model,
            floor=self._settings.default_floor if policy.floor is None else policy.floor,
            singles_cap=policy.singles_cap,
            pairs_cap=policy.pairs_cap,
            neighbours=policy.pair_neighbours,
            items_per_call=policy.items_per_call,
            stale_before=self._engine.clock() - timedelta(days=policy.stale_window_days),
        )
        await self._move(recorded, state, started, tenant)

    async def _select(self, recorded: RecordedEvent, state: PassState) -> None:
        assert state.settings is not None
        tenant = await self._engine.tenants.get(recorded.tenant)
        head = await self._engine.log.head()
        await self._wait_for_views(head)
        await self._withdraw_stale(recorded)
        head = await self._engine.log.head()
        await self._wait_for_views(head)
        await refresh(
            self._engine.database,
            recorded.tenant,
            upto_position=head,
            neighbours=tenant.policy.pair_neighbours,
        )
        selection = await select_candidates(
            self._engine.database,
            recorded.tenant,
            tenant.policy,
            now=self._engine.clock(),
            floor=state.settings.floor,
        )
        selected = e.PassCandidatesSelected(
            items=tuple(item.recorded() for item in selection.items),
            stale_singles=selection.stale_singles,
            pairs=selection.pairs,
        )
        await self._move(recorded, state, selected, tenant)

    async def _dispatch(self, recorded: RecordedEvent, state: PassState) -> None:
        judged = await which_exist(
            self._engine.log, recorded.tenant, [verdict_id(state.id, item.ref) for item in state.items]
        )
        refs = [item.ref for item in state.items if verdict_id(state.id, item.ref) not in judged]
        batches = [refs[n : n + ITEMS_PER_TASK] for n in range(0, len(refs), ITEMS_PER_TASK)]
        for batch in batches:
            body = {"tenant": str(recorded.tenant), "pass": str(state.id), "refs": batch}
            await self._tasks.publish_task(TASK_QUEUE, body, f"{state.id}:{batch[0]}")
        if state.phase == "selected":
            tenant = await self._engine.tenants.get(recorded.tenant)
            await self._move(recorded, state, e.PassDispatched(batches=len(batches)), tenant)

    async def _settle(self, recorded: RecordedEvent, verdict: e.VerdictRecorded, state: PassState) -> None:
        stream = proposal_id(state.id, verdict.ref)
        thresholds = state.thresholds
        threshold = thresholds.for_action(verdict.action)
        judgment = {name: getattr(verdict, name) for name in e.Judgment.model_fields}
        event: e.ProposalStaged | e.ProposalDismissed
        claims: list[Claim] = []
        if thresholds.clears(verdict.action, verdict.probability):
            assert threshold is not None
            event = e.ProposalStaged(
                **judgment,
                threshold=threshold,
                unselected=not thresholds.selected,
                verdict_event=recorded.event_id,
            )
            claims = [Claim(OPEN_PROPOSAL, open_digest(verdict.memory_id, verdict.action), None, stream)]
        else:
            event = _dismissal(judgment, verdict, threshold, recorded.event_id)
        outcome = await self._append_end(recorded, state, stream, event, claims)
        if isinstance(outcome, ClaimHeld):
            event = _dismissal(judgment, verdict, threshold, recorded.event_id, reason="already_open")
            await self._append_end(recorded, state, stream, event, [])

    async def _append_end(
        self,
        recorded: RecordedEvent,
        state: PassState,
        stream: UUID,
        event: e.ProposalStaged | e.ProposalDismissed,
        claims: list[Claim],
    ) -> object:
        return await self._engine.log.append(
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

    async def _withdraw_stale(self, recorded: RecordedEvent) -> None:
        """Take back open proposals whose memories moved on since (settlement 6)."""
        async with self._engine.database.connection() as connection:
            cursor = await connection.execute(
                "select proposal_id from lethelog_views.review_queue where tenant = %s and status = 'proposed'",
                (recorded.tenant,),
            )
            ids = [row[0] for row in await cursor.fetchall()]
        proposals: list[Proposal] = []
        for stream, events in (await self._engine.log.read_streams(recorded.tenant, ids)).items():
            state: Proposal | None = None
            for one in events:
                if one.event is not None:
                    state = evolve_proposal(
                        state, one.event, stream=stream, version=one.version, recorded_at=one.recorded_at
                    )
            if state is not None and state.status == "proposed":
                proposals.append(state)
        about = {m for p in proposals for m in (p.memory_id, p.related_id) if m is not None}
        memories = await self._memories.load_many(recorded.tenant, list(about))
        for proposal in proposals:
            known = proposal.memory_id in memories and (
                proposal.related_id is None or proposal.related_id in memories
            )
            if known and not changed_since(proposal, memories):
                continue
            withdrawn = decide_withdraw(proposal, "stale", recorded.stream)
            await self._engine.log.append(
                Unit(
                    tenant=recorded.tenant,
                    subject=proposal.id,
                    events=[NewEvent(proposal.id, proposal.version + 1, event) for event in withdrawn],
                    envelope=Envelope(WORKER, cause=recorded.event_id, correlation=recorded.stream),
                    claims=[open_claim(proposal, release=True)],
                )
            )

    async def _move(
        self,
        recorded: RecordedEvent,
        state: PassState,
        event: e.Event,
        tenant: Tenant,
        *,
        releases: bool = False,
    ) -> None:
        await move_pass(
            self._engine.log,
            recorded.tenant,
            state,
            event,
            policy=tenant.policy_version,
            cause=recorded.event_id,
            releases=releases,
        )

    async def _wait_for_views(self, position: int) -> None:
        for name in ("live_memory", "review_queue"):
            await wait_for(self._engine.database, name, position, seconds=VIEW_SECONDS)

    async def _open_passes(self) -> set[tuple[UUID, UUID]]:
        async with self._engine.database.connection() as connection:
            cursor = await connection.execute(
                "select tenant, holder from lethelog.claims where kind = %s", (OPEN_KIND,)
            )
            return {(tenant, holder) for tenant, holder in await cursor.fetchall()}


def _dismissal(
    judgment: Mapping[str, Any],
    verdict: e.VerdictRecorded,
    threshold: float | None,
    verdict_event: UUID,
    reason: Literal["already_open"] | None = None,
) -> e.ProposalDismissed:
    why: Literal["keep", "below_threshold", "no_threshold", "already_open"]
    if reason is not None:
        why = reason
    elif verdict.action == "keep":
        why = "keep"
    else:
        why = "no_threshold" if threshold is None else "below_threshold"
    return e.ProposalDismissed(**judgment, threshold=threshold, reason=why, verdict_event=verdict_event)
