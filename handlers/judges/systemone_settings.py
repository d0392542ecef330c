"""Where a System One judge is reached and how it is asked, checked once, at start.

Every problem is a `Misconfigured` that names the ``LETHELOG_JUDGE_*`` setting to change. Nothing is corrected
in silence: a setting that could change an answer is part of the judge's identity.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any
from urllib.parse import SplitResult, urlsplit

from pydantic import SecretStr

from ...domain.errors import Misconfigured
from ...domain.judging import MAX_QUESTIONS, MAX_STATE_CHARS
from .strict_json import strict_json_object

DEFAULT_PATH = "/v1/systemone"
KEYED_HOSTS = ("api.typesafe.ai", "openrouter.ai")
"""Hosts known to answer nobody without a key, so that a missing one is found at start."""
LEAST_STATE_CHARS = 16_000
"""Room for any single item, all of whose texts are cut (behaviour.md 1.16)."""
OWN_BODY_FIELDS = frozenset({"model", "state", "questions"})
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
_MOVING = frozenset({"latest", "preview", "auto", "default", "stable", "nightly"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemOneSettings:
    """One System One endpoint (judges.md 1.1, 1.2) and the bounds of one call to it.

    Raises `Misconfigured` when a value cannot work or would let an answer change unnoticed.
    """

    base_url: str
    """Scheme, host and any prefix before ``path``, e.g. ``https://openrouter.ai/api`` (LETHELOG_JUDGE_URL)."""
    model: str
    """The pinned model id that is sent (LETHELOG_JUDGE_MODEL)."""
    path: str = DEFAULT_PATH
    api_key: SecretStr | None = None
    """Sent as a bearer token (LETHELOG_JUDGE_KEY)."""
    answers_as: tuple[str, ...] = ()
    """Further exact ids under which the server may name that same model, e.g. a dated snapshot."""
    allow_unpinned: bool = False
    """Accept a moving id such as ``jev-latest``. The first model that answers is then the only one accepted."""
    allow_plain_http: bool = False
    """Send the key without TLS to a host that is not this machine."""
    permute: bool = True
    """Ask every item in two orders (judges.md 4.4, position bias)."""
    items_per_call: int = 1
    """Items that share one state. Part of the identity: shared state changes answers (judges.md 4.4)."""
    timeout: float = 10.0
    """Seconds for one attempt."""
    deadline: float = 30.0
    """Seconds for one decision in all, waiting included."""
    max_attempts: int = 3
    max_wait: float = 10.0
    """The longest pause between attempts; a server that asks for more is left alone until the next run."""
    max_reply_bytes: int = 1_048_576
    max_state_chars: int = MAX_STATE_CHARS
    max_questions: int = MAX_QUESTIONS
    """Questions in one request, each order of an item counted (behaviour.md 1.16)."""
    extra_body: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    extra_headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    def __post_init__(self) -> None:
        _check_address(self)
        _check_model(self)
        _check_key_and_headers(self)
        _check_bounds(self)
        # A copy of its own, in one order of keys, so that the same settings always make the same identity.
        object.__setattr__(self, "extra_body", _canonical(self.extra_body))

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
    def orders(self) -> int:
        """In how many orders each item is asked."""
        return 2 if self.permute else 1


def is_unpinned(model: str) -> bool:
    """Whether an id follows a moving target: OpenRouter's ``~`` aliases, and words such as ``latest``."""
    return model.startswith("~") or not _MOVING.isdisjoint(re.split(r"[-:/@._~+]", model.lower()))


def is_model_id(text: str) -> bool:
    """Whether a text has the shape of a model id, and so may be shown in errors and stored."""
    return _MODEL_ID.fullmatch(text) is not None


def _refuse(setting: str, problem: str, fix: str) -> Misconfigured:
    return Misconfigured(f"{setting}: {problem}. {fix}", setting=setting)


def _split(base_url: str) -> SplitResult | None:
    try:
        parts = urlsplit(base_url)
        _ = parts.port  # Raises where the port is no number.
    except ValueError:
        return None
    return parts


def _check_address(settings: SystemOneSettings) -> None:
    parts = _split(settings.base_url)
    # The address itself is not repeated: it may hold a password.
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        raise _refuse("LETHELOG_JUDGE_URL", "not an http or https address", "Give e.g. https://api.typesafe.ai")
    if not settings.base_url.isascii() or any(c.isspace() for c in settings.base_url):
        raise _refuse("LETHELOG_JUDGE_URL", "holds white space or non-ASCII characters", "Use the ASCII form")
    if parts.username is not None or parts.password is not None:
        raise _refuse("LETHELOG_JUDGE_URL", "holds a user name or password", "Put the key in LETHELOG_JUDGE_KEY")
    if parts.query or parts.fragment:
        raise _refuse("LETHELOG_JUDGE_URL", "holds a query or fragment", "Give scheme, host and path only")
    path = settings.path
    if not re.fullmatch(r"/[\w.~\-/]+", path, re.ASCII):
        raise _refuse("LETHELOG_JUDGE_PATH", "not an absolute path", f"The usual one is {DEFAULT_PATH}")
    if path.startswith("/v1/") and parts.path.rstrip("/").endswith("/v1"):
        raise _refuse("LETHELOG_JUDGE_URL", f"ends with /v1, which {path} adds again", "Leave /v1 out of the URL")


