"""Carrying a consolidation pass from where it stands to its end (behaviour.md 1.13; A13 to A16).

Every step is read from the pass's own stream and appended under a key of its own, so that a second delivery, a
second process or a crash goes on where it stopped and proposes nothing twice.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from uuid import UUID, uuid5

from ...domain import events as e
from ...domain.consolidation import PAIRS, ConsolidationState, Side, edge_between
from ...domain.differences import Said, read
from ...domain.errors import NotCaughtUp
from ...projections.near_pairs import PAGE, NearPair, compare, read_texts, unsaid
from ...projections.progress import wait_for
from ...streams.handling import RetryLater
from ...streams.log import Claim, CommandKey, NewEvent, Unit
from ...streams.payloads import Envelope, RecordedEvent
from ..engine import Engine
from ..forgetting.pass_log import WORKER
from ..reviewing.staging import stage
from .passes import DIGEST, LATEST, OPEN, PATIENCE, changed_after, is_at_work, latest, load_consolidation

VIEW_SECONDS = 60.0
"""How long a pass waits for the read models that it compares."""
TEXTS_HELD = 5_000
"""Of how many memories it is known at once what they say."""


class Consolidating:
    """Runs passes. Any number of processes may; the log decides who was first."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def on_requested(self, recorded: RecordedEvent) -> None:
        """Run a requested pass; a read model that is behind is waited for.

        One of the schedule is run by whoever asked for it, and taken up here where that one does not end it.
        """
        asked = recorded.event
        if isinstance(asked, e.ConsolidationRequested) and asked.trigger == "schedule":
            state = await load_consolidation(self._engine.log, recorded.tenant, recorded.stream)
            if state.open and await is_at_work(self._engine.log, state):
                raise RetryLater(PATIENCE.total_seconds())
        try:
            await self.run(recorded.tenant, recorded.stream)
        except NotCaughtUp:
            raise RetryLater(5.0) from None

    async def run(self, tenant: UUID, pass_id: UUID) -> ConsolidationState:
        """Take a pass to its end. Raises `NotCaughtUp` when the read models stay behind, and `Unavailable`."""
        state = await load_consolidation(self._engine.log, tenant, pass_id)
        if state.phase == "requested":
            await self._move(tenant, state, await self._select(tenant, state))
            state = await load_consolidation(self._engine.log, tenant, pass_id)
        if state.phase == "selected":
            await self._complete(tenant, state, await self._stage(tenant, state))
            state = await load_consolidation(self._engine.log, tenant, pass_id)
        return state

    async def _select(self, tenant: UUID, state: ConsolidationState) -> e.ConsolidationSelected:
        asked = state.requested
        head = await self._engine.log.head()
        for name in ("live_memory", "review_queue"):
            await wait_for(self._engine.database, name, head, seconds=VIEW_SECONDS)
        if asked.floor is None:
            return e.ConsolidationSelected(pairs=(), looked_at=0, skipped={}, position=head, whole=False)
        compared = await compare(
            self._engine.database,
            tenant,
            model=asked.embedding_model,
            floor=asked.floor,
            changed_after=changed_after(await latest(self._engine.log, tenant), asked),
        )
        chosen: list[e.ChosenPair] = []
        skipped: Counter[str] = Counter()
        said: dict[UUID, Said] = {}
        at, looked_at = 0, 0
        while at < len(compared.near) and len(chosen) < PAIRS:
            page = await unsaid(self._engine.database, tenant, compared.near[at : at + PAGE])
            at += PAGE
            looked_at += len(page)
            await self._read(tenant, page, said)
            chosen += await asyncio.to_thread(_choose, page, said, skipped)
        whole = compared.whole and at >= len(compared.near) and len(chosen) <= PAIRS
        return e.ConsolidationSelected(
            pairs=tuple(chosen[:PAIRS]),
            looked_at=looked_at,
            skipped=dict(sorted(skipped.items())),
            position=compared.position,
            whole=whole,
        )

    async def _read(self, tenant: UUID, page: Sequence[NearPair], said: dict[UUID, Said]) -> None:
        """Have what the memories of a page say, of each once as long as there is room."""
        wanted = {one for pair in page for one in (pair.newer, pair.older)}
        if len(said) + len(wanted) > TEXTS_HELD:
            said.clear()
        texts = await read_texts(self._engine.database, tenant, wanted - said.keys())
        said |= await asyncio.to_thread(lambda: {one: read(text) for one, text in texts.items()})

    async def _stage(self, tenant: UUID, state: ConsolidationState) -> Counter[str]:
        """Put the proposals into the queue. Gives how many stand there, by edge, and of which others took the
        place, by None."""
        assert state.selected is not None
        policy = (await self._engine.tenants.get(tenant)).policy_version
        envelope = Envelope(WORKER, cause=state.id, correlation=state.id, policy=policy)
        staged: Counter[str] = Counter()
        for pair in state.selected.pairs:
            assert state.requested.floor is not None
            both = {pair.newer, pair.older}
            if both - set((await self._engine.vault.data_keys(tenant, both)).known):
                # Erased since it was chosen; nobody would ever take a proposal about it back.
                continue
            said = e.EdgeStaged(
                memory_id=pair.newer,
                related_id=pair.older,
                seen=pair.seen,
                source=state.id,
                edge=pair.edge,
                similarity=pair.similarity,
                embedding_model=state.requested.embedding_model,
                floor=state.requested.floor,
            )
            made = await stage(self._engine.log, tenant, said, envelope)
            there = made.staged or await self._engine.log.newest_name(tenant, made.proposal) is not None
            staged[pair.edge if there else ""] += 1
        return staged

    async def _complete(self, tenant: UUID, state: ConsolidationState, staged: Counter[str]) -> None:
        [before] = await self._engine.log.holders(tenant, [(LATEST, DIGEST)])
        already_there = staged.pop("", 0)
        await self._move(
            tenant,
            state,
            e.ConsolidationCompleted(staged=dict(sorted(staged.items())), already_there=already_there),
            [Claim(OPEN, DIGEST, state.id, None), Claim(LATEST, DIGEST, before, state.id)],
        )

    async def _move(
        self, tenant: UUID, state: ConsolidationState, event: e.Event, claims: Sequence[Claim] = ()
    ) -> None:
        """Append one step, once however often it is tried; another process may have been quicker."""
        policy = (await self._engine.tenants.get(tenant)).policy_version
        await self._engine.log.append(
            Unit(
                tenant=tenant,
                subject=state.id,
                events=[NewEvent(state.id, state.version + 1, event)],
                envelope=Envelope(WORKER, cause=state.id, correlation=state.id, policy=policy),
                claims=claims,
                command=CommandKey(uuid5(state.id, f"step:{event.NAME}").bytes, b""),
            )
        )


def _choose(page: Sequence[NearPair], said: Mapping[UUID, Said], skipped: Counter[str]) -> list[e.ChosenPair]:
    """The pairs of a page that an edge is proposed for; the others are counted by why not."""
    chosen: list[e.ChosenPair] = []
    for pair in page:
        # Erased since it was found to be near: there is nothing left to be compared.
        if pair.newer not in said or pair.older not in said:
            continue
        newer = Side(pair.types[0], said[pair.newer], pair.guarded[0])
        older = Side(pair.types[1], said[pair.older], pair.guarded[1])
        edge, reason = edge_between(newer, older)
        if edge is None:
            skipped[reason or ""] += 1
            continue
        seen = dict(zip((pair.newer, pair.older), pair.versions, strict=True))
        chosen.append(
            e.ChosenPair(newer=pair.newer, older=pair.older, edge=edge, similarity=pair.similarity, seen=seen)
        )
    return chosen
