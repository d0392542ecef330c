"""A webhook's URL leads to nothing that only this machine or its network reaches (server-side request forgery)."""

from ipaddress import ip_address

import pytest
from lethelog.domain.errors import InvalidInput
from lethelog.handlers.webhooks.addresses import AddressRefused, check_url, is_allowed, pin

PRIVATE = (
    "127.0.0.1", "127.8.9.1", "10.0.0.1", "172.16.3.4", "192.168.1.1", "100.64.0.1", "::1", "fd00::1",
    "::ffff:10.0.0.1", "2002:0a00:0001::1", "64:ff9b::7f00:1", "198.18.0.1", "240.0.0.1", "192.0.2.1",
)  # fmt: skip
NEVER = (
    "169.254.169.254", "fe80::1", "224.0.0.1", "ff02::1", "0.0.0.0", "::", "::ffff:169.254.169.254",
    "64:ff9b::a9fe:a9fe",
)  # fmt: skip
PUBLIC = ("93.184.215.14", "2606:4700::1111", "::ffff:93.184.215.14", "64:ff9b::5db8:d70e")


@pytest.mark.parametrize("address", PRIVATE)
def test_private_addresses_are_allowed_only_where_an_operator_allows_them(address: str):
    assert not is_allowed(ip_address(address), allow_private=False)
    assert is_allowed(ip_address(address), allow_private=True)


@pytest.mark.parametrize("address", NEVER)
def test_a_links_own_addresses_are_never_allowed(address: str):
    """Where clouds keep the credentials of their machines."""
    assert not is_allowed(ip_address(address), allow_private=True)


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_allowed(address: str):
    assert is_allowed(ip_address(address), allow_private=False)


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org/hook", "ftp://example.org", "no-scheme.example/", "https://", "https:///x", "",
        "https://user:pass@example.org/", "https://example.org/#part", "https://exa mple.org/", "https://exämple.org/",
        "https://example.org:99999/", "https://127.0.0.1/", "https://[::1]/", "https://169.254.169.254/latest",
        "https://2130706433/", "https://0x7f000001/", "https://127.1/", "https://[::ffff:127.0.0.1]/",
        "http://localhost:8000/", "http://127.0.0.1/", "https://example.org/" + "x" * 2_000, "https://e.org/\n",
    ],
)  # fmt: skip
def test_a_url_that_no_webhook_may_have_is_refused_without_being_repeated(url: str):
    with pytest.raises(InvalidInput) as refused:
        check_url(url, allow_private=False)
    assert refused.value.field == "url" and (len(url) < 9 or url not in str(refused.value))


@pytest.mark.parametrize(
    "url", ["https://example.org/hook?key=1", "https://example.org:8443/", "https://1.1.1.1/"]
)
def test_an_https_url_is_taken(url: str):
    assert check_url(url, allow_private=False) == url


@pytest.mark.parametrize(
    ("url", "taken"),
    [
        ("http://127.0.0.1:8000/", True), ("http://localhost/", True), ("http://[::1]:1/", True),
        ("https://10.0.0.1/", True), ("http://10.0.0.1/", False), ("http://example.org/", False),
        ("https://169.254.169.254/", False),
    ],
)  # fmt: skip
def test_where_private_addresses_are_allowed_only_this_machine_does_without_tls(url: str, taken: bool):
    if taken:
        assert check_url(url, allow_private=True) == url
        return
    with pytest.raises(InvalidInput):
        check_url(url, allow_private=True)


async def test_a_host_with_one_address_inside_is_refused_whatever_its_others_are():
    async def both(_host: str, _port: int) -> list[str]:
        return ["93.184.215.14", "10.0.0.1"]

    async def outside(_host: str, _port: int) -> list[str]:
        return ["93.184.215.14", "2606:4700::1111"]

    with pytest.raises(AddressRefused):
        await pin("hooks.example", 443, both, allow_private=False)
    assert await pin("hooks.example", 443, outside, allow_private=False) == "93.184.215.14"
