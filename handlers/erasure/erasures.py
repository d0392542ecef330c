"""Erasure for whoever may: look first, then act by what was looked at, and see how it stands."""

import base64
import logging
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from pydantic import Field, model_validator

from ...domain import erasure as rules
from ...domain import events as e
from ...domain.erasure import Erasure
from ...domain.errors import Conflict, InvalidInput, NotFound, Unavailable
from ...domain.fields import Id, Input, Name, Scope, parse
from ...projections.erasing import Gone
from ...streams.broker import BrokerSettings
from ...streams.ids import new_id
from ...streams.log import Appended, Claim, NewEvent, Unit
from ...streams.payloads import Envelope, RecordedEvent
from ...streams.signing import check, digest, fingerprint
from ..access.caller import Caller
from ..engine import Engine
from ..kinds import refuse_other_kind
from .acknowledgments import late
from .certificates import statement
from .ledger_check import find_back
from .places import Erasing
from .saga import ERASURE, OPEN, Saga
from .targets import LEFT_SHOWN, Asked
from .views import Acknowledged, CertificateCheck, DeploymentKey, ErasurePage, ErasurePreview, ErasureView

WHOLE_TENANT = (
    "this is everything there is of the tenant. Its key goes with it: nobody can read or write there again, and "
    "no backup brings it back"
)
_LOG = logging.getLogger(__name__)


class PreviewErasure(Input):
    """What to erase: exactly one of the first five."""

    memory_id: Id | None = None
    subject: Name | None = None
    """A person, by the name that memories were written with as user or subject."""
    project: Name | None = None
    scope: Scope | None = None
    tenant: bool = False
    """All of the caller's tenant."""
    derived: e.Derived | None = None
    """What becomes of memories that follow from erased ones; by default as the tenant's policy says."""

    @model_validator(mode="after")
    def _one_of_them(self) -> "PreviewErasure":
        given = (self.memory_id, self.subject, self.project, self.scope, self.tenant or None)
        if sum(one is not None for one in given) != 1:
            raise ValueError("name exactly one: a memory, a subject, a project, a scope, or the whole tenant")
        return self


class Erase(Input):
    """Which previewed erasure to do, why, and what is left of the texts."""

    erasure_id: Id
    reason: str = Field(max_length=40)
    re_entry: e.ReEntry = "none"


class ErasureQuery(Input):
    erasure_id: Id


class ErasuresQuery(Input):
    """Which to list; ``unfinished`` only those that are not verified yet."""

    unfinished: bool = False
    limit: int = Field(default=25, ge=1, le=100)
    cursor: str | None = Field(default=None, max_length=80, strict=True)


