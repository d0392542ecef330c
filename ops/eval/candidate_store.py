"""A tenant of a real engine, filled through the commands and asked as a forgetting pass asks."""

import asyncio
import os
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
from psycopg.conninfo import make_conninfo

from ...domain import events as e
from ...domain.judging import Judge, JudgedMemory, Neighbour, PairItem, SingleItem, make_request, verdict_of
from ...domain.policy import ForgettingPolicy
from ...handlers.access.caller import Caller
from ...handlers.engine import Engine, open_engine
from ...handlers.memories import MemoryCommands
from ...projections.as_of import AsOf
from ...projections.candidates import SelectedItem, Selection, select_candidates
from ...projections.embedders import Embedder
from ...projections.generations import HOME, read_models
from ...projections.nearest import PRODUCT_WEIGHTS, Weights
from ...projections.neighbours import RefreshReport, refresh
from ...projections.rows import MemoryRow, read_rows
from ...projections.runner import ProjectionRunner, ensure_tables
from ...streams.log import Appended, NewEvent, Unit
from ...streams.master_keys import Keyring
from ...streams.payloads import Actor, Envelope
from .. import embedded
from ..migrations import migrate

AT_ONCE = 100


@dataclass(frozen=True)
class Record:
    """One dated document, to be remembered. ``project`` is what it may be superseded within."""

    id: str
    said_at: datetime
    memory_type: str
    project: str | None
    topic: str
    content: str
    successors: tuple[str, ...] = ()
    scope: str = "work"


@asynccontextmanager
async def fresh_engine(embedder: Embedder) -> AsyncGenerator[Engine]:
    """An engine over a database of its own, on the server ``LETHELOG_TEST_SUPERUSER_URL`` or an embedded one."""
    given = os.environ.get("LETHELOG_TEST_SUPERUSER_URL")
    if given:
        async with _database(given, embedder) as engine:
            yield engine
        return
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        with embedded.join(data):
            async with _database(embedded.superuser_url(data), embedder) as engine:
                yield engine
        embedded.stop(data)


@asynccontextmanager
async def _database(superuser_url: str, embedder: Embedder) -> AsyncGenerator[Engine]:
    name = f"eval_{uuid4().hex}"
    with psycopg.connect(superuser_url, autocommit=True) as connection:
        connection.execute(f"create database {name}".encode())
    try:
        url = make_conninfo(superuser_url, dbname=name)
        await asyncio.to_thread(migrate, url)
        engine = await open_engine(url, Keyring.of(os.urandom(32)), embedder)
        try:
            await ensure_tables(engine.database, engine.projections)
            yield engine
        finally:
            await engine.close()
    finally:
        with psycopg.connect(superuser_url, autocommit=True) as connection:
            connection.execute(f"drop database {name} with (force)".encode())