def _check_model(settings: SystemOneSettings) -> None:
    if not is_model_id(settings.model):
        raise _refuse("LETHELOG_JUDGE_MODEL", "missing or not a model id", "Give a pinned id, e.g. jev-1.14.0")
    if is_unpinned(settings.model) and not settings.allow_unpinned:
        raise _refuse(
            "LETHELOG_JUDGE_MODEL",
            f"{settings.model} can come to mean another model, and thresholds belong to one",
            "Give a pinned id, or set LETHELOG_JUDGE_ALLOW_UNPINNED=true",
        )
    if not all(is_model_id(name) for name in settings.answers_as):
        raise _refuse("LETHELOG_JUDGE_ANSWERS_AS", "holds something that is no model id", "List exact ids")


def _check_key_and_headers(settings: SystemOneSettings) -> None:
    parts = urlsplit(settings.base_url)
    key = settings.api_key.get_secret_value() if settings.api_key is not None else None
    if key is not None and not re.fullmatch(r"[!-~]+", key):
        raise _refuse("LETHELOG_JUDGE_KEY", "empty, or holds white space or non-ASCII characters", "Check it")
    names = {name.lower() for name in settings.extra_headers}
    if key is None and parts.hostname in KEYED_HOSTS and not names:
        raise _refuse("LETHELOG_JUDGE_KEY", f"missing, and {parts.hostname} needs one", "Set the key")
    if key is not None and parts.scheme == "http" and not settings.allow_plain_http and not settings.is_local:
        raise _refuse(
            "LETHELOG_JUDGE_URL",
            "would send the key without TLS to another machine",
            "Use https, or set LETHELOG_JUDGE_ALLOW_PLAIN_HTTP=true",
        )
    if names & OWN_HEADERS:
        raise _refuse(
            "LETHELOG_JUDGE_HEADERS", "sets a header of the engine's own", "Use LETHELOG_JUDGE_KEY for keys"
        )
    for name, value in settings.extra_headers.items():
        if not re.fullmatch(r"[A-Za-z0-9\-]+", name) or not re.fullmatch(r"[ -~]*", value):
            raise _refuse("LETHELOG_JUDGE_HEADERS", "holds a name or value no header can have", "Use ASCII")
    if OWN_BODY_FIELDS & settings.extra_body.keys():
        raise _refuse("LETHELOG_JUDGE_EXTRA_BODY", "sets model, state or questions", "Leave these out")


def _canonical(extra_body: Mapping[str, Any]) -> dict[str, Any]:
    try:
        text = json.dumps(dict(extra_body), ensure_ascii=False, allow_nan=False, sort_keys=True)
        return strict_json_object(text.encode("utf-8"))
    except (TypeError, ValueError, RecursionError):
        raise _refuse("LETHELOG_JUDGE_EXTRA_BODY", "is not one JSON object", 'Give e.g. {"user": "a"}') from None


def _check_bounds(settings: SystemOneSettings) -> None:
    for setting, value in (
        ("LETHELOG_JUDGE_TIMEOUT", settings.timeout),
        ("LETHELOG_JUDGE_DEADLINE", settings.deadline),
        ("LETHELOG_JUDGE_MAX_WAIT", settings.max_wait),
    ):
        if not 0 < value <= 3_600:
            raise _refuse(setting, "not between 0 and 3600 seconds", "The defaults are 10, 30 and 10")
    if not 1 <= settings.max_attempts <= 10:
        raise _refuse("LETHELOG_JUDGE_ATTEMPTS", "not between 1 and 10", "The default is 3")
    if not 1 <= settings.max_reply_bytes <= 64 * 1_048_576:
        raise _refuse("LETHELOG_JUDGE_MAX_REPLY_BYTES", "not between 1 byte and 64 MiB", "The default is 1 MiB")
    if not LEAST_STATE_CHARS <= settings.max_state_chars <= MAX_STATE_CHARS:
        raise _refuse(
            "LETHELOG_JUDGE_MAX_STATE_CHARS",
            f"not between {LEAST_STATE_CHARS} and {MAX_STATE_CHARS}",
            f"The default is {MAX_STATE_CHARS}",
        )
    if not settings.orders <= settings.max_questions <= MAX_QUESTIONS:
        raise _refuse(
            "LETHELOG_JUDGE_MAX_QUESTIONS",
            f"not between {settings.orders} and {MAX_QUESTIONS}",
            f"The default is {MAX_QUESTIONS}",
        )
    most = settings.max_questions // settings.orders
    if not 1 <= settings.items_per_call <= most:
        raise _refuse(
            "LETHELOG_JUDGE_ITEMS_PER_CALL",
            f"not between 1 and {most}, the questions of one request over the orders asked",
            "The default is 1",
        )


def _is_loopback(name: str) -> bool:
    if name == "localhost":
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False