class Erasures:
    """Erasures of one caller's tenant."""

    def __init__(self, engine: Engine, saga: Saga | None = None, *, broker: BrokerSettings | None = None) -> None:
        """With ``broker`` `show` also tells which subscribers are late."""
        self._engine = engine
        self._broker = broker
        self._saga = saga or Saga(engine)

    async def preview(self, caller: Caller, arguments: Mapping[str, Any]) -> ErasurePreview:
        """Say what an erasure would reach, and keep that on record; nothing is erased.

        Raises `NotFound` for a memory, person or project that nothing is known of.
        """
        caller.require("memory:erase")
        wanted = parse(PreviewErasure, arguments)
        if wanted.tenant:
            caller.require("tenant:admin")
        settings = await self._engine.tenants.get(caller.tenant)
        asked = await self._asked(caller.tenant, wanted, wanted.derived or settings.policy.erase_derived)
        targets, counts = await self._saga.preview(caller.tenant, asked)
        event = e.ErasurePreviewed(
            kind=asked.kind,
            target=asked.target,
            scope=asked.scope,
            derived=asked.derived,
            memories=len(targets.memories),
            derived_memories=targets.derived,
            left=len(targets.left),
            places=counts,
        )
        erasure = new_id()
        claims = [Claim(ERASURE, erasure.bytes, None, erasure)]
        position = await self._append(caller, erasure, 0, [event], claims, settings.policy_version)
        return ErasurePreview(
            id=erasure,
            kind=asked.kind,
            memories=len(targets.memories),
            ids=targets.memories[:LEFT_SHOWN],
            warning=WHOLE_TENANT if asked.kind == "tenant" else None,
            derived=targets.derived,
            derived_choice=asked.derived,
            left=targets.left[:LEFT_SHOWN],
            left_count=len(targets.left),
            places=counts,
            position=position,
        )

    async def erase(self, caller: Caller, arguments: Mapping[str, Any]) -> ErasureView:
        """Do a previewed erasure: what it reaches is found anew, so that nothing written since is left out.

        Returns when it is verified, or says which places are not clean yet; those are tried again by a worker. A
        repeat of the call goes on where it stands. Raises `Unavailable` where it could not be begun for long; it
        is on record by then and is carried on.
        """
        caller.require("memory:erase")
        command = parse(Erase, arguments)
        # Before anything is on record: without a place for the ledger nothing may be destroyed.
        _ = self._saga.means
        state, _ = await self._saga.load(caller.tenant, command.erasure_id)
        if state.previewed.kind == "tenant":
            caller.require("tenant:admin")
            if command.re_entry == "block":
                raise InvalidInput("re_entry", "cannot be block for a whole tenant: nobody writes there any more")
        events = rules.decide_request(state, command.reason, command.re_entry)
        if events:
            await self._refuse_if_unnamed(caller.tenant, state)
            policy = (await self._engine.tenants.get(caller.tenant)).policy_version
            claims = [Claim(OPEN, state.id.bytes, None, state.id)]
            await self._append(caller, state.id, state.version, events, claims, policy)
        await self._saga.carry_on(caller.tenant, state.id)
        return self._view(caller.tenant, *await self._saga.load(caller.tenant, state.id))

    async def retry(self, caller: Caller, arguments: Mapping[str, Any]) -> ErasureView:
        """Look again at an erasure that is not verified yet, at once."""
        caller.require("memory:erase")
        query = parse(ErasureQuery, arguments)
        state, _ = await self._saga.load(caller.tenant, query.erasure_id)
        if state.phase == "previewed":
            raise Conflict("nobody asked for this erasure yet; it was only previewed", erasure_id=state.id)
        await self._saga.carry_on(caller.tenant, state.id)
        return self._view(caller.tenant, *await self._saga.load(caller.tenant, state.id))

    async def show(self, caller: Caller, arguments: Mapping[str, Any]) -> ErasureView:
        """One erasure, with its certificate once it is verified, who acknowledged it, and who is late.

        Also, to whoever administers the installation, that of a tenant that is gone.
        """
        caller.require("memory:erase")
        query = parse(ErasureQuery, arguments)
        tenant = await self._tenant_of(caller, query.erasure_id)
        view = self._view(tenant, *await self._saga.load(tenant, query.erasure_id))
        if self._broker is None or view.performed_at is None:
            return view
        try:
            names = await late(self._broker, [one.consumer for one in view.acknowledged])
        except Unavailable:
            return view
        return view.model_copy(update={"late": tuple(names[:LEFT_SHOWN]), "late_count": len(names)})

    async def list(self, caller: Caller, arguments: Mapping[str, Any]) -> ErasurePage:
        """A page of erasures, newest first."""
        caller.require("memory:erase")
        query = parse(ErasuresQuery, arguments)
        beyond = _cursor(query.cursor)
        rows = await self._engine.doors.rows(
            caller.tenant,
            "select holder from lethelog.claims where tenant = %s and kind = %s "
            "and (%s::bytea is null or digest < %s::bytea) order by digest desc limit %s",
            (caller.tenant, OPEN if query.unfinished else ERASURE, beyond, beyond, query.limit + 1),
        )
        ids = [row[0] for row in rows]
        shown = ids[: query.limit]
        views = [self._view(caller.tenant, *await self._saga.load(caller.tenant, one)) for one in shown]
        return ErasurePage(
            erasures=tuple(views), next_cursor=shown[-1].hex if len(ids) > query.limit and shown else None
        )

    async def check_certificate(self, caller: Caller, document: Mapping[str, Any]) -> CertificateCheck:
        """Hold a certificate against the system of now: its signature, the log, and every place once more."""
        caller.require("memory:erase")
        signed = check(document)
        try:
            erasure, tenant = UUID(signed.statement["erasure"]), UUID(signed.statement["tenant"])
        except (KeyError, ValueError, TypeError):
            raise InvalidInput("certificate", "is of something else than an erasure") from None
        if tenant != await self._tenant_of(caller, erasure):
            raise NotFound(f"no erasure {erasure}", erasure_id=erasure)
        state, recorded = await self._saga.load(tenant, erasure)
        if state.requested is None or state.performed is None:
            raise InvalidInput("certificate", "is of an erasure that was never done here")
        gone = Gone(tenant, state.memories, state.previewed.kind == "tenant")
        erasing = Erasing(gone, state.names, state.requested.re_entry == "block")
        _, remaining = await self._saga.check(erasing, state.performed.places)
        return CertificateCheck(
            erasure_id=erasure,
            own_key=signed.public_key == self._saga.means.signing.public,
            on_record=any(
                isinstance(one.event, e.ErasureVerified) and one.event.certificate == signed.sha256
                for one in recorded
            ),
            done_again=state.performed.because == "ledger",
            remaining=remaining,
        )

    async def _tenant_of(self, caller: Caller, erasure: UUID) -> UUID:
        """The caller's tenant, or the one that this erasure left nothing of, which nobody can name any more."""
        if "installation:admin" not in caller.permissions:
            return caller.tenant
        async with self._engine.database.connection() as connection:
            cursor = await connection.execute(
                "select c.tenant from lethelog.claims c where c.kind = %s and c.digest = %s and c.holder = %s "
                "and exists (select from lethelog_vault.tenant_keys k where k.tenant = c.tenant) "
                "and not exists (select from lethelog_vault.tenant_keys k "
                "where k.tenant = c.tenant and k.wrapped <> '')",
                (ERASURE, erasure.bytes, erasure),
            )
            row = await cursor.fetchone()
        return caller.tenant if row is None else row[0]

    async def key(self, caller: Caller) -> DeploymentKey:
        """The public key of this deployment. Raises `Misconfigured` where it erases nothing."""
        caller.require("memory:erase")
        public = self._saga.means.signing.public
        return DeploymentKey(public_key=base64.b64encode(public).decode(), fingerprint=fingerprint(public))

    async def carry_on_open(self) -> int:
        """Carry on every erasure of every tenant that is not verified yet; returns how many are left."""
        left = 0
        for tenant, erasure in await self.open():
            try:
                left += (await self._saga.carry_on(tenant, erasure)).open
            except Exception as error:
                left += 1
                _LOG.warning("an erasure is not finished (%s); it is tried again", type(error).__name__)
        return left

    async def open(self) -> "list[tuple[UUID, UUID]]":
        """(tenant, erasure) of those that were asked for and are not verified."""
        async with self._engine.database.connection() as connection:
            cursor = await connection.execute(
                "select tenant, holder from lethelog.claims where kind = %s order by digest limit 1000", (OPEN,)
            )
            return [(row[0], row[1]) for row in await cursor.fetchall()]

    async def hold_to_ledger(self) -> int:
        """Erase again what a restored database brought back; before anything else opens the log.

        Returns how many erasures had to be done again.
        """
        if self._engine.erasure is None:
            return 0
        entries = self._engine.erasure.ledger.read()
        if not entries:
            return 0
        async with self._engine.database.connection() as connection:
            back = await find_back(connection, entries)
        again = 0
        for entry in back:
            if await self._saga.perform_again(entry):
                _LOG.warning("an erasure of the ledger came back with a restored database; it was done again")
                again += 1
        return again

    async def _refuse_if_unnamed(self, tenant: UUID, state: Erasure) -> None:
        """Who was erased since the preview may be back under another id, which it would miss."""
        kind, target = state.previewed.kind, state.previewed.target
        if kind in ("subject", "project") and target not in await self._engine.directory.names(tenant, [target]):
            raise Conflict(
                f"the {kind} of this preview was erased meanwhile; make a new preview", erasure_id=state.id
            )

    async def _asked(self, tenant: UUID, wanted: PreviewErasure, derived: e.Derived) -> Asked:
        if wanted.memory_id is not None:
            names = await self._engine.log.stream_names(tenant, [wanted.memory_id])
            refuse_other_kind(wanted.memory_id, names.get(wanted.memory_id, ""), "memory", field="memory_id")
            if wanted.memory_id not in names:
                raise NotFound(f"no memory {wanted.memory_id}", memory_id=wanted.memory_id)
            return Asked("memory", wanted.memory_id, None, derived)
        if wanted.subject is not None:
            found = await self._engine.directory.find(tenant, "subject", wanted.subject)
            if found is None:
                # The name is not repeated: it may be on its way into a log file.
                raise NotFound("nothing is known of a person of this name")
            return Asked("subject", found, None, derived)
        if wanted.project is not None:
            found = await self._engine.directory.find(tenant, "project", wanted.project)
            if found is None:
                raise NotFound("nothing is known of a project of this name")
            return Asked("project", found, None, derived)
        if wanted.scope is not None:
            return Asked("scope", None, wanted.scope, derived)
        return Asked("tenant", None, None, derived)

    def _view(self, tenant: UUID, state: Erasure, recorded: "list[RecordedEvent]") -> ErasureView:
        performed, requested, verified = state.performed, state.requested, state.verified
        document: dict[str, Any] | None = None
        if state.phase == "verified" and verified is not None and self._engine.erasure is not None:
            said = statement(
                tenant,
                state,
                recorded,
                verified.places,
                checked_at=verified.checked_at,
                looked_at=verified.looked_at,
            )
            # A later version may say more; what was promised then is what is signed.
            if digest(said) == verified.certificate:
                document = self._engine.erasure.signing.sign(said)
        return ErasureView(
            id=state.id,
            kind=state.previewed.kind,
            phase=state.phase,
            reason=requested.reason if requested else None,
            re_entry=requested.re_entry if requested else None,
            memories=len(state.memories) if performed else state.previewed.memories,
            previewed=state.previewed.memories,
            since_preview=max(0, len(state.memories) - state.previewed.memories) if performed else 0,
            blocked=performed.blocked if performed else 0,
            left=performed.left if performed else (),
            left_count=performed.left_count if performed else state.previewed.left,
            previewed_at=state.previewed_at,
            requested_at=state.requested_at,
            performed_at=state.performed_at,
            times_performed=state.times_performed,
            verified_at=state.verified_at,
            places=verified.places if verified and state.phase == "verified" else (),
            remaining=dict(state.remaining),
            providers=performed.providers if performed else (),
            exports=performed.exports if performed else (),
            exports_count=performed.exports_count if performed else 0,
            acknowledged=tuple(Acknowledged(consumer=name, at=at) for name, at in state.acknowledged),
            certificate=document,
        )

    async def _append(
        self,
        caller: Caller,
        erasure: UUID,
        version: int,
        events: "list[e.Event] | list[e.ErasurePreviewed]",
        claims: "list[Claim] | tuple[()]",
        policy: int | None,
    ) -> int:
        command = new_id()
        outcome = await self._engine.log.append(
            Unit(
                tenant=caller.tenant,
                subject=erasure,
                events=[NewEvent(erasure, version + n, event) for n, event in enumerate(events, 1)],
                envelope=Envelope(caller.actor, cause=command, correlation=command, policy=policy),
                claims=claims,
            )
        )
        return outcome.position if isinstance(outcome, Appended) else 0


def _cursor(cursor: str | None) -> bytes | None:
    if cursor is None:
        return None
    try:
        return UUID(hex=cursor).bytes
    except ValueError:
        raise InvalidInput("cursor", "is not a cursor of this list", "Start without one") from None
