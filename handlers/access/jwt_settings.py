"""Which JSON Web Tokens are taken: checked when the process starts, so that a wrong setting is told at once."""

from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from ...domain.errors import Misconfigured
from .caller import NamedKind

Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class JwtSettings(BaseModel):
    """Which tokens are taken, and what their claims mean."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    issuer: str = Field(min_length=1)
    audience: str = Field(min_length=1)
    jwks: str = Field(min_length=1)
    algorithms: tuple[Algorithm, ...] = Field(min_length=1)
    leeway: float = Field(ge=0, le=300)
    tenant_claim: str = Field(min_length=1)
    scopes_claim: str = Field(min_length=1)
    actor_claim: str = Field(min_length=1)
    actor_kind: NamedKind
    actor_kind_claim: str | None = None

    @field_validator("jwks")
    @classmethod
    def _reachable(cls, where: str) -> str:
        if "://" not in where:
            if not Path(where).expanduser().is_file():
                raise ValueError("is no file and no URL")
            return where
        parts = urlsplit(where)
        if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
            raise ValueError("must be an https URL; keys fetched in clear may be anybody's")
        return where


def jwt_settings(**given: Any) -> JwtSettings:
    """Checked settings. Raises `Misconfigured` naming the one that is wrong."""
    try:
        return JwtSettings(**given)
    except ValidationError as report:
        first = report.errors(include_url=False, include_context=False, include_input=False)[0]
        name = f"LETHELOG_JWT_{str(first['loc'][0]).upper()}"
        problem = (
            "is needed beside the other JWT settings" if given.get(str(first["loc"][0])) is None else first["msg"]
        )
        raise Misconfigured(f"{name}: {problem.removeprefix('Value error, ')}", setting=name) from None