class Store:
    """One tenant. Use `open_store`."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.tenant = uuid4()
        self.caller = Caller(self.tenant, Actor("person", uuid4()))
        self.commands = MemoryCommands(engine)

    async def remember(self, records: Sequence[Record], *, catch_up: bool = True) -> dict[str, UUID]:
        """Remember every record at its own date; id of the record -> id of the memory."""
        made: dict[str, UUID] = {}
        for start in range(0, len(records), AT_ONCE):
            portion = records[start : start + AT_ONCE]
            written = await asyncio.gather(
                *(self.commands.import_memory(self.caller, _arguments(record)) for record in portion)
            )
            made |= {record.id: one.memory.id for record, one in zip(portion, written, strict=True)}
        if catch_up:
            await self.catch_up()
        return made

    async def catch_up(self) -> int:
        """Bring every read model up to the log's head."""
        head = await self.engine.log.head()
        for projection in self.engine.projections:
            runner = ProjectionRunner(self.engine.database, self.engine.log, self.engine.tail, projection)
            await runner.catch_up(head)
        return head

    async def analyze(self) -> None:
        """What autovacuum does some seconds after a load."""
        async with self.engine.database.connection() as connection:
            await connection.execute(f"vacuum analyze {HOME}.live_memory, {HOME}.review_queue")

    async def refresh(self, neighbours: int, weights: Weights = PRODUCT_WEIGHTS) -> RefreshReport:
        """Refresh the neighbour lists up to the log's head."""
        head = await self.engine.log.head()
        return await refresh(
            self.engine.database, self.tenant, upto_position=head, neighbours=neighbours, weights=weights
        )

    async def select(self, policy: ForgettingPolicy, floor: float) -> Selection:
        """The questions of one run, now."""
        return await select_candidates(
            self.engine.database, self.tenant, policy, now=datetime.now(UTC), floor=floor
        )

    async def pair_lists(self) -> dict[UUID, list[tuple[UUID, float]]]:
        """Every memory's nearest newer of its type, scope and project, best first, with their cosines."""
        async with read_models(self.engine.database) as connection:
            cursor = await connection.execute(
                "select memory_id, pair_ids, pair_similarities from candidate_neighbours where tenant = %s",
                (self.tenant,),
            )
            return {row[0]: list(zip(row[1], row[2], strict=True)) for row in await cursor.fetchall()}

    async def judge(self, judge: Judge, selection: Selection) -> list[e.ProposalDismissed]:
        """Ask the judge every item alone and put each answer on record as dismissed, whatever it says."""
        rows = await self._rows(selection)
        recorded: list[e.ProposalDismissed] = []
        for item in selection.items:
            asked = _question(item, rows)
            result = await judge.decide(make_request(datetime.now(UTC), [asked]))
            answer = result.answers[item.ref]
            verdict = verdict_of(asked, answer)  # pyright: ignore[reportArgumentType] - `stated` always answers
            recorded.append(
                e.ProposalDismissed(
                    pass_id=self.tenant,
                    ref=item.ref,
                    rule=item.kind,
                    action=verdict.action,
                    memory_id=verdict.memory_id,
                    related_id=verdict.related_id,
                    judged_pair=verdict.judged_pair,
                    probability=verdict.probability,
                    probabilities=dict(verdict.probabilities),
                    judge=judge.identity,
                    model=result.model,
                    seen=item.seen,
                    reason="keep" if verdict.action == "keep" else "below_threshold",
                    verdict_event=uuid4(),
                )
            )
        await asyncio.gather(*(self._append(event) for event in recorded))
        await self.catch_up()
        return recorded

    async def _rows(self, selection: Selection) -> Any:
        ids = {one for item in selection.items for one in (item.memory_id, *item.newer)}
        async with read_models(self.engine.database) as connection:
            return await read_rows(connection, self.tenant, list(ids), AsOf(datetime.now(UTC)))

    async def _append(self, event: e.Event) -> None:
        stream = uuid4()
        envelope = Envelope(Actor("worker", uuid4()), cause=uuid4(), correlation=uuid4())
        unit = Unit(tenant=self.tenant, subject=stream, events=[NewEvent(stream, 1, event)], envelope=envelope)
        if not isinstance(await self.engine.log.append(unit), Appended):
            raise RuntimeError("a fresh stream was taken")


async def open_store(engine: Engine) -> Store:
    """A new tenant of this engine."""
    store = Store(engine)
    await engine.tenants.ensure(store.tenant, store.caller.actor)
    return store


def _arguments(record: Record) -> dict[str, Any]:
    arguments = {
        "memory_type": record.memory_type,
        "scope": record.scope,
        "topic": record.topic[:256],
        "content": record.content,
        "occurred_at": record.said_at,
    }
    return arguments if record.project is None else {**arguments, "project": record.project[:256]}


def _question(item: SelectedItem, rows: dict[UUID, MemoryRow]) -> PairItem | SingleItem:
    memory = _judged(rows[item.memory_id])
    if item.kind == "pair":
        return PairItem(item.ref, memory, _judged(rows[item.newer[0]]), item.similarity[0])
    near = zip(item.newer, item.similarity, strict=True)
    newer = [Neighbour(f"{item.ref}n{n}", _judged(rows[one]), cosine) for n, (one, cosine) in enumerate(near)]
    return SingleItem(item.ref, memory, tuple(newer))


def _judged(row: MemoryRow) -> JudgedMemory:
    return JudgedMemory(
        memory_id=row.memory_id,
        state_version=row.state_version,
        memory_type=row.memory_type,
        scope=row.scope,
        project=None if row.project is None else str(row.project),
        topic=row.topic,
        content=row.content,
        occurred_at=row.occurred_at,
        last_touched_at=row.fresh_at,
        trust=row.trust,
        tags=tuple(row.tags),
        expires_at=row.expires_at,
        valid_to=row.valid_to,
        pinned=row.pinned,
        verified=row.verified,
    )
