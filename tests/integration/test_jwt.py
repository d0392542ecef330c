"""JSON Web Tokens: who they let in, and the attacks that they do not."""

import asyncio
import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, RSAAlgorithm
from lethelog.domain.errors import InvalidCredential, Misconfigured, Unavailable
from lethelog.handlers.access import jwt_verifier as verifier_module
from lethelog.handlers.access.credentials import Credentials
from lethelog.handlers.access.jwt_settings import JwtSettings
from lethelog.handlers.access.jwt_verifier import JwtVerifier
from lethelog.handlers.tenancy.tenancy import Tenancy
from lethelog.ops.settings import Settings

ISSUER, AUDIENCE = "https://issuer.example", "lethelog"
RSA_KEY, OTHER_KEY = (rsa.generate_private_key(65537, 2048) for _ in range(2))
EC_KEY = ec.generate_private_key(ec.SECP256R1())


def jwk(key: Any, kid: str, algorithm: Any = RSAAlgorithm) -> dict[str, Any]:
    return {**algorithm.to_jwk(key.public_key(), as_dict=True), "kid": kid, "use": "sig"}


PUBLISHED = [jwk(RSA_KEY, "one"), {**jwk(EC_KEY, "two", ECAlgorithm), "alg": "ES256"}]
SHARED_SECRET = {"kty": "oct", "kid": "shared", "k": base64.urlsafe_b64encode(b"s" * 32).decode().rstrip("=")}


def claims(**changes: Any) -> dict[str, Any]:
    now = int(time.time())
    whole = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "ada",
        "exp": now + 600,
        "iat": now,
        "tenant": "acme",
        "scope": "openid memory:read memory:write installation:admin",
    }
    return {name: value for name, value in (whole | changes).items() if value is not None}


def signed(key: Any = RSA_KEY, kid: str | None = "one", algorithm: str = "RS256", **changes: Any) -> str:
    return jwt.encode(claims(**changes), key, algorithm, headers={"kid": kid} if kid else None)


def by_hand(header: dict[str, Any], secret: bytes | None) -> str:
    """A token that a careful library refuses to make."""

    def part(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).decode().rstrip("=")

    text = f"{part(json.dumps(header).encode())}.{part(json.dumps(claims()).encode())}"
    signature = b"" if secret is None else hmac.new(secret, text.encode(), hashlib.sha256).digest()
    return f"{text}.{part(signature)}"


def settings_for(jwks: object, **changes: Any) -> JwtSettings:
    given = {"jwt_issuer": ISSUER, "jwt_audience": AUDIENCE, "jwt_jwks": str(jwks), "jwt_leeway": 5.0, **changes}
    found = Settings.load(**given).jwt()
    assert found is not None
    return found


@pytest.fixture
def jwks(tmp_path: Path) -> Path:
    file = tmp_path / "jwks.json"
    file.write_text(json.dumps({"keys": [*PUBLISHED, SHARED_SECRET]}))
    return file


@pytest.fixture
async def acme(world):
    return await Tenancy(world.engine).create(world.caller, {"name": "acme"})


@pytest.fixture
async def credentials(world, acme, jwks: Path) -> Credentials:
    return Credentials(world.engine, JwtVerifier(world.engine, settings_for(jwks)))


@pytest.mark.parametrize("how", [{}, {"key": EC_KEY, "kid": "two", "algorithm": "ES256"}])
async def test_a_token_of_the_issuer_is_its_subject_in_its_tenant(world, acme, credentials, how: dict[str, Any]):
    caller = await credentials.caller(signed(**how))
    assert (caller.tenant, caller.actor.kind) == (acme.id, "person")
    assert caller.permissions == {"memory:read", "memory:write"}, "none of the installation, and none of others"
    assert (await world.engine.directory.names(acme.id, [caller.actor.id]))[caller.actor.id] == "ada"


PEM = RSA_KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
ATTACKS: dict[str, str] = {
    "no signature": by_hand({"alg": "none", "typ": "JWT", "kid": "one"}, None),
    "no signature, in capitals": by_hand({"alg": "NONE", "kid": "one"}, None),
    "no algorithm": by_hand({"typ": "JWT", "kid": "one"}, None),
    "HMAC with the public key": by_hand({"alg": "HS256", "kid": "one"}, PEM),
    "HMAC with the secret of the key set": by_hand({"alg": "HS256", "kid": "shared"}, b"s" * 32),
    "RS256 under a shared secret": by_hand({"alg": "RS256", "kid": "shared"}, b"s" * 32),
    "another key": signed(OTHER_KEY),
    "a key of its own in the header": jwt.encode(
        claims(), OTHER_KEY, "RS256", headers={"kid": "one", "jwk": jwk(OTHER_KEY, "one")}
    ),
    "an unknown key": signed(OTHER_KEY, "three"),
    "no key named among several": signed(kid=None),
    "an algorithm that is not taken": signed(algorithm="RS512"),
    "the algorithm of another key": signed(kid="two"),
    "another audience": signed(aud="other"),
    "no audience": signed(aud=None),
    "another issuer": signed(iss="https://elsewhere.example"),
    "no issuer": signed(iss=None),
    "expired": signed(exp=int(time.time()) - 60),
    "never expiring": signed(exp=None),
    "not valid yet": signed(nbf=int(time.time()) + 3_600),
    "issued in the future": signed(iat=int(time.time()) + 3_600),
    "no tenant": signed(tenant=None),
    "an empty tenant": signed(tenant=" "),
    "two tenants": signed(tenant=["acme", "default"]),
    "a tenant that is not there": signed(tenant="acme-corp"),
    "a tenant in another case": signed(tenant="ACME"),
    "no subject": signed(sub=None),
    "no JWT": "a.b.c",
    "cut off": signed()[:-10],
}


