"""How the server is bounded."""

import ipaddress

from pydantic import BaseModel, ConfigDict, Field, field_validator

BODY_LIMIT = 4 * 1024 * 1024
"""Bytes of one JSON body: a batch of a hundred memories, or an imported one of the longest, has room in it."""
UPLOAD_LIMIT = 1024 * 1024 * 1024
"""Bytes of an archive that is sent."""
ON_THIS_MACHINE = ("127.0.0.1", "::1")
"""Where a proxy stands that ends TLS on the machine itself."""


class HttpSettings(BaseModel):
    """Bounds of the server."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    requests_per_second: int = Field(default=200, ge=0)
    """Of one credential that was let in; 0 for no bound of any rate. Held over ten seconds."""
    strangers_per_second: int = Field(default=20, ge=1)
    """Of one address, by callers who were not let in yet; a tenth of it where what they show is refused."""
    streams: int = Field(default=200, ge=1)
    """Answers at a time that last: streams of events, replays, archives."""
    streams_per_caller: int = Field(default=20, ge=1)
    """Those of one caller; all of one tenant have half of all."""
    connections: int = Field(default=800, ge=2)
    """Open connections, beyond which requests are answered 503."""
    proxies: tuple[str, ...] = ()
    """Addresses or networks whose ``X-Forwarded-For`` is believed."""
    body_limit: int = Field(default=BODY_LIMIT, ge=1024)
    upload_limit: int = Field(default=UPLOAD_LIMIT, ge=1024)
    secure_cookies: bool = True
    """Whether the page's cookie is for TLS only: everywhere but on the machine itself."""

    @field_validator("proxies")
    @classmethod
    def _addresses(cls, named: tuple[str, ...]) -> tuple[str, ...]:
        for one in named:
            try:
                ipaddress.ip_network(one)
            except ValueError:
                raise ValueError("must be addresses or networks, such as 10.0.0.0/8") from None
        return named
