"""What an erasure needs beside the parts of an engine: the ledger and the signing key."""

from dataclasses import dataclass

from ...streams.erasure_ledger import Ledger
from ...streams.signing import SigningKey


@dataclass(frozen=True, slots=True)
class ErasureMeans:
    """Of one deployment."""

    ledger: Ledger
    signing: SigningKey