async def test_every_attack_is_refused_and_makes_nothing(world, acme, credentials):
    let_in: list[str] = []
    for attack, token in ATTACKS.items():
        try:
            await credentials.caller(token)
        except InvalidCredential as refused:
            assert token not in str(refused.as_dict()), attack
        else:
            let_in.append(attack)
    assert let_in == []
    assert await world.engine.directory.find(acme.id, "actor", "ada") is None


async def test_a_key_that_names_no_algorithm_goes_with_those_of_its_kind_and_one_that_does_with_that_alone(
    world, acme, tmp_path: Path
):
    file = tmp_path / "jwks.json"
    named = {**jwk(OTHER_KEY, "named"), "alg": "RS256"}
    file.write_text(json.dumps({"keys": [*PUBLISHED, named, {"kty": "LSD", "kid": "odd"}, "no key"]}))
    chosen = settings_for(file, jwt_algorithms="RS256,RS512,PS384,ES256,ES384")
    credentials = Credentials(world.engine, JwtVerifier(world.engine, chosen))
    for algorithm in ("RS256", "RS512", "PS384"):
        assert (await credentials.caller(signed(algorithm=algorithm))).tenant == acme.id
    await credentials.caller(signed(OTHER_KEY, "named"))
    for wrong in (
        signed(OTHER_KEY, "named", "RS512"),
        signed(algorithm="RS384"),
        signed(kid="two", algorithm="RS512"),
        jwt.encode(claims(), ec.generate_private_key(ec.SECP384R1()), "ES384", headers={"kid": "two"}),
    ):
        with pytest.raises(InvalidCredential):
            await credentials.caller(wrong)


async def test_scopes_that_are_missing_or_malformed_allow_nothing(credentials):
    for scope in (None, 7, {"memory:read": True}, ["nonsense", 7], ""):
        assert (await credentials.caller(signed(scope=scope))).permissions == frozenset()
    assert (await credentials.caller(signed(scope=["memory:read"]))).permissions == {"memory:read"}


async def test_clocks_may_differ_by_the_leeway(credentials):
    await credentials.caller(signed(exp=int(time.time()) - 2))


async def test_the_kind_of_actor_may_stand_in_a_claim(world, acme, jwks: Path):
    chosen = settings_for(jwks, jwt_actor_kind_claim="kind", jwt_actor_claim="client", jwt_tenant_claim="org")
    credentials = Credentials(world.engine, JwtVerifier(world.engine, chosen))
    caller = await credentials.caller(signed(kind="agent", client="planner", org="acme", tenant=None))
    assert caller.actor.kind == "agent"
    for wrong in (None, "system", "worker", 7):
        with pytest.raises(InvalidCredential):
            await credentials.caller(signed(kind=wrong, client="planner", org="acme"))


class Published(HTTPServer):
    """The issuer's key set on loopback."""

    keys: list[dict[str, Any]]
    asked = 0
    status = 200

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.answering, self.called = threading.Event(), threading.Event()
        self.answering.set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/jwks"


@pytest.fixture
def issuer() -> Generator[Published]:
    class Handler(BaseHTTPRequestHandler):
        server: Published  # type: ignore[assignment]

        def do_GET(self) -> None:
            self.server.asked += 1
            if not self.server.answering.is_set():
                self.server.called.set()
                self.server.answering.wait(10)
            self.send_response(self.server.status)
            self.end_headers()
            self.wfile.write(json.dumps({"keys": self.server.keys}).encode())

        def log_message(self, *_: Any) -> None:
            return

    server = Published(("127.0.0.1", 0), Handler)
    server.keys = [jwk(RSA_KEY, "one")]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


async def test_a_key_that_the_issuer_adds_is_found_and_strangers_do_not_make_it_asked(
    world, acme, issuer: Published, monkeypatch: pytest.MonkeyPatch
):
    now = [1_000.0]
    monkeypatch.setattr(verifier_module.time, "monotonic", lambda: now[0])
    credentials = Credentials(world.engine, JwtVerifier(world.engine, settings_for(issuer.url)))
    await asyncio.gather(*(credentials.caller(signed()) for _ in range(5)))
    assert issuer.asked == 1
    issuer.keys = [jwk(RSA_KEY, "one"), jwk(OTHER_KEY, "new")]
    for _ in range(5):
        with pytest.raises(InvalidCredential):
            await credentials.caller(signed(OTHER_KEY, "new"))
    assert issuer.asked == 1, "it was asked a moment ago"
    now[0] += verifier_module.READ_AGAIN_SECONDS
    await credentials.caller(signed(OTHER_KEY, "new"))
    assert issuer.asked == 2
    issuer.keys = [jwk(OTHER_KEY, "new")]
    now[0] += verifier_module.KEYS_LAST_SECONDS
    with pytest.raises(InvalidCredential):
        await credentials.caller(signed())


