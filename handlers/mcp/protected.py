"""What a client without a credential is told of how to get one: protected resource metadata (RFC 9728)."""

from pydantic import AnyHttpUrl, BaseModel, ConfigDict, field_validator

_LOOPBACK = ("127.0.0.1", "[::1]", "localhost")


class Protected(BaseModel):
    """Where clients reach the server, and who issues the tokens that it takes."""

    model_config = ConfigDict(frozen=True, extra="forbid", url_preserve_empty_path=True)

    resource: AnyHttpUrl
    issuer: AnyHttpUrl

    @field_validator("resource")
    @classmethod
    def _over_tls(cls, url: AnyHttpUrl) -> AnyHttpUrl:
        if url.scheme != "https" and url.host not in _LOOPBACK:
            raise ValueError("must be an https URL")
        if url.query is not None or url.fragment is not None:
            raise ValueError("must have neither query nor fragment")
        return url
