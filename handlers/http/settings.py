"""How the server is bounded."""

from pydantic import BaseModel, ConfigDict, Field

BODY_LIMIT = 4 * 1024 * 1024
"""Bytes of one JSON body: a batch of a hundred memories, or an imported one of the longest, has room in it."""
UPLOAD_LIMIT = 1024 * 1024 * 1024
"""Bytes of an archive that is sent."""


class HttpSettings(BaseModel):
    """Bounds of the server."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    requests_per_second: int = Field(default=200, ge=0)
    """Of one credential, or of one address that shows none; 0 for no bound. Held over ten seconds."""
    streams: int = Field(default=200, ge=1)
    """Open streams of events at a time."""
    body_limit: int = Field(default=BODY_LIMIT, ge=1024)
    upload_limit: int = Field(default=UPLOAD_LIMIT, ge=1024)
    secure_cookies: bool = True
    """Whether the page's cookie is for TLS only: everywhere but on the machine itself."""
