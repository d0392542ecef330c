"""Every setting of Lethelog: ``LETHELOG_*`` in the environment, or a TOML file named by ``LETHELOG_CONFIG``.

The environment wins over the file. Misspelt names in the file are refused; a wrong value names its setting.
"""

import getpass
import os
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, Self, cast

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from ..domain.commitment import EXPIRY_GRACE
from ..domain.errors import Misconfigured
from ..handlers.access.jwt_settings import JwtSettings, jwt_settings
from ..handlers.extracting.settings import ExtractorSettings
from ..handlers.http.settings import ON_THIS_MACHINE, HttpSettings
from ..handlers.judges import SystemOneSettings
from ..handlers.mcp.protected import Protected
from ..handlers.tenancy.tenant_names import TenantName
from ..handlers.webhooks.settings import WebhookSettings
from ..projections.embedders import default_embedder
from .folders import default_data_dir

_HTTP = HttpSettings()
DEFAULT_TENANT = "default"
"""The tenant that comes with the first open."""


class Settings(BaseSettings):
    """The settings of one process. Field ``x`` is ``LETHELOG_X`` in the environment and ``x`` in the file."""

    model_config = SettingsConfigDict(
        env_prefix="LETHELOG_",
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        env_ignore_empty=True,
        use_attribute_docstrings=True,
    )

    data_dir: Path = Field(default_factory=default_data_dir)
    """Where the embedded servers, the master key and their secrets live."""
    database_url: SecretStr | None = None
    """A PostgreSQL of one's own (with pgvector) instead of the embedded one."""
    database_owner_url: SecretStr | None = None
    """The same database as its owner, for migrations only; by default the login of ``LETHELOG_DATABASE_URL`` does
    both."""
    worker_database_url: SecretStr | None = None
    """The same database with a login of its own for background work, which sees all tenants; by default the login
    of ``LETHELOG_DATABASE_URL`` does that too."""
    broker_url: SecretStr | None = None
    """A NATS server of one's own (with JetStream) instead of the embedded one."""
    broker_prefix: str = "lethelog"
    """First word of all subjects and streams; two installations on one broker differ in it."""
    master_key_file: Path | None = None
    """The keys of all keys, newest first, mode 0600; by default ``secrets/master.key`` in the data directory."""
    master_key: SecretStr | None = None
    """The same in a variable instead: base64 of 32 bytes, several separated by commas, newest first."""
    master_key_command: SecretStr | None = None
    """The same as the output of a command, for a key management service."""
    erasure_ledger: Path | None = None
    """The file that says what was erased, kept outside the database; by default ``erasures.ledger`` in the data
    directory."""
    signing_key_file: Path | None = None
    """The key that signs certificates of erasure, mode 0600; by default ``secrets/signing.key`` in the data
    directory, made at first use."""
    tenant: TenantName = DEFAULT_TENANT
    """Which tenant this process works for; all but the default one are made by ``lethelog tenant create``."""
    token: SecretStr | None = None
    """A token or JWT that says which tenant, which actor and what it may do, in place of LETHELOG_TENANT and
    LETHELOG_ACTOR."""
    token_file: Path | None = None
    """The same in a file of mode 0600 instead."""
    actor: str = Field(default_factory=lambda: f"person:{_user()}")
    """Who acts: ``person:NAME`` or ``agent:NAME``."""

    jwt_issuer: str | None = None
    """Take JWTs of this issuer (``iss``) where a token is asked for; the next two are needed then."""
    jwt_audience: str | None = None
    """The audience (``aud``) they must be for."""
    jwt_jwks: str | None = None
    """The issuer's public keys: an https URL, or a file."""
    jwt_algorithms: str = "RS256,ES256,EdDSA"
    """Algorithms that are taken, separated by commas; never ``none`` or one with a shared secret."""
    jwt_leeway: float = 30.0
    """Seconds that clocks may differ by."""
    jwt_tenant_claim: str = "tenant"
    """The claim that names the tenant."""
    jwt_scopes_claim: str = "scope"
    """The claim with the permissions, as text with blanks between them or as a list; others than ours are passed
    over."""
    jwt_actor_claim: str = "sub"
    """The claim that names the actor."""
    jwt_actor_kind: Literal["person", "agent", "importer"] = "person"
    """What kind of actor JWTs are for."""
    jwt_actor_kind_claim: str | None = None
    """A claim that says so of each JWT instead."""

    embedder: str = Field(default_factory=default_embedder)
    """``wordllama``, ``minilm``, ``fastembed[:MODEL]`` or ``openai``."""
    embedder_url: str | None = None
    """Base URL of an OpenAI-compatible endpoint."""
    embedder_model: str | None = None
    """Model asked for there."""
    embedder_key: SecretStr | None = None
    """Its bearer key."""
    embedder_dimensions: int | None = None
    """Length of its vectors, where the server needs to be told."""

    judge: Literal["stated", "systemone", "none"] = "stated"
    """Who judges: the local rule, a decision model, or nobody."""
    judge_url: str | None = None
    """Base URL of the decision model."""
    judge_model: str | None = None
    """The pinned model id that is sent."""
    judge_key: SecretStr | None = None
    """Its bearer key."""
    judge_path: str | None = None
    """Path of the route, where it is not ``/v1/systemone``."""
    judge_answers_as: str = ""
    """Further exact ids under which the server may name the model, separated by commas."""
    judge_allow_unpinned: bool = False
    """Accept a moving model id such as ``jev-latest``."""
    judge_allow_plain_http: bool = False
    """Send the key without TLS to another machine."""
    judge_permute: bool = True
    """Ask each item in two orders."""
    judge_items_per_call: int = 1
    """Items that share one call; part of the judge's identity."""
    judge_timeout: float = 10.0
    """Seconds for one attempt."""
    judge_deadline: float = 30.0
    """Seconds for one decision in all."""
    judge_attempts: int = 3
    """Attempts of one decision."""
    judge_max_wait: float = 10.0
    """Longest pause between attempts, in seconds."""
    judge_max_reply_bytes: int = 1_048_576
    """A longer reply is refused."""
    judge_max_state_chars: int | None = None
    """Characters of one call, where the model takes fewer."""
    judge_max_questions: int | None = None
    """Questions of one call, where the model takes fewer."""
    judge_extra_body: dict[str, Any] = {}
    """JSON that is added to each request."""
    judge_headers: dict[str, str] = Field(default_factory=dict[str, str], repr=False)
    """Headers that are added to each request, as JSON."""
    judge_thresholds: Path | None = None
    """A file of thresholds selected for exactly this judge."""
    judge_starting_values: bool = False
    """Without a thresholds file propose from 0.85 (archive, supersede) and 0.60 (conflict) on, values that nobody
    measured for this judge; each proposal is then marked so."""

    extractor_url: str | None = None
    """Base URL of an OpenAI-compatible chat endpoint that reads facts in new memories, such as
    ``https://api.openai.com/v1``; without it none are read."""
    extractor_model: str | None = None
    """The model id that is sent; it has to be able to answer by a JSON schema."""
    extractor_key: SecretStr | None = None
    """Its bearer key."""
    extractor_path: str | None = None
    """Path of the route, where it is not ``/chat/completions``."""
    extractor_allow_plain_http: bool = False
    """Send the key without TLS to another machine."""
    extractor_timeout: float = 60.0
    """Seconds for one attempt."""
    extractor_deadline: float = 120.0
    """Seconds for one text in all."""
    extractor_attempts: int = 3
    """Attempts for one text."""
    extractor_max_wait: float = 10.0
    """Longest pause between attempts, in seconds; an endpoint that asks for more is asked again later."""
    extractor_max_reply_bytes: int = 1_048_576
    """A longer reply is refused."""
    extractor_extra_body: dict[str, Any] = {}
    """JSON that is added to each request."""
    extractor_headers: dict[str, str] = Field(default_factory=dict[str, str], repr=False)
    """Headers that are added to each request, as JSON."""

    rebuild_grace: float = Field(default=60.0, ge=0)
    """Seconds that a read model's old generation stays after a rebuild, for whoever still reads it."""

    http_requests_per_second: int = Field(default=_HTTP.requests_per_second, ge=0)
    """Requests per second of one credential, over REST, the page and MCP; 0 for no bound of any rate."""
    http_strangers_per_second: int = Field(default=_HTTP.strangers_per_second, ge=1)
    """Requests per second of one address by callers who were not let in yet; a tenth of them may show what is
    refused."""
    http_streams: int = Field(default=_HTTP.streams, ge=1)
    """Streams of events, replays and archives that a server has under way at a time; one tenant has half of
    them."""
    http_streams_per_caller: int = Field(default=_HTTP.streams_per_caller, ge=1)
    """Those of one caller."""
    http_connections: int = Field(default=_HTTP.connections, ge=2)
    """Open connections of a server, beyond which requests are answered 503; the system's limit of open files holds
    beside it."""
    http_proxies: str = ""
    """Addresses or networks of proxies whose ``X-Forwarded-For`` is believed, separated by commas."""

    mcp_url: str | None = None
    """Where clients reach MCP, such as ``https://memory.example.com/mcp``: with a JWT issuer, a client without a
    credential is told there how to get one (RFC 9728)."""
    mcp_sessions: bool = True
    """Open a session run for each MCP session that writes, so that what it wrote is listed and undone together."""

    forgetting_pass_enabled: bool = False
    """Run the daily pass at 04:30 UTC for every tenant that opted in."""
    session_closer_enabled: bool = False
    """After each session, let the judge say whether commitments are done, for every tenant that opted in."""
    commitment_expiry_grace_days: int = Field(default=EXPIRY_GRACE.days, ge=0, le=36_500)
    """How many days after its due date a commitment that is still open or waiting expires; 0 = at once."""

    webhook_allow_private: bool = False
    """Let webhooks lead to this machine and its network, and to this machine without TLS. Whoever administers a
    tenant can then reach what only this machine reaches."""
    webhook_timeout: float = Field(default=10.0, gt=0, le=60)
    """Seconds for one attempt to send to a webhook."""
    webhook_disable_after_days: float = Field(default=5.0, gt=0)
    """Days without a success after which a webhook that fails is disabled."""
    webhook_log_days: float = Field(default=30.0, gt=0)
    """Days that the log of deliveries keeps what is finished."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        file = os.environ.get("LETHELOG_CONFIG")
        if not file:
            return init_settings, env_settings
        if not Path(file).is_file():
            raise Misconfigured(f"LETHELOG_CONFIG names {file}, which is not a file")
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, toml_file=file)

    @classmethod
    def load(cls, **given: Any) -> Self:
        """The settings of this process. Raises `Misconfigured` naming the setting that is wrong."""
        try:
            return cls(**{name: value for name, value in given.items() if value is not None})
        except ValidationError as report:
            first = report.errors(include_url=False, include_context=False, include_input=False)[0]
            name = ".".join(str(part) for part in first["loc"])
            raise Misconfigured(
                f"LETHELOG_{name.upper()}: {first['msg']}", setting=f"LETHELOG_{name.upper()}"
            ) from None

    @field_validator(
        "data_dir", "master_key_file", "erasure_ledger", "signing_key_file", "token_file", "judge_thresholds"
    )
    @classmethod
    def _expand(cls, path: Path | None) -> Path | None:
        return None if path is None else path.expanduser()

    @property
    def key_file(self) -> Path:
        """Where the master key is."""
        return self.master_key_file or self.data_dir / "secrets" / "master.key"

    @property
    def ledger_file(self) -> Path:
        """Where the erasure ledger is."""
        return self.erasure_ledger or self.data_dir / "erasures.ledger"

    @property
    def signing_file(self) -> Path:
        """Where the signing key is."""
        return self.signing_key_file or self.data_dir / "secrets" / "signing.key"

    def credential(self) -> str | None:
        """The token this process shows, or None where it is the operator's. Raises `Misconfigured`."""
        if self.token is None and self.token_file is None:
            return None
        if self.token is not None and self.token_file is not None:
            raise Misconfigured("LETHELOG_TOKEN and LETHELOG_TOKEN_FILE are both set; leave one out")
        for name in ("tenant", "actor"):
            if name in self.model_fields_set:
                variable = f"LETHELOG_{name.upper()}"
                raise Misconfigured(
                    f"{variable} (or --{name}) is set beside a token, which says that itself; leave it out",
                    setting=variable,
                )
        return self.token.get_secret_value() if self.token is not None else _secret_in(self.token_file)

    def of_installation(self) -> Self:
        """For what belongs to no tenant: the same settings, whichever tenant they name."""
        if self.token is not None or self.token_file is not None:
            return self
        return self.model_copy(update={"tenant": DEFAULT_TENANT})

    def jwt(self) -> JwtSettings | None:
        """Which JWTs are taken, or None where none are. Raises `Misconfigured`."""
        if self.jwt_issuer is None and self.jwt_audience is None and self.jwt_jwks is None:
            return None
        return jwt_settings(
            issuer=self.jwt_issuer,
            audience=self.jwt_audience,
            jwks=self.jwt_jwks,
            algorithms=tuple(part.strip() for part in self.jwt_algorithms.split(",") if part.strip()),
            leeway=self.jwt_leeway,
            tenant_claim=self.jwt_tenant_claim,
            scopes_claim=self.jwt_scopes_claim,
            actor_claim=self.jwt_actor_claim,
            actor_kind=self.jwt_actor_kind,
            actor_kind_claim=self.jwt_actor_kind_claim,
        )

    def systemone(self) -> SystemOneSettings | None:
        """Settings of the System One judge, or None where it is not the one chosen."""
        if self.judge != "systemone" or self.judge_url is None or self.judge_model is None:
            return None
        optional = {
            "path": self.judge_path,
            "max_state_chars": self.judge_max_state_chars,
            "max_questions": self.judge_max_questions,
        }
        return SystemOneSettings(
            base_url=self.judge_url,
            model=self.judge_model,
            api_key=self.judge_key,
            answers_as=tuple(part.strip() for part in self.judge_answers_as.split(",") if part.strip()),
            allow_unpinned=self.judge_allow_unpinned,
            allow_plain_http=self.judge_allow_plain_http,
            permute=self.judge_permute,
            items_per_call=self.judge_items_per_call,
            timeout=self.judge_timeout,
            deadline=self.judge_deadline,
            max_attempts=self.judge_attempts,
            max_wait=self.judge_max_wait,
            max_reply_bytes=self.judge_max_reply_bytes,
            extra_body=self.judge_extra_body,
            extra_headers=self.judge_headers,
            **cast(dict[str, Any], {name: value for name, value in optional.items() if value is not None}),
        )

    def extractor(self) -> ExtractorSettings | None:
        """Where facts are read, or None where no extractor is configured. Raises `Misconfigured`."""
        if self.extractor_url is None and self.extractor_model is None:
            return None
        optional: dict[str, Any] = {} if self.extractor_path is None else {"path": self.extractor_path}
        return ExtractorSettings(
            # What is missing is refused by its name.
            base_url=self.extractor_url or "",
            model=self.extractor_model or "",
            api_key=self.extractor_key,
            allow_plain_http=self.extractor_allow_plain_http,
            timeout=self.extractor_timeout,
            deadline=self.extractor_deadline,
            max_attempts=self.extractor_attempts,
            max_wait=self.extractor_max_wait,
            max_reply_bytes=self.extractor_max_reply_bytes,
            extra_body=self.extractor_extra_body,
            extra_headers=self.extractor_headers,
            **optional,
        )

    def http(
        self, *, rate: int | None = None, behind_tls: bool = False, secure_cookies: bool = True
    ) -> HttpSettings:
        """How a server is bounded; ``behind_tls``: a proxy stands on this machine. Raises `Misconfigured`."""
        proxies = tuple(part.strip() for part in self.http_proxies.split(",") if part.strip())
        try:
            return HttpSettings(
                requests_per_second=self.http_requests_per_second if rate is None else rate,
                strangers_per_second=self.http_strangers_per_second,
                streams=self.http_streams,
                streams_per_caller=self.http_streams_per_caller,
                connections=self.http_connections,
                proxies=(*proxies, *(ON_THIS_MACHINE if behind_tls else ())),
                secure_cookies=secure_cookies,
            )
        except ValidationError:
            name = "LETHELOG_HTTP_PROXIES"
            said = f"{name}: must be addresses or networks, separated by commas, such as 10.0.0.0/8"
            raise Misconfigured(said, setting=name) from None

    def mcp_protected(self) -> Protected | None:
        """What MCP clients without a credential are told, or None where nothing is. Raises `Misconfigured`."""
        issuer, name = self.jwt(), "LETHELOG_MCP_URL"
        if self.mcp_url is None:
            return None
        if issuer is None:
            raise Misconfigured(f"{name}: goes with LETHELOG_JWT_ISSUER, whom it tells of", setting=name)
        try:
            return Protected.model_validate({"resource": self.mcp_url, "issuer": issuer.issuer})
        except ValidationError as report:
            name = name if report.errors()[0]["loc"][0] == "resource" else "LETHELOG_JWT_ISSUER"
            raise Misconfigured(
                f"{name}: must be an https URL that MCP clients can follow", setting=name
            ) from None

    def webhooks(self) -> WebhookSettings:
        """How webhooks are sent."""
        return WebhookSettings(
            allow_private=self.webhook_allow_private,
            timeout=self.webhook_timeout,
            disable_after=timedelta(days=self.webhook_disable_after_days),
            log_kept=timedelta(days=self.webhook_log_days),
        )

    def embedder_options(self) -> dict[str, Any]:
        """Options of the embedder that were set."""
        options: dict[str, Any] = {
            "base_url": self.embedder_url,
            "model": self.embedder_model,
            "api_key": self.embedder_key.get_secret_value() if self.embedder_key else None,
            "dimensions": self.embedder_dimensions,
        }
        return {name: value for name, value in options.items() if value is not None}


def _secret_in(file: Path | None) -> str:
    assert file is not None
    try:
        if file.stat().st_mode & 0o077:
            raise Misconfigured(f"others may read the token in {file}; run: chmod 600 {file}")
        return file.read_text().strip()
    except (OSError, ValueError):
        raise Misconfigured(
            f"LETHELOG_TOKEN_FILE names {file}, which cannot be read", setting="LETHELOG_TOKEN_FILE"
        ) from None


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
