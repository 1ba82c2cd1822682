"""Which addresses are this machine, and which are inside a private network."""

import ipaddress
from functools import lru_cache

__all__ = ["is_loopback", "is_public"]


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return None
    # ::ffff:10.0.0.1 reaches 10.0.0.1; 64:ff9b::/96 (RFC 6052) and 2002::/16 (RFC 3056) do so through a translator.
    if isinstance(address, ipaddress.IPv6Address):
        if inner := address.ipv4_mapped or address.sixtofour:
            return inner
        if address in ipaddress.IPv6Network("64:ff9b::/96"):
            return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address


@lru_cache(maxsize=256)  # asked for each request, mostly about the same few peers
def is_loopback(host: str) -> bool:
    """Return whether ``host``, an IP address or the name ``localhost``, can only be this machine."""
    address = _address(host)
    return host.lower() == "localhost" if address is None else address.is_loopback


def is_public(address: str) -> bool:
    """Return whether an IP address belongs to the public internet; anything else, names included, does not."""
    parsed = _address(address)
    return parsed is not None and parsed.is_global and not parsed.is_multicast