async def test_while_the_issuer_does_not_answer_known_keys_go_on_for_an_hour_and_no_longer(
    world, acme, issuer: Published, monkeypatch: pytest.MonkeyPatch
):
    now = [1_000.0]
    monkeypatch.setattr(verifier_module.time, "monotonic", lambda: now[0])
    credentials = Credentials(world.engine, JwtVerifier(world.engine, settings_for(issuer.url)))
    issuer.status = 500
    with pytest.raises(Unavailable, match="LETHELOG_JWT_JWKS"):
        await credentials.caller(signed())
    issuer.status = 200
    now[0] += verifier_module.READ_AGAIN_SECONDS
    await credentials.caller(signed())
    read_at, issuer.status = now[0], 500
    now[0] += verifier_module.KEYS_LAST_SECONDS
    await credentials.caller(signed())
    assert issuer.asked == 3
    now[0] = read_at + verifier_module.KEYS_HOLD_SECONDS - 1
    await credentials.caller(signed())
    now[0] += 1
    with pytest.raises(Unavailable, match="LETHELOG_JWT_JWKS"):
        await credentials.caller(signed())
    issuer.status = 200
    now[0] += verifier_module.READ_AGAIN_SECONDS
    await credentials.caller(signed())


async def test_while_the_issuer_does_not_answer_strangers_do_not_make_it_asked(
    world, acme, issuer: Published, monkeypatch: pytest.MonkeyPatch
):
    now = [1_000.0]
    monkeypatch.setattr(verifier_module.time, "monotonic", lambda: now[0])
    credentials = Credentials(world.engine, JwtVerifier(world.engine, settings_for(issuer.url)))
    await credentials.caller(signed())
    issuer.status = 500
    now[0] += verifier_module.KEYS_LAST_SECONDS
    for _ in range(5):
        with pytest.raises(InvalidCredential):
            await credentials.caller(signed(OTHER_KEY, "stranger"))
    assert issuer.asked == 2
    issuer.status, issuer.keys = 200, [jwk(OTHER_KEY, "stranger")]
    now[0] += verifier_module.READ_AGAIN_SECONDS
    await credentials.caller(signed(OTHER_KEY, "stranger"))
    assert issuer.asked == 3


async def test_while_keys_are_read_again_who_shows_a_known_one_does_not_wait(
    world, acme, issuer: Published, monkeypatch: pytest.MonkeyPatch
):
    now = [1_000.0]
    monkeypatch.setattr(verifier_module.time, "monotonic", lambda: now[0])
    verifier = JwtVerifier(world.engine, settings_for(issuer.url))
    await verifier.caller(signed())
    now[0] += verifier_module.READ_AGAIN_SECONDS
    issuer.answering.clear()
    stranger = asyncio.create_task(verifier.caller(signed(OTHER_KEY, "stranger")))
    await asyncio.to_thread(issuer.called.wait, 10)
    await verifier.caller(signed())
    assert not stranger.done()
    issuer.answering.set()
    with pytest.raises(InvalidCredential):
        await stranger


@pytest.mark.parametrize(
    ("changes", "setting"),
    [
        ({"jwt_audience": None}, "LETHELOG_JWT_AUDIENCE"),
        ({"jwt_issuer": None}, "LETHELOG_JWT_ISSUER"),
        ({"jwt_jwks": None}, "LETHELOG_JWT_JWKS"),
        ({"jwt_jwks": "/nowhere/keys.json"}, "LETHELOG_JWT_JWKS"),
        ({"jwt_jwks": "http://issuer.example/jwks"}, "LETHELOG_JWT_JWKS"),
        ({"jwt_jwks": "ftp://issuer.example/jwks"}, "LETHELOG_JWT_JWKS"),
        ({"jwt_algorithms": "none"}, "LETHELOG_JWT_ALGORITHMS"),
        ({"jwt_algorithms": "RS256,HS256"}, "LETHELOG_JWT_ALGORITHMS"),
        ({"jwt_algorithms": ""}, "LETHELOG_JWT_ALGORITHMS"),
        ({"jwt_leeway": -1.0}, "LETHELOG_JWT_LEEWAY"),
        ({"jwt_leeway": 3_600.0}, "LETHELOG_JWT_LEEWAY"),
        ({"jwt_tenant_claim": ""}, "LETHELOG_JWT_TENANT_CLAIM"),
    ],
)
def test_a_setting_that_is_missing_or_unsafe_is_named(jwks: Path, changes: dict[str, Any], setting: str):
    given = {"jwt_issuer": ISSUER, "jwt_audience": AUDIENCE, "jwt_jwks": str(jwks), **changes}
    with pytest.raises(Misconfigured) as refused:
        Settings.load(**given).jwt()
    assert refused.value.details["setting"] == setting
