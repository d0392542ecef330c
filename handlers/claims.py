"""Which memory holds a text: the duplicate rule as claims of the log (settlement 4; A1, A2, A4, F09, F10, F28).

``content``: the memory that holds a text in a scope now; a second remember finds it.
``ended``: the last memory of that text that ended; remembering it again links to it.
``refuted``: a memory of that text that was refuted, in any scope; the text comes back quarantined, through
whichever door it comes (`domain.apart.barred_within`).
Digests are keyed per tenant, so that the rows say nothing without the tenant's key.
"""

from collections.abc import Iterable, Set
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from ..domain.apart import Apart, barred_within, refuted_within, standing_apart
from ..domain.errors import Conflict
from ..domain.fields import normalised
from ..domain.memory import Memory, evolve
from ..streams import sealing
from ..streams.folding import fold_stream
from ..streams.log import Claim, Log
from ..streams.vault import Vault

TextClaim = Literal["content", "ended", "refuted"]


@dataclass(frozen=True, slots=True)
class TextHolders:
    """Who holds a text now, read before deciding; the claims demand that it is still so."""

    content: UUID | None
    ended: UUID | None
    refutations: tuple[tuple[bytes, UUID | None], ...]
    """Of each digest by which a refutation of the text is a bar, who holds it."""

    @property
    def refuted(self) -> UUID | None:
        """A refuted memory of this text that is a bar to it."""
        return next((holder for _, holder in self.refutations if holder is not None), None)


class TextClaims:
    """Reads who holds a text and says which claims a change of memories needs."""

    def __init__(self, log: Log, vault: Vault, tenant: UUID, key: bytes) -> None:
        self._log = log
        self._tenant = tenant
        self._key = key
        self._vault = vault

    @classmethod
    async def of(cls, log: Log, vault: Vault, tenant: UUID) -> "TextClaims":
        return cls(log, vault, tenant, await vault.purpose_key(tenant, "claims"))

    def digest(self, kind: TextClaim, scope: str, content: str, apart: Apart | None = None) -> bytes:
        """Keyed digest of a text; a refutation holds in every scope.

        Of a memory that stands apart it is another one, and of a named one the same whatever it says, but for what
        was refuted.
        """
        where = b"" if kind == "refuted" else scope.encode()
        said = b"" if apart is not None and apart.named and kind != "refuted" else normalised(content).encode()
        among = () if apart is None else (apart.among.encode(),)
        return sealing.keyed_digest(self._key, kind.encode(), where, said, *among)

    def refutations(self, content: str, within: Iterable[Apart | None]) -> list[bytes]:
        """The digests by which a text is refuted within each."""
        return [self.digest("refuted", "", content, one) for one in within]

    async def holders(self, scope: str, content: str, apart: Apart | None = None) -> TextHolders:
        """Who holds the text now."""
        kinds: tuple[TextClaim, ...] = ("content", "ended")
        bars = self.refutations(content, barred_within(apart))
        wanted = [(kind, self.digest(kind, scope, content, apart)) for kind in kinds]
        held, ended, *refuted = await self._log.holders(
            self._tenant, [*wanted, *(("refuted", digest) for digest in bars)]
        )
        return TextHolders(held, ended, tuple(zip(bars, refuted, strict=True)))

    def of_new(
        self, memory_id: UUID, scope: str, content: str, present: TextHolders, apart: Apart | None = None
    ) -> list[Claim]:
        """Claims of a memory that comes to be with this text; refuses if anybody was quicker."""
        return [
            Claim("content", self.digest("content", scope, content, apart), present.content, memory_id),
            *(Claim("refuted", digest, holder, holder) for digest, holder in present.refutations),
        ]

    async def of_change(self, before: Memory, after: Memory, *, handed_to: UUID | None = None) -> list[Claim]:
        """Claims that follow from one memory's change.

        ``handed_to`` is the successor that takes over the same text in the same scope (A2). Raises `Conflict`
        when the memory would come back while another one holds its text.
        """
        if before.content is None:
            return []
        claims: list[Claim] = []
        content, apart = before.content, apart_of(before)
        old = (before.scope, content, apart) if holds(before) else None
        new = (after.scope, content, apart) if holds(after) else None
        present = await self.holders(before.scope, content, apart)
        if old != new:
            if old is not None and present.content == before.id:
                claims.append(Claim("content", self.digest("content", *old), before.id, handed_to))
            if new is not None:
                claims.append(await self._take(new, before.id))
        if holds(before) and not holds(after):
            digest = self.digest("ended", before.scope, content, apart)
            claims.append(Claim("ended", digest, present.ended, before.id))
        if not holds(before) and present.ended == before.id:
            digest = self.digest("ended", before.scope, content, apart)
            if holds(after):
                # What this one had taken over is the last ended one again.
                claims.append(Claim("ended", digest, before.id, before.earlier))
            elif after.scope != before.scope:
                there = (await self.holders(after.scope, content, apart)).ended
                moved = self.digest("ended", after.scope, content, apart)
                claims.append(Claim("ended", digest, before.id, None))
                claims.append(Claim("ended", moved, there, before.id))
        if before.quarantined and not after.quarantined:
            claims += await self._lifted(
                content, apart, {one for _, one in present.refutations if one is not None}
            )
        if after.refuted and not before.refuted:
            refuted = await self._held(self.refutations(content, refuted_within(apart)))
            claims += [Claim("refuted", digest, holder, before.id) for digest, holder in refuted.items()]
        return claims

    async def _lifted(self, content: str, apart: Apart | None, refuted: Set[UUID]) -> list[Claim]:
        """A person said that it is true after all; that holds for the text, not for one memory of it only: what
        was a bar is one no more, to whomever it was one."""
        if not refuted:
            return []
        streams = await self._log.read_streams(self._tenant, list(refuted))
        states = [fold_stream(recorded, evolve) for recorded in streams.values()]
        # Of an erased one nobody can tell any more what it was compared within.
        theirs = {apart_of(state) for state in states if state is not None}
        within = {each for one in (apart, *theirs) for each in (*barred_within(one), *refuted_within(one))}
        held = await self._held(self.refutations(content, within))
        return [Claim("refuted", digest, one, None) for digest, one in held.items() if one in refuted]

    async def _held(self, refutations: list[bytes]) -> dict[bytes, UUID | None]:
        wanted = [("refuted", digest) for digest in refutations]
        return dict(zip(refutations, await self._log.holders(self._tenant, wanted), strict=True))

    async def _take(self, text: tuple[str, str, Apart | None], memory_id: UUID) -> Claim:
        holder = (await self.holders(*text)).content
        if holder not in (None, memory_id):
            raise Conflict(
                f"memory {holder} holds the same text in scope {text[0]}; archive or revise that one first",
                memory_id=memory_id,
                holder=holder,
            )
        return Claim("content", self.digest("content", *text), holder, memory_id)


def apart_of(memory: Memory) -> Apart | None:
    """What a memory is compared within; None for one that is compared with all of its scope."""
    return standing_apart(memory.metadata, memory.owners.user, memory.owners.agent, memory.owners.run)


def holds(state: Memory) -> bool:
    """Whether a memory keeps others of its text out: it has not ended (quarantined ones do keep out)."""
    return not (state.archived or state.suppressed or state.refuted or state.successor)
