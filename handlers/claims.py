"""Which memory holds a text: the duplicate rule as claims of the log (settlement 4; A1, A2, A4, F09, F10, F28).

``content``: the memory that holds a text in a scope now; a second remember finds it.
``ended``: the last memory of that text that ended; remembering it again links to it.
``refuted``: a memory of that text that was refuted, in any scope; the text comes back quarantined.
Digests are keyed per tenant, so that the rows say nothing without the tenant's key.
"""

from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from ..domain.errors import Conflict
from ..domain.fields import normalised
from ..domain.memory import Memory
from ..streams import sealing
from ..streams.log import Claim, Log
from ..streams.vault import Vault

TextClaim = Literal["content", "ended", "refuted"]


@dataclass(frozen=True, slots=True)
class TextHolders:
    """Who holds a text now, read before deciding; the claims demand that it is still so."""

    content: UUID | None
    ended: UUID | None
    refuted: UUID | None


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

    def digest(self, kind: TextClaim, scope: str, content: str) -> bytes:
        """Keyed digest of a text; a refutation holds in every scope."""
        where = b"" if kind == "refuted" else scope.encode()
        return sealing.keyed_digest(self._key, kind.encode(), where, normalised(content).encode())

    async def holders(self, scope: str, content: str) -> TextHolders:
        """Who holds the text now."""
        kinds: tuple[TextClaim, ...] = ("content", "ended", "refuted")
        found = await self._log.holders(
            self._tenant, [(kind, self.digest(kind, scope, content)) for kind in kinds]
        )
        return TextHolders(*found)

    def of_new(self, memory_id: UUID, scope: str, content: str, present: TextHolders) -> list[Claim]:
        """Claims of a memory that comes to be with this text; refuses if anybody was quicker."""
        return [
            Claim("content", self.digest("content", scope, content), present.content, memory_id),
            Claim("refuted", self.digest("refuted", scope, content), present.refuted, present.refuted),
        ]

    async def of_change(self, before: Memory, after: Memory, *, handed_to: UUID | None = None) -> list[Claim]:
        """Claims that follow from one memory's change.

        ``handed_to`` is the successor that takes over the same text in the same scope (A2). Raises `Conflict`
        when the memory would come back while another one holds its text.
        """
        if before.content is None:
            return []
        claims: list[Claim] = []
        old = (before.scope, before.content) if holds(before) else None
        new = (after.scope, before.content) if holds(after) else None
        present = await self.holders(before.scope, before.content)
        if old != new:
            if old is not None and present.content == before.id:
                claims.append(Claim("content", self.digest("content", *old), before.id, handed_to))
            if new is not None:
                claims.append(await self._take(new, before.id))
        if holds(before) and not holds(after):
            digest = self.digest("ended", before.scope, before.content)
            claims.append(Claim("ended", digest, present.ended, before.id))
        if not holds(before) and present.ended == before.id:
            digest = self.digest("ended", before.scope, before.content)
            if holds(after):
                # What this one had taken over is the last ended one again.
                claims.append(Claim("ended", digest, before.id, before.earlier))
            elif after.scope != before.scope:
                there = (await self.holders(after.scope, before.content)).ended
                claims.append(Claim("ended", digest, before.id, None))
                claims.append(Claim("ended", self.digest("ended", after.scope, before.content), there, before.id))
        if before.quarantined and not after.quarantined and present.refuted is not None:
            # A person said that it is true after all; that holds for the text, not for one memory of it only.
            claims.append(
                Claim("refuted", self.digest("refuted", before.scope, before.content), present.refuted, None)
            )
        if after.refuted and not before.refuted:
            digest = self.digest("refuted", before.scope, before.content)
            claims.append(Claim("refuted", digest, present.refuted, before.id))
        return claims

    async def _take(self, text: tuple[str, str], memory_id: UUID) -> Claim:
        holder = (await self.holders(*text)).content
        if holder not in (None, memory_id):
            raise Conflict(
                f"memory {holder} holds the same text in scope {text[0]}; archive or revise that one first",
                memory_id=memory_id,
                holder=holder,
            )
        return Claim("content", self.digest("content", *text), holder, memory_id)


def holds(state: Memory) -> bool:
    """Whether a memory keeps others of its text out: it has not ended (quarantined ones do keep out)."""
    return not (state.archived or state.suppressed or state.refuted or state.successor)
