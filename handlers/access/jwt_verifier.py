"""Callers by JSON Web Token of a configured issuer (RFC 7519, RFC 8725), verified with PyJWT.

Only the algorithms of public keys that the settings name are taken, whatever a token's header says: neither
``none`` nor HMAC, so that nobody signs with a public key. Keys come from a JWKS file or URL (RFC 7517); one that
is not known is looked for again, seldom enough that strangers cannot make this process ask all the time.
"""

import asyncio
import contextlib
import json
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import httpx2
import jwt

from ...domain.errors import InvalidCredential, InvalidInput, Unavailable
from ...domain.fields import Input, Name, parse
from ...streams.payloads import Actor
from ..engine import Engine
from ..tenancy.tenancy import Tenancy
from ..tenancy.tenant_names import TenantName
from .caller import NAMED_KINDS, Caller, NamedKind, known_permissions
from .jwt_settings import JwtSettings

KEYS_LAST_SECONDS = 300.0
"""After this the keys are read again."""
KEYS_HOLD_SECONDS = 3_600.0
"""For how long they hold where they cannot be read again; a withdrawn key opens nothing after that."""
READ_AGAIN_SECONDS = 10.0
"""How soon after a read an unknown key may lead to another."""
FETCH_SECONDS = 5.0
JWKS_BYTES = 262_144


class JwtVerifier:
    """Checks tokens of one issuer."""

    def __init__(self, engine: Engine, settings: JwtSettings) -> None:
        self._engine = engine
        self._settings = settings
        self._keys = KeySet(settings.jwks)
        self._tenancy = Tenancy(engine)

    async def caller(self, credential: str) -> Caller:
        """Who the token says it is. Raises `InvalidCredential`, `Unavailable` (the issuer's keys)."""
        claims = await self._verified(credential)
        chosen = self._settings
        name = _text(claims, chosen.tenant_claim, "tenant")
        try:
            tenant = await self._tenancy.find(parse(_Tenant, {"name": name}).name)
            actor = parse(_Actor, {"name": _text(claims, chosen.actor_claim, "actor")}).name
        except InvalidInput:
            raise InvalidCredential("a claim of the token is no name") from None
        if tenant is None:
            raise InvalidCredential("the token names no tenant of this installation")
        kind = self._kind(claims)
        permissions = known_permissions(_scopes(claims.get(chosen.scopes_claim)))
        ident = await self._engine.directory.register(tenant.id, "actor", actor)
        ends = datetime.fromtimestamp(claims["exp"], UTC)
        return Caller(tenant.id, Actor(kind, ident), permissions, ends)

    async def _verified(self, credential: str) -> dict[str, Any]:
        try:
            header = jwt.get_unverified_header(credential)
        except jwt.InvalidTokenError:
            raise InvalidCredential("the credential is neither a token of Lethelog nor a JWT") from None
        algorithm = header.get("alg")
        if algorithm not in self._settings.algorithms:
            raise InvalidCredential("the token is signed by an algorithm that is not taken here")
        published = await self._keys.find(header.get("kid"))
        key = published and published.key_for(algorithm)
        if key is None:
            raise InvalidCredential("the token is signed with a key that the issuer does not publish for that")
        try:
            return jwt.decode(
                credential,
                key,
                algorithms=list(self._settings.algorithms),
                issuer=self._settings.issuer,
                audience=self._settings.audience,
                leeway=self._settings.leeway,
                options={"require": ["exp", "iss", "aud"]},
            )
        except jwt.InvalidTokenError as error:
            raise InvalidCredential(_refusal(error)) from None

    def _kind(self, claims: dict[str, Any]) -> NamedKind:
        claim = self._settings.actor_kind_claim
        if claim is None:
            return self._settings.actor_kind
        kind = claims.get(claim)
        if kind not in NAMED_KINDS:
            raise InvalidCredential("the token does not say what kind of actor it is for")
        return kind


@dataclass(frozen=True, slots=True)
class PublishedKey:
    """A public key of an issuer, as it stands in the key set."""

    key: jwt.PyJWK
    data: dict[str, Any]

    def key_for(self, algorithm: str) -> jwt.PyJWK | None:
        """The key for this algorithm: the one that it names, or any of its own kind where it names none."""
        if self.key.algorithm_name == algorithm:
            return self.key
        # Of all kinds only RSA goes with several algorithms.
        free = "alg" not in self.data and self.key.key_type == "RSA" and algorithm[:2] in ("RS", "PS")
        return jwt.PyJWK(self.data, algorithm) if free else None


