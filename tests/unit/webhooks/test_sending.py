"""One request: bounded in time and size, to the address that was looked at, past no redirect and no proxy."""

import asyncio
import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from lethelog.handlers.webhooks.sending import Answer, Sender
from lethelog.handlers.webhooks.settings import WebhookSettings

from ...webhook_receiver import HUGE, receiving

HERE = WebhookSettings(allow_private=True, timeout=5.0)


async def here(_host: str, _port: int) -> list[str]:
    return ["127.0.0.1"]


async def post(url: str, settings: WebhookSettings = HERE, **given) -> Answer:
    sender = Sender(settings, **given)
    try:
        return await sender.post(url, {"webhook-id": "m"}, b"{}")
    finally:
        await sender.close()


async def test_a_message_arrives_whole_with_its_headers():
    async with receiving() as receiver:
        assert await post(receiver.url + "?key=1") == Answer("204")
        [one] = receiver.received
    assert one.line == "POST /hook?key=1 HTTP/1.1" and one.body == b"{}"
    assert one.headers["webhook-id"] == "m" and one.headers["content-type"] == "application/json"
    assert one.headers["host"] == f"127.0.0.1:{receiver.port}"


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_no_redirect_is_followed(status: int):
    async with receiving() as inner, receiving(statuses=[status]) as outer:
        outer.headers["Location"] = inner.url
        assert await post(outer.url) == Answer(str(status))
        assert inner.received == [] and len(outer.received) == 1


async def test_a_slow_answer_ends_with_its_time():
    async with receiving(released=asyncio.Event()) as receiver:
        answer = await post(receiver.url, WebhookSettings(allow_private=True, timeout=0.2))
        assert answer == Answer("timeout") and len(receiver.received) == 1


async def test_of_a_huge_answer_only_its_status_is_taken():
    async with receiving(statuses=[200], endless=True) as receiver:
        assert await post(receiver.url) == Answer("200")
        # What the system's buffers took before the connection was closed.
        assert receiver.sent < 400 * len(HUGE)


async def test_what_the_receiver_asks_to_wait_is_told():
    async with receiving(statuses=[429], headers={"Retry-After": "120"}) as receiver:
        assert await post(receiver.url) == Answer("429", 120.0)


async def test_an_answer_that_is_no_http_is_a_failure():
    async def garbage(_reader, writer):
        writer.write(b"\x00\x01nonsense\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(garbage, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        assert (await post(f"http://127.0.0.1:{port}/")).outcome in ("protocol", "connection")


async def test_a_port_that_nobody_listens_on_is_a_failure():
    async with receiving() as receiver:
        url = receiver.url
    assert await post(url) == Answer("connection")


async def test_a_host_without_an_address_is_a_failure():
    async def nowhere(_host: str, _port: int) -> list[str]:
        raise OSError("no such host")

    assert await post("https://hooks.example/", resolve=nowhere) == Answer("host_not_found")


async def test_a_host_that_leads_inside_is_refused_before_anything_is_sent():
    async with receiving() as receiver:
        closed = WebhookSettings(timeout=5.0)
        assert await post(f"https://hooks.example:{receiver.port}/", closed, resolve=here) == Answer(
            "address_refused"
        )
        assert await post(receiver.url, closed) == Answer("address_refused")
        assert receiver.received == []
        assert await post(receiver.url) == Answer("204"), "the positive control"


async def test_a_name_that_changes_after_it_was_looked_at_changes_nothing():
    """DNS rebinding: it is looked up once, and the request goes to what was found."""
    asked: list[str] = []

    async def turning(host: str, _port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["169.254.169.254"]

    async with receiving() as receiver:
        url = f"http://hooks.example:{receiver.port}/hook"
        assert await post(url, resolve=turning) == Answer("204")
        assert asked == ["hooks.example"]
        assert receiver.received[0].headers["host"] == f"hooks.example:{receiver.port}"


async def test_a_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1/")
    async with receiving() as receiver:
        assert await post(receiver.url) == Answer("204")


def certificate(folder: Path, host: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """What a server of this name shows, and a client that trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    now = datetime.now(UTC)
    alternatives = [x509.DNSName(host)]
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .sign(key, hashes.SHA256())
    )
    shown, secret = folder / "shown.pem", folder / "key.pem"
    shown.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(shown, secret)
    return server, ssl.create_default_context(cafile=str(shown))


async def test_the_certificate_must_be_the_hosts_although_the_request_goes_to_an_address(tmp_path: Path):
    server, trusting = certificate(tmp_path, "hooks.example")
    async with receiving(tls=server) as receiver:
        right = f"https://hooks.example:{receiver.port}/hook"
        wrong = f"https://other.example:{receiver.port}/hook"
        assert await post(right, resolve=here, tls=trusting) == Answer("204")
        assert await post(wrong, resolve=here, tls=trusting) == Answer("tls")
        assert await post(right, resolve=here) == Answer("tls"), "nobody vouches for it"
        assert len(receiver.received) == 1


def test_addresses_of_ipv6_stand_in_a_url():
    import httpx2

    assert str(httpx2.URL("https://hooks.example/x").copy_with(host=str(ip_address("::1")))) == "https://[::1]/x"
