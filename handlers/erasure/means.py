"""What an erasure needs beside the parts of an engine: the ledger and the signing key."""

import asyncio
from dataclasses import dataclass, field

from ...streams.erasure_ledger import Ledger
from ...streams.signing import SigningKey


@dataclass(frozen=True, slots=True)
class ErasureMeans:
    """Of one deployment."""

    ledger: Ledger
    signing: SigningKey
    turn: asyncio.Lock = field(default_factory=asyncio.Lock, compare=False)
    """Held by the one erasure that this process carries on: those that wait for its locks would hold the
    connections that it needs."""
