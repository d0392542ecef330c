"""Carrying an erasure to its end: done in one transaction, then looked at, and complete only if nothing is there.

Every step may be cut short by a crash and is gone on with by whoever comes next: what is done is on record, and
what is on record is not done twice. The order in which an erasure takes its locks:

1. the tenant's neighbour lists, whose making reads texts for long;
2. all writers of clear copies (`recollection.keep_out`): what they prepared before they prepare anew afterwards;
3. the log: nobody appends, so that what is reached is everything there is.

Then the ledger is written, and only then keys and clear copies go, with the event that says so, in one commit.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from uuid import UUID

import psycopg

from ...domain import erasure as rules
from ...domain import events as e
from ...domain.apart import blocked_within, standing_apart
from ...domain.erasure import Erasure
from ...domain.errors import Conflict, Misconfigured, NotFound, Unavailable
from ...domain.proposal import decide_withdraw
from ...projections.erasing import Gone, erase_clear_texts, find_sent_elsewhere
from ...projections.links import catch_up, catch_up_within
from ...streams.database import Connection
from ...streams.erasure_ledger import Entry
from ...streams.folding import fold_stream
from ...streams.leadership import Leadership
from ...streams.log import Appended, Claim, NewEvent, Unit
from ...streams.payloads import Actor, Envelope, RecordedEvent
from ...streams.recollection import keep_out
from ...streams.signing import digest
from ..archive.records import Exports
from ..claims import TextClaims
from ..engine import Engine
from ..forgetting.open_proposals import KIND as OPEN_PROPOSAL
from ..forgetting.open_proposals import release_slot
from ..kinds import refuse_other_kind
from ..reviewing.loading import load_open
from ..webhooks import deliveries
from .certificates import statement
from .ledger_check import find_back
from .means import ErasureMeans
from .performed import OutOfItsReach, ledger_entry, performed_events
from .places import Blind, Erasing, Looking, places
from .targets import (
    Asked,
    Targets,
    find_beginnings,
    find_decided,
    find_judges,
    find_left,
    find_sessions,
    find_targets,
)

ERASURE = "erasure"
"""Kind of the claim that each erasure holds for ever: it is what lists them."""
OPEN = "open-erasure"
"""Kind of the claim that an erasure holds from when it is asked for until it is verified."""
ATTEMPTS = 12
LOCK_SECONDS = 5
SEEN_SECONDS = 5.0
"""How long processes get to say that they have seen an erasure before it counts as incomplete."""
STILL_THERE = "still_there"
LOOK_FAILED = "look_failed"
"""The look finds nothing of others either, where something of them is: what it says proves nothing."""
_PROCESSES = "processes"
_PAGE = 500
_APPEND_LOCK = 7283460113
"""The lock of ``lethelog.append``."""
CARRIER = Actor("worker", UUID("5e2b7a0c-6f0e-5c1b-8d43-70c5a1f2e9b6"))
"""The actor of what an erasure does by itself."""
_LOG = logging.getLogger(__name__)

Checkpoint = Callable[[str], Awaitable[None]]
"""Called at the points where a crash would hurt most; tests stop the process there."""


async def pass_by(_point: str) -> None:
    """The checkpoint of production: nothing happens there."""


class _MovedOn(Exception):
    """Somebody else carried the erasure further meanwhile."""


class Saga:
    """Carries erasures on. Any number of processes may; one at a time does for each erasure."""

    def __init__(self, engine: Engine, *, checkpoint: Checkpoint = pass_by) -> None:
        self._engine = engine
        self._looking = Looking(engine)
        self._checkpoint = checkpoint

    @property
    def looking(self) -> Looking:
        """How places are looked at."""
        return self._looking

    def duty(self, erasure: UUID) -> Leadership:
        """The right to write to a requested erasure."""
        return self._engine.log.leadership(f"erasure:{erasure}")

    async def load(self, tenant: UUID, erasure: UUID) -> tuple[Erasure, list[RecordedEvent]]:
        """An erasure with its events. Raises `NotFound` and `WrongKind`."""
        recorded = await self._engine.log.read_stream(tenant, erasure)
        refuse_other_kind(erasure, recorded, "erasure")
        state = fold_stream(recorded, rules.evolve_erasure)
        if state is None:
            raise NotFound(f"no erasure {erasure}", erasure_id=erasure)
        return state, recorded

    async def carry_on(self, tenant: UUID, erasure: UUID) -> Erasure:
        """Do what is left to do, as far as it can be done now; returns how it stands then.

        Raises `Unavailable` where somebody holds what is needed for too long; it may be tried again.
        """
        async with self.means.turn:
            return await self._carry_on(tenant, erasure)

    async def _carry_on(self, tenant: UUID, erasure: UUID) -> Erasure:
        duty = self.duty(erasure)
        for _ in range(ATTEMPTS):
            if await duty.acquire():
                break
            state, _ = await self.load(tenant, erasure)
            if not state.open:
                return state
            await asyncio.sleep(0.5)
        else:
            raise Unavailable(f"the erasure {erasure} is being carried on by another process; look at it later")
        try:
            state, _ = await self.load(tenant, erasure)
            if state.phase == "requested":
                await self._perform(tenant, state)
            elif state.phase == "incomplete" and set(state.remaining) != {(_PROCESSES, STILL_THERE)}:
                await self._take_out_what_remains(tenant, state)
            state, recorded = await self.load(tenant, erasure)
            if state.open:
                await self._checkpoint("before the proposals")
                await self._withdraw_proposals(tenant, state)
                await self._checkpoint("before looking")
                await self._look(tenant, state, recorded)
            return (await self.load(tenant, erasure))[0]
        finally:
            await duty.release()

    async def perform_again(self, entry: Entry) -> bool:
        """Erase what a restored database brought back, as the ledger says.

        False where nothing is there any more once nobody else can write: somebody who was still erasing it when
        the ledger was read has finished, or another process was first.
        """
        gone = Gone(entry.tenant, entry.memories, entry.everything)
        await catch_up(self._engine.database, await self._engine.log.head())
        done = False

        async def destroy(connection: Connection) -> int:
            nonlocal done
            await self._take_locks(connection, entry.tenant)
            if not await find_back(connection, [entry]):
                raise _MovedOn
            await catch_up_within(connection, await self._engine.log.head())
            left = await find_left(connection, entry.tenant, entry.memories)
            recorded = await self._engine.log.read_stream(entry.tenant, entry.erasure)
            events = self._events_again(entry, recorded)
            epoch = await self._destroy(connection, entry, gone, events, len(recorded), "ledger", left)
            done = True
            return epoch

        await self._in_transaction(destroy)
        return done

    def _events_again(self, entry: Entry, recorded: Sequence[RecordedEvent]) -> list[e.Event]:
        """What must stand before it is performed, where the restored log lacks it."""
        state = fold_stream(recorded, rules.evolve_erasure)
        events: list[e.Event] = []
        if state is None:
            events.append(
                e.ErasurePreviewed(
                    kind=entry.kind,  # type: ignore[arg-type] - checked by the model
                    derived="list",
                    memories=len(entry.memories),
                    places={},
                )
            )
        if state is None or state.requested is None:
            events.append(
                e.ErasureRequested(reason=entry.reason, re_entry="block" if entry.re_entry == "block" else "none")
            )
        return events

    async def preview(self, tenant: UUID, asked: Asked) -> tuple[Targets, dict[str, int]]:
        """What an erasure would reach now, and how many entries of it each place holds."""
        await catch_up(self._engine.database, await self._engine.log.head())
        async with self._engine.database.connection() as connection:
            targets = await find_targets(connection, tenant, asked)
            if asked.kind == "memory" and not targets.memories:
                raise NotFound(f"no memory {asked.target}", memory_id=asked.target)
            names = await self._names(connection, tenant, asked, targets)
        gone = Gone(tenant, targets.memories, asked.kind == "tenant")
        async with self._engine.database.connection() as connection:
            return targets, await self._looking.count(connection, Erasing(gone, tuple(names)))

    async def _perform(self, tenant: UUID, state: Erasure) -> None:
        await catch_up(self._engine.database, await self._engine.log.head())
        await self._in_transaction(lambda connection: self._perform_within(connection, tenant, state))

    async def _in_transaction(self, work: Callable[[Connection], Awaitable[int]]) -> None:
        """One transaction, tried again while somebody holds what it needs. Then what was remembered is let go."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                async with self._engine.database.transaction() as connection:
                    await connection.execute(f"set local lock_timeout = '{LOCK_SECONDS}s'")
                    epoch = await work(connection)
                    await self._checkpoint("before the commit")
                self._engine.vault.recollection.notice(epoch)
                await self._checkpoint("after the commit")
                return
            except _MovedOn:
                return
            except (
                psycopg.errors.LockNotAvailable,
                psycopg.errors.DeadlockDetected,
                # A copy was dropped or moved between looking for it and reaching into it.
                psycopg.errors.UndefinedTable,
                psycopg.errors.InvalidSchemaName,
            ) as error:
                _LOG.info("an erasure waits (%s), attempt %d", type(error).__name__, attempt)
                await asyncio.sleep(min(5.0, 0.2 * attempt))
        raise Unavailable("somebody keeps what the erasure needs; it is tried again, see: lethelog erase list")

    async def _take_out_what_remains(self, tenant: UUID, state: Erasure) -> None:
        """The same once more, for places that were not clean; that it was done is on record already."""
        entry = ledger_entry(tenant, state, state.memories, state.names, self._engine.clock())
        gone = Gone(tenant, entry.memories, entry.everything)

        async def take_out(connection: Connection) -> int:
            await self._take_locks(connection, tenant)
            return await self._take_out(connection, entry, gone, await self._blocks(connection, entry))

        await self._in_transaction(take_out)

    async def _perform_within(self, connection: Connection, tenant: UUID, state: Erasure) -> int:
        await self._take_locks(connection, tenant)
        await catch_up_within(connection, await self._engine.log.head())
        asked = Asked(state.previewed.kind, state.previewed.target, state.previewed.scope, state.previewed.derived)
        targets = await find_targets(connection, tenant, asked)
        names = await self._names(connection, tenant, asked, targets)
        entry = ledger_entry(tenant, state, targets.memories, tuple(sorted(names)), self._engine.clock())
        gone = Gone(tenant, targets.memories, entry.everything)
        return await self._destroy(connection, entry, gone, [], state.version, "request", targets.left)

    async def _destroy(
        self,
        connection: Connection,
        entry: Entry,
        gone: Gone,
        before: Sequence[e.Event],
        version: int,
        because: str,
        left: tuple[UUID, ...],
    ) -> int:
        """The heart of it, inside a transaction that holds the locks; returns the new epoch."""
        erasing = Erasing(gone, entry.names, entry.re_entry == "block")
        counts = await self._looking.count(connection, erasing)
        beyond = OutOfItsReach(
            providers=await self._providers(connection, gone),
            exports=await self._exports(connection, gone),
            left=left,
        )
        blocks = await self._blocks(connection, entry)
        await self._checkpoint("before the ledger")
        if because == "request":
            await asyncio.to_thread(self.means.ledger.append, [entry])
        await self._checkpoint("after the ledger")
        epoch = await self._take_out(connection, entry, gone, blocks)
        events = [*before, *performed_events(entry, counts, because, len(blocks), beyond)]
        outcome = await self._engine.log.append_within(
            connection,
            Unit(
                tenant=entry.tenant,
                subject=entry.erasure,
                events=[NewEvent(entry.erasure, version + n, event) for n, event in enumerate(events, 1)],
                envelope=await self._envelope(entry.tenant, entry.erasure),
                claims=await self._claims_again(entry) if because == "ledger" else (),
            ),
        )
        if not isinstance(outcome, Appended):
            raise _MovedOn
        return epoch

    async def _providers(self, connection: Connection, gone: Gone) -> tuple[e.ProviderCall, ...]:
        """Who received text of them: judges, as the log says, and embedders, as the clear copies say."""
        judges = await find_judges(connection, gone.tenant, gone.memories)
        embedders = (
            e.ProviderCall(
                provider=one.model,
                operation="embedding",
                calls=one.memories,
                first_at=one.first_at,
                last_at=one.last_at,
            )
            for one in await find_sent_elsewhere(connection, self._engine.projections, gone)
        )
        return (*judges, *embedders)

    async def _take_out(
        self, connection: Connection, entry: Entry, gone: Gone, blocks: Mapping[bytes, UUID]
    ) -> int:
        """Clear copies, keys and names; returns the new epoch."""
        await erase_clear_texts(connection, self._engine.projections, gone)
        if entry.everything:
            await deliveries.delete_all(connection, entry.tenant)
        await self._checkpoint("after the clear copies")
        # They have no keys and hold no claims, so of them only what was commanded goes.
        decided = await find_decided(connection, gone.tenant, gone.memories)
        cursor = await connection.execute(
            "select epoch from lethelog.erase(%s, %s, %s::uuid[], %s::uuid[], %s, %s::bytea[], %s::uuid[])",
            (
                entry.erasure,
                entry.tenant,
                [*entry.memories, *decided],
                list(entry.names),
                entry.everything,
                list(blocks),
                list(blocks.values()),
            ),
        )
        [epoch] = await cursor.fetchone() or (0,)
        await self._checkpoint("after the keys")
        return epoch

    @property
    def means(self) -> ErasureMeans:
        """Ledger and signing key. Raises `Misconfigured` where there is none."""
        if self._engine.erasure is None:
            raise Misconfigured("this process has no erasure ledger, so it erases nothing")
        return self._engine.erasure

    async def _take_locks(self, connection: Connection, tenant: UUID) -> None:
        await connection.execute(
            "select pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"candidates:{tenant}",)
        )
        await keep_out(connection)
        await connection.execute("select pg_advisory_xact_lock(%s)", (_APPEND_LOCK,))

    async def _exports(self, connection: Connection, gone: Gone) -> list[e.ExportedCopy]:
        """Archives that were written before, and may hold text of what is erased; oldest first."""
        exports = await Exports(self._engine).all(gone.tenant)
        since = await find_beginnings(connection, gone.tenant, gone.memories) if exports else {}
        return [
            e.ExportedCopy(archive=export.archive, at=export.at, sha256=export.digest)
            for export in exports
            if any(export.may_hold(one, position) for one, position in since.items())
        ]

    async def _names(self, connection: Connection, tenant: UUID, asked: Asked, targets: Targets) -> set[UUID]:
        """Opaque ids whose names go: of the person in any part, with the sessions of theirs; or of the project."""
        names = set(targets.names)
        if asked.kind in ("subject", "project") and asked.target is not None:
            names.add(asked.target)
        if asked.kind == "subject" and asked.target is not None:
            known = await self._engine.directory.names(tenant, [asked.target])
            if asked.target in known:
                persons = set(await self._engine.directory.kinds(tenant, known[asked.target])) | {asked.target}
                names |= persons | await find_sessions(connection, tenant, persons, targets.memories)
        return names

    async def _blocks(self, connection: Connection, entry: Entry) -> dict[bytes, UUID]:
        """The digests by which the erased texts come back quarantined, if that was chosen."""
        if entry.re_entry != "block" or entry.everything:
            return {}
        # Those that are there already stay: what was erased before cannot be read any more.
        cursor = await connection.execute(
            "select digest, holder from lethelog.claims "
            "where tenant = %s and kind = 'refuted' and holder = any(%s)",
            (entry.tenant, list(entry.memories)),
        )
        found: dict[bytes, UUID] = dict(await cursor.fetchall())
        texts = await TextClaims.of(self._engine.log, self._engine.vault, entry.tenant)
        for start in range(0, len(entry.memories), _PAGE):
            streams = await self._engine.log.read_streams(entry.tenant, entry.memories[start : start + _PAGE])
            for memory, events in streams.items():
                first = events[0].event
                if isinstance(first, e.MemoryRemembered) and first.content is not None:
                    apart = standing_apart(first.metadata, first.user, first.agent, first.run)
                    blocked = texts.refutations(first.content, blocked_within(apart))
                    found |= dict.fromkeys(blocked, memory)
        return found

    async def _claims_again(self, entry: Entry) -> list[Claim]:
        wanted = [(ERASURE, entry.erasure.bytes), (OPEN, entry.erasure.bytes)]
        holders = await self._engine.log.holders(entry.tenant, wanted)
        return [
            Claim(kind, key, holder, entry.erasure) for (kind, key), holder in zip(wanted, holders, strict=True)
        ]

    async def _envelope(self, tenant: UUID, cause: UUID) -> Envelope:
        policy: int | None = None
        with contextlib.suppress(NotFound):
            policy = (await self._engine.tenants.get(tenant)).policy_version
        return Envelope(CARRIER, cause=cause, correlation=cause, policy=policy)

    async def _withdraw_proposals(self, tenant: UUID, state: Erasure) -> None:
        """Take back open proposals that rest on erased memories. One decided meanwhile is none any more."""
        erased = set(state.memories)
        async with self._engine.database.connection() as connection:
            cursor = await connection.execute(
                "select holder from lethelog.claims where tenant = %s and kind = %s", (tenant, OPEN_PROPOSAL)
            )
            waiting = [holder for (holder,) in await cursor.fetchall()]
        for start in range(0, len(waiting), _PAGE):
            for proposal in await load_open(self._engine.log, tenant, waiting[start : start + _PAGE]):
                if erased.isdisjoint(proposal.subjects):
                    continue
                events = decide_withdraw(proposal, "erased", state.id)
                await self._engine.log.append(
                    Unit(
                        tenant=tenant,
                        subject=proposal.id,
                        events=[
                            NewEvent(proposal.id, proposal.version + n, event) for n, event in enumerate(events, 1)
                        ],
                        envelope=await self._envelope(tenant, state.id),
                        claims=release_slot(proposal),
                    )
                )

    async def _look(self, tenant: UUID, state: Erasure, recorded: Sequence[RecordedEvent]) -> None:
        """Look into every place; verified where nothing is found, incomplete where something is."""
        gone = Gone(tenant, state.memories, state.previewed.kind == "tenant")
        assert state.performed is not None and state.requested is not None
        erasing = Erasing(gone, state.names, state.requested.re_entry == "block")
        checked_at = await self._engine.log.head()
        checked, remaining = await self.check(erasing, state.performed.places)
        if not remaining:
            looked_at = self._engine.clock()
            said = statement(tenant, state, recorded, checked, checked_at=checked_at, looked_at=looked_at)
            verified = e.ErasureVerified(
                places=tuple(checked), checked_at=checked_at, looked_at=looked_at, certificate=digest(said)
            )
            claims = [Claim(OPEN, state.id.bytes, state.id, None)]
            await self._append(tenant, state, [verified], claims)
        elif events := rules.decide_incomplete(state, remaining):
            await self._append(tenant, state, events, ())

    async def check(self, erasing: Erasing, before: dict[str, int]) -> tuple[list[e.CheckedPlace], dict[str, str]]:
        """What looking into every place finds, and the places that are not clean, with a code each."""
        remaining: dict[str, str] = {}
        counts: dict[str, int] = {}
        async with self._engine.database.connection() as connection:
            deadline = asyncio.get_running_loop().time() + SEEN_SECONDS
            while True:
                try:
                    counts = await self._looking.look_again(connection, erasing)
                except psycopg.errors.UndefinedTable:
                    continue
                if not counts["processes"] or asyncio.get_running_loop().time() > deadline:
                    break
                await asyncio.sleep(0.02)
            try:
                others = await self._looking.controls(connection, erasing)
            except Blind as blind:
                others, remaining = set[str](), {str(blind): LOOK_FAILED}
        checked: list[e.CheckedPlace] = []
        for place in places(self._engine):
            found = counts[place]
            if found:
                remaining[place] = STILL_THERE
            there = before.get(place, 0)
            control = "found_before" if there else "finds_others" if place in others else "place_is_empty"
            checked.append(e.CheckedPlace(place=place, before=there, found=found, control=control))
        return checked, remaining

    async def _append(
        self, tenant: UUID, state: Erasure, events: Sequence[e.Event], claims: Sequence[Claim]
    ) -> None:
        outcome = await self._engine.log.append(
            Unit(
                tenant=tenant,
                subject=state.id,
                events=[NewEvent(state.id, state.version + n, event) for n, event in enumerate(events, 1)],
                envelope=await self._envelope(tenant, state.id),
                claims=claims,
            )
        )
        if not isinstance(outcome, Appended):
            raise Conflict("the erasure moved on meanwhile; look at it again", erasure_id=state.id)
