"""From a credential to its caller: the one way in for every door that does not belong to the operator.

A token's stream is read anew when what is known of it is older than `KNOWN_SECONDS`, so a revocation takes effect
in every process within that time. An unknown tenant, an unknown token and a wrong secret answer alike, by the same
statement.
"""

import contextlib
import hashlib
import hmac
import time
from collections.abc import Generator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Protocol
from uuid import UUID

from ...domain.errors import InvalidCredential
from ...domain.token import Token, evolve_token
from ...streams.folding import fold_stream
from ...streams.payloads import Actor
from ..engine import Engine
from .caller import Caller, known_permissions
from .token_text import PREFIX, SECRET_BYTES, TokenText, read_token

KNOWN_SECONDS = 2.0
"""For how long a token that was found valid is taken for valid without looking again."""
KNOWN_LIMIT = 10_000
"""Credentials that are known at a time."""
_REFUSED = "the token is not valid: nobody issued it, or it was revoked"
_NOBODY = hashlib.sha256(b"no token").hexdigest()


class Verifier(Protocol):
    """Checks credentials of another kind than tokens, such as a JWT."""

    async def caller(self, credential: str) -> Caller:
        """Who it is. Raises `InvalidCredential`."""
        ...


@dataclass
class Shown:
    """What became of the credential that one request showed, for whoever counts requests."""

    let_in: str | None = None
    """The digest of one that was taken for valid."""
    refused: bool = False
    """Whether one was found not to be."""


_shown: ContextVar[Shown | None] = ContextVar("shown", default=None)


@contextlib.contextmanager
def noting() -> Generator[Shown]:
    """Say of the credentials that are checked inside the block, and in tasks begun there, what became of them."""
    shown = Shown()
    token = _shown.set(shown)
    try:
        yield shown
    finally:
        _shown.reset(token)


class Credentials:
    """Checks what callers show."""

    def __init__(self, engine: Engine, other: Verifier | None = None) -> None:
        """``other`` is asked about whatever is no token."""
        self._engine = engine
        self._other = other
        self._known: dict[bytes, tuple[float, Token, UUID]] = {}

    async def caller(self, credential: str) -> Caller:
        """Who shows this credential, and what it allows. Raises `InvalidCredential`, `Unavailable`."""
        text, shown = credential.strip(), _shown.get() or Shown()
        try:
            caller = await self._checked(text)
        except InvalidCredential:
            shown.refused = True
            raise
        shown.let_in = hashlib.sha256(text.encode()).hexdigest()
        return caller

    async def _checked(self, text: str) -> Caller:
        if text.startswith(PREFIX):
            return await self._of_token(text)
        if self._other is None:
            raise InvalidCredential(f"this is no token; tokens begin with {PREFIX}, see: lethelog token issue")
        return await self._other.caller(text)

    async def _of_token(self, text: str) -> Caller:
        said = read_token(text)
        if said is None:
            raise InvalidCredential("the token is damaged; copy it whole, without quotes or line breaks")
        seen = hashlib.sha256(text.encode()).digest()
        at, token, tenant = self._known.get(seen, (0.0, None, said.tenant))
        if token is None or time.monotonic() - at >= KNOWN_SECONDS:
            self._known.pop(seen, None)
            at, token = time.monotonic(), await self._read(said)
            if len(self._known) >= KNOWN_LIMIT:
                self._known.clear()
            self._known[seen] = (at, token, said.tenant)
        if token.status(self._engine.clock()) not in ("active", "rotated"):
            raise InvalidCredential("the token has expired; issue or rotate to a new one", token_id=token.id)
        permissions = known_permissions(token.permissions)
        return Caller(tenant, Actor(token.actor_kind, token.actor), permissions, token.expires_at)

    async def _read(self, said: TokenText) -> Token:
        """The token as it stands, if this is its secret and it was not revoked."""
        recorded = await self._engine.log.read_stream(said.tenant, said.token)
        state = None
        if recorded and recorded[0].name == "token.issued":
            state = fold_stream(recorded, evolve_token)
        digest = _NOBODY if state is None else state.digest
        right = hmac.compare_digest(digest_of(said.secret), digest)
        if state is None or not right or state.revoked_at is not None:
            raise InvalidCredential(_REFUSED)
        return state


@dataclass(frozen=True, slots=True)
class Credential:
    """A credential that is checked before each verb, since it may be revoked while the memory is open."""

    credentials: Verifier
    text: str = field(repr=False)

    async def caller(self) -> Caller:
        """Who shows it. Raises `InvalidCredential`, `Unavailable`."""
        return await self.credentials.caller(self.text)


def digest_of(secret: bytes) -> str:
    """How a secret is kept on record. It is random and long, so a plain digest says nothing of it."""
    if len(secret) != SECRET_BYTES:
        raise ValueError(f"a secret has {SECRET_BYTES} bytes")
    return hashlib.sha256(secret).hexdigest()
