"""The memories that are written: units as the commands make them, with everything a remember carries."""

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime
from uuid import UUID, uuid4

from ...domain.events import MemoryRemembered
from ...streams import sealing
from ...streams.ids import new_id
from ...streams.log import Claim, NewEvent, Unit
from ...streams.payloads import Actor, Envelope

_SENTENCES = (
    "deploys go to the second region after review because the first one ran out of quota in march and nobody",
    "wants figures without units in reports about latency budgets or retries of the payment service on weekdays",
    "while the team keeps decisions short names owners dates and sources for every change of schema or policy",
)
_VOCABULARY = " ".join(_SENTENCES).split()
_LENGTH = 28
"""Words of a memory; some 170 characters."""
_WHEN = datetime(2026, 3, 1, 9, tzinfo=UTC)


@dataclass
class Writer:
    """Makes units of one tenant: texts are drawn before the clock runs, units made while it does."""

    tenant: UUID = field(default_factory=uuid4)
    claims_key: bytes = field(default_factory=sealing.new_key)
    actor: Actor = field(default_factory=lambda: Actor("agent", uuid4()))
    chance: random.Random = field(default_factory=lambda: random.Random(7))

    def texts(self, number: int) -> list[str]:
        """So many different texts."""
        return [f"{n} {' '.join(self.chance.choices(_VOCABULARY, k=_LENGTH))}" for n in range(number)]

    def remember(self, *texts: str, user: UUID | None = None) -> Unit:
        """One unit that remembers these texts, each as a memory with its key and its claim, of a user if named."""
        command = new_id()
        events: list[NewEvent] = []
        claims: list[Claim] = []
        for text in texts:
            stream = new_id()
            events.append(NewEvent(stream, 1, remembered(text, user)))
            digest = sealing.keyed_digest(self.claims_key, b"content", b"personal", text.encode(), stream.bytes)
            claims.append(Claim("content", digest, None, stream))
        return Unit(
            tenant=self.tenant,
            subject=events[0].stream,
            events=events,
            envelope=Envelope(self.actor, cause=command, correlation=command, policy=1),
            claims=claims,
            new_keys=frozenset(new.stream for new in events),
        )


def remembered(text: str, user: UUID | None = None) -> MemoryRemembered:
    """The event of a memory."""
    return MemoryRemembered(
        memory_type="fact",
        scope="personal",
        topic=text[:60],
        content=text,
        tags=("infra", "review"),
        producer="agent",
        trust="agent",
        occurred_at=_WHEN,
        user=user,
    )
