"""The process manager of forgetting passes (design.md 7; settlements 6 to 9).

Consumes ``pass.requested`` and verdicts from the broker. Every step is read from the pass's own stream and
appended under a key of its own, so that redelivery, a second process or a crash goes on where it stopped.
"""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from ...domain import events as e
from ...domain.forgetting_pass import PassState, verdict_id
from ...domain.policy import ForgettingPolicy
from ...projections.candidates import select_candidates
from ...projections.neighbours import refresh
from ...projections.progress import wait_for
from ...streams.handling import RetryLater
from ...streams.payloads import RecordedEvent
from ...streams.tasks import TaskPublisher
from ..engine import Engine
from .completion import Completion
from .pass_log import PassReader, load_pass, move_pass, which_exist
from .settings import ITEMS_PER_TASK, PassSettings, proposes_nothing_because, task_queue
from .settling import Settler
from .stale_proposals import withdraw_stale

OTHERS_PATIENCE = timedelta(minutes=10)
"""How long a pass waits for a process with its judge; then it fails and says so."""
VIEW_SECONDS = 60.0
"""How long a pass waits for the read models it selects from."""


class PassManager:
    """Moves passes along. Any number may run; the log decides who was first."""

    def __init__(self, engine: Engine, settings: PassSettings, tasks: TaskPublisher) -> None:
        self._engine = engine
        self._settings = settings
        self._tasks = tasks
        self._passes = PassReader(engine.log)
        self._settler = Settler(engine.log)
        self._completion = Completion(engine, self._passes, self._settler, self._take_up)

    async def run(self) -> None:
        """Close passes, and take up those that stand still. Goes on until cancelled."""
        await self._completion.run()

    async def on_requested(self, recorded: RecordedEvent) -> None:
        """Start a requested pass, select its candidates and send them out.

        A pass for another judge is left to a process that has it; nothing falls back from one to another.
        """
        state = await load_pass(self._engine.log, recorded.tenant, recorded.stream)
        waits = datetime.now(UTC) - state.requested_at < OTHERS_PATIENCE
        if state.open and state.judge != self._settings.judge.identity and waits:
            raise RetryLater(5.0)
        await self.resume(recorded.tenant, state)

    async def on_verdict(self, recorded: RecordedEvent) -> None:
        """Turn one verdict into a proposal or a dismissal, exactly once."""
        verdict = recorded.event
        if not isinstance(verdict, e.VerdictRecorded | e.VerdictRefused):
            return
        self._completion.watch(recorded.tenant, verdict.pass_id)
        if isinstance(verdict, e.VerdictRecorded):
            state = await self._passes.get(recorded.tenant, verdict.pass_id)
            if state.open:
                await self._settler.settle(recorded, state)

    async def resume(self, tenant: UUID, state: PassState) -> None:
        """Take a pass of this process's judge from where it stands to where its items are out.

        One that stands still for another judge, which nobody runs any more, fails and gives its slot free.
        """
        if state.judge != self._settings.judge.identity:
            if state.open and datetime.now(UTC) - state.requested_at > OTHERS_PATIENCE:
                await self._move(tenant, state, e.PassFailed(reason="judge_not_running"), releases=True)
            return
        if state.phase == "requested":
            await self._start(tenant, state)
            state = await load_pass(self._engine.log, tenant, state.id)
        if state.phase == "started":
            await self._select(tenant, state)
            state = await load_pass(self._engine.log, tenant, state.id)
        if state.phase in ("selected", "dispatched"):
            await self._dispatch(tenant, state)
            self._completion.watch(tenant, state.id)

    async def _take_up(self, tenant: UUID, state: PassState) -> None:
        """Go on with a pass that stands still; its tasks are sent again only when none is left on the broker."""
        if state.phase == "dispatched" and await self._tasks.waiting(task_queue(state.judge)):
            return
        await self.resume(tenant, state)

    async def _start(self, tenant: UUID, state: PassState) -> None:
        present = await self._engine.tenants.get(tenant, fresh=True)
        reason = "judgment_off" if not present.judgment else None
        if reason is None and proposes_nothing_because(self._settings) is not None:
            reason = "no_judge"
        if reason is not None:
            await self._move(tenant, state, e.PassFailed(reason=reason), releases=True)
            return
        policy, thresholds = present.policy, self._settings.thresholds
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
            stale_before=policy.stale_before(self._engine.clock()),
        )
        await self._move(tenant, state, started)

    async def _select(self, tenant: UUID, state: PassState) -> None:
        assert state.settings is not None
        await self._wait_for_views()
        await withdraw_stale(self._engine, tenant, state.id, state.id)
        head = await self._wait_for_views()
        frozen = state.settings
        policy = ForgettingPolicy(
            singles_cap=frozen.singles_cap, pairs_cap=frozen.pairs_cap, pair_neighbours=frozen.neighbours
        )
        await refresh(self._engine.database, tenant, upto_position=head, neighbours=frozen.neighbours)
        selection = await select_candidates(
            self._engine.database,
            tenant,
            policy,
            now=frozen.stale_before + timedelta(days=policy.stale_window_days),
            floor=frozen.floor,
        )
        selected = e.PassCandidatesSelected(
            items=tuple(item.recorded() for item in selection.items),
            stale_singles=selection.stale_singles,
            pairs=selection.pairs,
        )
        await self._move(tenant, state, selected)

    async def _dispatch(self, tenant: UUID, state: PassState) -> None:
        """Send out every item without a verdict. The same task within two minutes is sent once."""
        verdicts = {item.ref: verdict_id(state.id, item.ref) for item in state.items}
        judged = await which_exist(self._engine.log, tenant, list(verdicts.values()))
        refs = [ref for ref, stream in verdicts.items() if stream not in judged]
        batches = [refs[n : n + ITEMS_PER_TASK] for n in range(0, len(refs), ITEMS_PER_TASK)]
        for batch in batches:
            body = {"tenant": str(tenant), "pass": str(state.id), "refs": batch}
            await self._tasks.publish_task(task_queue(state.judge), body, f"{state.id}:{batch[0]}")
        if state.phase == "selected":
            await self._move(tenant, state, e.PassDispatched(batches=len(batches)))

    async def _move(self, tenant: UUID, state: PassState, event: e.Event, *, releases: bool = False) -> None:
        policy = (await self._engine.tenants.get(tenant)).policy_version
        await move_pass(self._engine.log, tenant, state, event, policy=policy, cause=state.id, releases=releases)

    async def _wait_for_views(self) -> int:
        head = await self._engine.log.head()
        for name in ("live_memory", "review_queue"):
            await wait_for(self._engine.database, name, head, seconds=VIEW_SECONDS)
        return head
