"""Where a model elsewhere is reached, checked once, at start: what judges and extractors have in common.

Every problem is a `Misconfigured` that names the setting to change. Nothing is corrected in silence: a setting
that could change an answer is part of the identity of whoever is asked.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from types import MappingProxyType
from typing import Any, ClassVar
from urllib.parse import SplitResult, urlsplit

from pydantic import SecretStr

from ...domain.errors import LethelogError, Misconfigured
from .strict_json import strict_json_object

OWN_HEADERS = frozenset(
    {
        "accept",
        "accept-encoding",
        "authorization",
        "content-length",
        "content-type",
        "host",
        "transfer-encoding",
        "user-agent",
    }
)

_MODEL_ID = re.compile(r"[\w.:/@~+\-]{1,200}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One HTTP endpoint of a model and the bounds of one call to it. A subclass says which wire it speaks.

    Raises `Misconfigured` when a value cannot work.
    """

    NOUN: ClassVar[str]
    """Who is asked there, in a word."""
    PREFIX: ClassVar[str]
    """What the names of its settings begin with."""
    EXAMPLE: ClassVar[str]
    """An address that could be given."""
    EXAMPLE_MODEL: ClassVar[str]
    USUAL_PATH: ClassVar[str]
    KEYED_HOSTS: ClassVar[tuple[str, ...]]
    """Hosts known to answer nobody without a key, so that a missing one is found at start."""
    OWN_BODY_FIELDS: ClassVar[tuple[str, ...]]
    """Fields of the request that only the engine writes."""
    UNAVAILABLE: ClassVar[type[LethelogError]]
    """Raised where it cannot be asked just now."""
    REJECTED: ClassVar[type[LethelogError]]
    """Raised where it refuses the request itself."""
    AFTERWARDS: ClassVar[str]
    """What becomes of what it could not be asked."""
    FIXES: ClassVar[Mapping[int, str]] = MappingProxyType({})
    """What to do about a status, beside what goes for every endpoint."""

    base_url: str
    """Scheme, host and any prefix before ``path``."""
    model: str
    """The model id that is sent."""
    path: str
    api_key: SecretStr | None = None
    """Sent as a bearer token."""
    allow_plain_http: bool = False
    """Send the key without TLS to a host that is not this machine."""
    timeout: float = 10.0
    """Seconds for one attempt."""
    deadline: float = 30.0
    """Seconds for one call in all, waiting included."""
    max_attempts: int = 3
    max_wait: float = 10.0
    """The longest pause between attempts; a server that asks for more is left alone until later."""
    max_reply_bytes: int = 1_048_576
    extra_body: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    extra_headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    def __post_init__(self) -> None:
        _check_address(self)
        self.check_model()
        _check_key_and_headers(self)
        _check_bounds(self)
        # A copy of its own, in one order of keys, so that the same settings always make the same identity.
        object.__setattr__(self, "extra_body", _canonical(self))

    def check_model(self) -> None:
        """Raise `Misconfigured` unless the model id is one."""
        if not is_model_id(self.model):
            raise self.refusal("MODEL", "missing or not a model id", f"Give e.g. {self.EXAMPLE_MODEL}")

    def refusal(self, setting: str, problem: str, fix: str) -> Misconfigured:
        """The error for a setting, by its name without prefix."""
        name = f"{self.PREFIX}_{setting}"
        return Misconfigured(f"{name}: {problem}. {fix}", setting=name)

    @property
    def url(self) -> str:
        """The full address of the answer route."""
        return self.base_url.rstrip("/") + self.path

    @property
    def host(self) -> str:
        """Host of the base URL, with the port where one is written."""
        parts = urlsplit(self.base_url)
        name = parts.hostname or ""
        return name if parts.port is None else f"{name}:{parts.port}"

    @property
    def is_local(self) -> bool:
        """Whether the host is this machine."""
        return _is_loopback(urlsplit(self.base_url).hostname or "")

    @property
    def headers(self) -> dict[str, str]:
        """What every request carries."""
        headers = {
            **self.extra_headers,
            "Content-Type": "application/json",
            "Accept": "application/json",
            # Replies are small, and an unpacked one may not be.
            "Accept-Encoding": "identity",
            "User-Agent": "lethelog",
        }
        if self.api_key is not None:
            headers["Authorization"] = f"Bearer {self.api_key.get_secret_value()}"
        return headers


