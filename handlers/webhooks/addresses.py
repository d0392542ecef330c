"""Which URLs a webhook may have, and which addresses may be connected to.

A tenant chooses the URL and the installation makes the request, so it must reach nothing that only this machine
or its network reaches. The name is looked up once per attempt and the request goes to the very address that was
looked at: a name that answers otherwise a moment later gains nothing.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from urllib.parse import SplitResult, urlsplit

from ...domain.errors import InvalidInput, LethelogError

URL_LIMIT = 2_000
Address = IPv4Address | IPv6Address
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Addresses of a host, as text. Raises `OSError`."""
_TRANSLATED = IPv6Network("64:ff9b::/96")
"""IPv6 addresses that a translator turns into the IPv4 address they end with."""


class AddressRefused(LethelogError):
    """The address is of this machine or its network, and no webhook may go there."""

    code = "address_refused"


def check_url(url: str, *, allow_private: bool) -> str:
    """The URL, if a webhook may have it. Raises `InvalidInput`, which never repeats it."""
    parts = _split(url)
    if parts is None or not parts.hostname or parts.scheme not in ("https", "http"):
        raise InvalidInput("url", "is not an https URL", "Give one such as https://example.org/hooks/lethelog")
    if len(url) > URL_LIMIT or not url.isascii() or not url.isprintable() or " " in url:
        raise InvalidInput("url", f"must be at most {URL_LIMIT} printable ASCII characters without blanks")
    if parts.username is not None or parts.password is not None:
        raise InvalidInput("url", "holds a user name or password", "Receivers know us by the signature")
    if parts.fragment:
        raise InvalidInput("url", "holds a fragment (#), which is never sent", "Leave it out")
    literal = _literal(parts.hostname)
    if parts.scheme == "http" and not (allow_private and _is_here(parts.hostname, literal)):
        raise InvalidInput("url", "is not an https URL", "Only a receiver on this machine may do without TLS, and "
                           "only with LETHELOG_WEBHOOK_ALLOW_PRIVATE=true")  # fmt: skip
    if literal is not None and not is_allowed(literal, allow_private=allow_private):
        raise InvalidInput("url", "leads to this machine or its network", _FIX)
    return url


def is_allowed(address: Address, *, allow_private: bool) -> bool:
    """Whether a request may go to an address. Never to a link's own ones, where clouds keep their credentials."""
    meant = _meant(address)
    if meant.is_link_local or meant.is_multicast or meant.is_unspecified:
        return False
    return meant.is_global or allow_private


async def pin(host: str, port: int, resolve: Resolve, *, allow_private: bool) -> str:
    """The address to connect to for a host. Raises `AddressRefused` where any of its addresses is not allowed,
    and `OSError` where it has none."""
    found = [ip_address(one.partition("%")[0]) for one in await resolve(host, port)]
    if not found:
        raise OSError("the host has no address")
    if not all(is_allowed(one, allow_private=allow_private) for one in found):
        raise AddressRefused(f"the host of the webhook's URL leads to this machine or its network. {_FIX}")
    return str(found[0])


async def resolve(host: str, port: int) -> list[str]:
    """The system's own look-up."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(one[4][0]) for one in found]


_FIX = "An operator who wants that sets LETHELOG_WEBHOOK_ALLOW_PRIVATE=true"


def _split(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises where it is no number
    except ValueError:
        return None
    return parts


def _literal(host: str) -> Address | None:
    """The address that a host is written as, also as look-ups take it: 127.1, 0x7f000001, 2130706433."""
    try:
        return ip_address(host)
    except ValueError:
        pass
    try:
        return IPv4Address(socket.inet_aton(host))
    except (OSError, ValueError):
        return None


def _is_here(host: str, literal: Address | None) -> bool:
    return host == "localhost" if literal is None else _meant(literal).is_loopback


def _meant(address: Address) -> Address:
    """The address that is really reached by one that carries another."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address in _TRANSLATED:
        return IPv4Address(address.packed[-4:])
    return address
