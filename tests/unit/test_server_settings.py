"""Settings of the server's doors: what is wrong is told by its name before anything is opened."""

import pytest
from lethelog.domain.errors import Misconfigured
from lethelog.ops.settings import Settings

ISSUER = {
    "jwt_issuer": "https://login.example.org",
    "jwt_audience": "https://memory.example.org/mcp",
    "jwt_jwks": "https://login.example.org/jwks.json",
}


def test_proxies_are_those_that_are_named_and_the_machine_itself_behind_one_that_ends_tls():
    named = Settings.load(http_proxies="10.0.0.0/8, 192.0.2.1")
    assert Settings.load().http().proxies == ()
    assert named.http().proxies == ("10.0.0.0/8", "192.0.2.1")
    assert named.http(behind_tls=True).proxies == ("10.0.0.0/8", "192.0.2.1", "127.0.0.1", "::1")
    assert Settings.load(http_requests_per_second=7).http().requests_per_second == 7
    assert Settings.load(http_requests_per_second=7).http(rate=9).requests_per_second == 9


@pytest.mark.parametrize("proxies", ["*", "proxy.example.org", "10.0.0.1/8", "10.0.0.0/8;::1"])
def test_a_proxy_that_is_no_address_is_refused_by_the_settings_name(proxies: str):
    with pytest.raises(Misconfigured, match="LETHELOG_HTTP_PROXIES"):
        Settings.load(http_proxies=proxies).http()


def test_who_issues_credentials_is_told_as_it_is_set():
    told = Settings.load(mcp_url="https://memory.example.org/mcp", **ISSUER).mcp_protected()
    assert told is not None
    assert (str(told.resource), str(told.issuer)) == (
        "https://memory.example.org/mcp",
        "https://login.example.org",
    )
    assert Settings.load(**ISSUER).mcp_protected() is None


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"mcp_url": "https://memory.example.org/mcp"}, "LETHELOG_MCP_URL"),
        ({**ISSUER, "mcp_url": "http://memory.example.org/mcp"}, "LETHELOG_MCP_URL"),
        ({**ISSUER, "mcp_url": "https://memory.example.org/mcp?x=1"}, "LETHELOG_MCP_URL"),
        ({**ISSUER, "mcp_url": "/mcp"}, "LETHELOG_MCP_URL"),
        ({**ISSUER, "mcp_url": "https://m.example.org/mcp", "jwt_issuer": "our login"}, "LETHELOG_JWT_ISSUER"),
    ],
)
def test_what_clients_could_not_follow_is_refused_by_the_settings_name(given: dict[str, str], name: str):
    with pytest.raises(Misconfigured, match=name):
        Settings.load(**given).mcp_protected()
