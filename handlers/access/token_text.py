"""What a token looks like: ``lth_`` and 109 letters and digits, which name tenant, token and secret.

The checksum tells a token that was not copied whole from one that is not valid, and the prefix and fixed length
let secret scanners find it.
"""

import base64
import re
import zlib
from dataclasses import dataclass
from uuid import UUID

PREFIX = "lth_"
PATTERN = re.compile(r"lth_[a-z2-7]{109}")
SECRET_BYTES = 32


@dataclass(frozen=True, slots=True)
class TokenText:
    """A token taken apart; shown without its secret."""

    tenant: UUID
    token: UUID
    secret: bytes

    def __repr__(self) -> str:
        return f"TokenText(tenant={self.tenant}, token={self.token})"

    def write(self) -> str:
        """The text that is handed out, once."""
        body = self.tenant.bytes + self.token.bytes + self.secret
        whole = body + zlib.crc32(body).to_bytes(4, "big")
        return PREFIX + base64.b32encode(whole).decode().lower().rstrip("=")


def read_token(text: str) -> TokenText | None:
    """The parts of a token; None for a text that is none, or was damaged on the way."""
    if not PATTERN.fullmatch(text):
        return None
    encoded = text.removeprefix(PREFIX).upper()
    whole = base64.b32decode(encoded + "=" * (-len(encoded) % 8))
    body, checksum = whole[:-4], whole[-4:]
    if zlib.crc32(body).to_bytes(4, "big") != checksum:
        return None
    return TokenText(UUID(bytes=body[:16]), UUID(bytes=body[16:32]), body[32:])