class KeySet:
    """The public keys of an issuer; they hold for `KEYS_HOLD_SECONDS` while it does not answer."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._keys: dict[str | None, PublishedKey] = {}
        self._read_at = self._tried_at = float("-inf")
        self._reading = asyncio.Lock()

    async def find(self, kid: object) -> PublishedKey | None:
        """The key of this id; the only one there is for a token that names none.

        Raises `Unavailable` where the keys were not read for so long that one may have been withdrawn.
        """
        if self._reading.locked() and self._hold() and (known := self._named(kid)):
            return known
        async with self._reading:
            now = time.monotonic()
            wanted = now - self._read_at >= KEYS_LAST_SECONDS or self._named(kid) is None
            if wanted and now - self._tried_at >= READ_AGAIN_SECONDS:
                await self._read()
            if not self._keys or not self._hold():
                raise Unavailable("the keys of the JWT issuer cannot be read; see LETHELOG_JWT_JWKS")
            return self._named(kid)

    def _hold(self) -> bool:
        return time.monotonic() - self._read_at < KEYS_HOLD_SECONDS

    def _named(self, kid: object) -> PublishedKey | None:
        if kid is None:
            return next(iter(self._keys.values())) if len(self._keys) == 1 else None
        return self._keys.get(kid) if isinstance(kid, str) else None

    async def _read(self) -> None:
        """Read the keys; those that are known go on where that fails."""
        self._tried_at = time.monotonic()
        try:
            async with asyncio.timeout(FETCH_SECONDS):
                text = await (self._fetched() if "://" in self._where else asyncio.to_thread(self._of_file))
            keys = _key_set(json.loads(text))
        except (OSError, ValueError, TypeError, AttributeError, httpx2.HTTPError, jwt.PyJWTError):
            return
        self._keys = {
            one.key.key_id: one for one in keys if one.key.key_type != "oct" and one.key.public_key_use != "enc"
        }
        self._read_at = self._tried_at

    async def _fetched(self) -> str:
        async with httpx2.AsyncClient(timeout=FETCH_SECONDS, follow_redirects=False) as client:
            answer = await client.get(self._where)
            answer.raise_for_status()
            if len(answer.content) > JWKS_BYTES:
                raise ValueError("the key set is too large")
            return answer.text

    def _of_file(self) -> str:
        return Path(self._where).expanduser().read_text()


def _key_set(document: Any) -> list[PublishedKey]:
    """The keys that can be used; others are passed over. Raises `PyJWKSetError` where that is none."""
    found: list[PublishedKey] = []
    for data in document.get("keys", ()):
        if not isinstance(data, dict):
            continue
        with contextlib.suppress(jwt.PyJWTError):
            found.append(PublishedKey(jwt.PyJWK(cast("dict[str, Any]", data)), cast("dict[str, Any]", data)))
    if not found:
        raise jwt.PyJWKSetError("no key that can be used")
    return found


class _Tenant(Input):
    name: TenantName


class _Actor(Input):
    name: Name


def _text(claims: dict[str, Any], claim: str, what: str) -> str:
    value = claims.get(claim)
    if not isinstance(value, str) or not value.strip():
        raise InvalidCredential(f"the token does not say which {what} it is for")
    return value


def _scopes(given: Any) -> list[str]:
    """OAuth's text with blanks between, or a list."""
    if isinstance(given, str):
        return given.split()
    if isinstance(given, list):
        return [one for one in cast("list[Any]", given) if isinstance(one, str)]
    return []


def _refusal(error: jwt.InvalidTokenError) -> str:
    match error:
        case jwt.ExpiredSignatureError():
            return "the token has expired"
        case jwt.ImmatureSignatureError():
            return "the token is not valid yet"
        case jwt.InvalidAudienceError():
            return "the token is for another audience"
        case jwt.InvalidIssuerError():
            return "the token is of another issuer"
        case jwt.MissingRequiredClaimError():
            return "the token lacks one of the claims exp, iss and aud"
        case _:
            return "the token is not valid"