def is_model_id(text: str) -> bool:
    """Whether a text has the shape of a model id, and so may be shown in errors and stored."""
    return _MODEL_ID.fullmatch(text) is not None


def _split(base_url: str) -> SplitResult | None:
    try:
        parts = urlsplit(base_url)
        _ = parts.port  # Raises where the port is no number.
    except ValueError:
        return None
    return parts


def _check_address(endpoint: Endpoint) -> None:
    parts = _split(endpoint.base_url)
    # The address itself is not repeated: it may hold a password.
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        raise endpoint.refusal("URL", "not an http or https address", f"Give e.g. {endpoint.EXAMPLE}")
    if not endpoint.base_url.isascii() or any(c.isspace() for c in endpoint.base_url):
        raise endpoint.refusal("URL", "holds white space or non-ASCII characters", "Use the ASCII form")
    if parts.username is not None or parts.password is not None:
        raise endpoint.refusal("URL", "holds a user name or password", f"Put the key in {endpoint.PREFIX}_KEY")
    if parts.query or parts.fragment:
        raise endpoint.refusal("URL", "holds a query or fragment", "Give scheme, host and path only")
    path = endpoint.path
    if not re.fullmatch(r"/[\w.~\-/]+", path, re.ASCII):
        raise endpoint.refusal("PATH", "not an absolute path", f"The usual one is {endpoint.USUAL_PATH}")
    if path.startswith("/v1/") and parts.path.rstrip("/").endswith("/v1"):
        raise endpoint.refusal("URL", f"ends with /v1, which {path} adds again", "Leave /v1 out of the URL")


def _check_key_and_headers(endpoint: Endpoint) -> None:
    parts = urlsplit(endpoint.base_url)
    key = endpoint.api_key.get_secret_value() if endpoint.api_key is not None else None
    if key is not None and not re.fullmatch(r"[!-~]+", key):
        raise endpoint.refusal("KEY", "empty, or holds white space or non-ASCII characters", "Check it")
    names = {name.lower() for name in endpoint.extra_headers}
    if key is None and parts.hostname in endpoint.KEYED_HOSTS and not names:
        raise endpoint.refusal("KEY", f"missing, and {parts.hostname} needs one", "Set the key")
    if key is not None and parts.scheme == "http" and not endpoint.allow_plain_http and not endpoint.is_local:
        raise endpoint.refusal(
            "URL",
            "would send the key without TLS to another machine",
            f"Use https, or set {endpoint.PREFIX}_ALLOW_PLAIN_HTTP=true",
        )
    if names & OWN_HEADERS:
        raise endpoint.refusal(
            "HEADERS", "sets a header of the engine's own", f"Use {endpoint.PREFIX}_KEY for keys"
        )
    for name, value in endpoint.extra_headers.items():
        if not re.fullmatch(r"[A-Za-z0-9\-]+", name) or not re.fullmatch(r"[ -~]*", value):
            raise endpoint.refusal("HEADERS", "holds a name or value no header can have", "Use ASCII")
    own = endpoint.OWN_BODY_FIELDS
    if set(own) & endpoint.extra_body.keys():
        raise endpoint.refusal("EXTRA_BODY", f"sets {', '.join(own[:-1])} or {own[-1]}", "Leave these out")


def _canonical(endpoint: Endpoint) -> dict[str, Any]:
    try:
        text = json.dumps(dict(endpoint.extra_body), ensure_ascii=False, allow_nan=False, sort_keys=True)
        return strict_json_object(text.encode("utf-8"))
    except (TypeError, ValueError, RecursionError):
        raise endpoint.refusal("EXTRA_BODY", "is not one JSON object", 'Give e.g. {"user": "a"}') from None


def _check_bounds(endpoint: Endpoint) -> None:
    for setting, value in (
        ("TIMEOUT", endpoint.timeout),
        ("DEADLINE", endpoint.deadline),
        ("MAX_WAIT", endpoint.max_wait),
    ):
        if not 0 < value <= 3_600:
            raise endpoint.refusal(setting, "not between 0 and 3600 seconds", "The defaults will do")
    if not 1 <= endpoint.max_attempts <= 10:
        raise endpoint.refusal("ATTEMPTS", "not between 1 and 10", "The default is 3")
    if not 1 <= endpoint.max_reply_bytes <= 64 * 1_048_576:
        raise endpoint.refusal("MAX_REPLY_BYTES", "not between 1 byte and 64 MiB", "The default is 1 MiB")


def _is_loopback(name: str) -> bool:
    if name == "localhost":
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False
