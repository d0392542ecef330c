"""The part of the Python doors that erases."""

from collections.abc import Mapping
from typing import Any, TypedDict, Unpack

from ...domain.events import Derived, ReEntry
from ...streams.broker import BrokerSettings
from ..access.caller import Caller
from ..arguments import AnyId
from ..engine import Engine
from .erasures import Erasures
from .ledger import LedgerKeeping, LedgerView
from .rehearsal import Rehearsal, Rehearsing, Step
from .views import CertificateCheck, DeploymentKey, ErasurePage, ErasurePreview, ErasureView


class ErasureFields(TypedDict, total=False):
    """What to erase: exactly one of the first five."""

    memory_id: AnyId
    subject: str
    project: str
    scope: str
    tenant: bool
    derived: Derived


class AsyncErasureDoor:
    """Looking at what an erasure would reach, doing it, and proving it."""

    engine: Engine
    broker: BrokerSettings | None
    position: int

    async def caller(self) -> Caller:
        """Who calls; whoever has this door says so."""
        raise NotImplementedError

    async def preview_erasure(self, **what: Unpack[ErasureFields]) -> ErasurePreview:
        """What erasing this would reach; its ``id`` is what `erase` takes. Nothing is erased yet.

        A memory is erased with all its versions, earlier ones of the same text included. ``subject`` is a person:
        everything written with that name as subject or user. ``derived`` says what becomes of memories that follow
        from erased ones; the tenant's policy does where it is left out.
        """
        return await Erasures(self.engine).preview(await self.caller(), what)

    async def erase(self, erasure_id: AnyId, *, reason: str, re_entry: ReEntry = "none") -> ErasureView:
        """Erase what was previewed, for good. ``reason`` is a code such as ``data_subject_request``.

        With ``re_entry="block"`` a keyed digest of each text stays, by which it comes back quarantined; otherwise
        nothing stays of it. The answer is ``verified`` with a signed ``certificate``, or names what ``remaining``
        places are not clean yet, which is tried again by itself.
        """
        arguments = {"erasure_id": erasure_id, "reason": reason, "re_entry": re_entry}
        return await self._after(await Erasures(self.engine).erase(await self.caller(), arguments))

    async def retry_erasure(self, erasure_id: AnyId) -> ErasureView:
        """Carry an erasure on at once that is not verified yet."""
        return await self._after(
            await Erasures(self.engine).retry(await self.caller(), {"erasure_id": erasure_id})
        )

    async def erasure(self, erasure_id: AnyId) -> ErasureView:
        """One erasure as it stands: its certificate, which subscribers acknowledged it, and which are late.

        The operator's is shown that of a tenant that is gone, too, whichever tenant this memory is of.
        """
        return await Erasures(self.engine, broker=self.broker).show(
            await self.caller(), {"erasure_id": erasure_id}
        )

    async def erasures(
        self, *, unfinished: bool = False, limit: int = 25, cursor: str | None = None
    ) -> ErasurePage:
        """A page of erasures, newest first."""
        arguments = {"unfinished": unfinished, "limit": limit, "cursor": cursor}
        return await Erasures(self.engine).list(await self.caller(), arguments)

    async def check_certificate(self, document: Mapping[str, Any]) -> CertificateCheck:
        """Hold a certificate against this system as it is now, every place included."""
        return await Erasures(self.engine).check_certificate(await self.caller(), document)

    async def erasure_ledger(self) -> LedgerView:
        """How the file stands that outlives the database: what it holds, and what it lacks of what was done."""
        return await LedgerKeeping(self.engine).show(await self.caller())

    async def complete_erasure_ledger(self) -> LedgerView:
        """Write to that file what it lacks, after it was lost; nothing is ever taken out of it."""
        return await LedgerKeeping(self.engine).complete(await self.caller())

    async def erasure_key(self) -> DeploymentKey:
        """The public key that certificates of this deployment are checked against."""
        return await Erasures(self.engine).key(await self.caller())

    async def rehearse_erasure(self, step: Step = lambda _what: None) -> Rehearsal:
        """Make something synthetic, erase it, and say what was found where before and after."""
        done = await Rehearsing(self.engine, self.broker).rehearse(await self.caller(), step)
        self.position = max(self.position, await self.engine.log.head())
        return done

    async def _after(self, done: ErasureView) -> ErasureView:
        self.position = max(self.position, await self.engine.log.head())
        return done
