"""Addresses: tell public ones from others, and apply the operator's allow list.

Pure. Called by `guard`. An address may be reached if it is global unicast or in the allow list. Every special range is
named here, with the word for it in a refusal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import AddressValueError, IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TypeAlias

from anabranch.dataclass import dataclass
from anabranch.errors import SettingsError

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

PORT_MAX = 65_535

_SPECIAL_IPV4 = [
    (IPv4Network(network), kind)
    for network, kind in (
        ("0.0.0.0/8", "this host"),
        ("10.0.0.0/8", "a private network"),
        ("100.64.0.0/10", "a provider's inner network"),
        ("127.0.0.0/8", "this host"),
        ("168.63.129.16/32", "a cloud's own service"),
        ("169.254.0.0/16", "link-local, where clouds keep their metadata"),
        ("172.16.0.0/12", "a private network"),
        ("192.0.0.0/24", "a protocol's own"),
        ("192.0.2.0/24", "for documentation"),
        ("192.88.99.0/24", "a 6to4 relay"),
        ("192.168.0.0/16", "a private network"),
        ("198.18.0.0/15", "for benchmarks"),
        ("198.51.100.0/24", "for documentation"),
        ("203.0.113.0/24", "for documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved, or broadcast"),
    )
]

# Everything outside of 2000::/3 is special; these are the special ranges inside of it.
_GLOBAL_IPV6 = IPv6Network("2000::/3")
_SPECIAL_IPV6 = [
    (IPv6Network(network), kind)
    for network, kind in (
        ("2001::/32", "Teredo, which wraps an IPv4 address"),
        ("2001::/23", "a protocol's own"),
        ("2001:db8::/32", "for documentation"),
        ("2002::/16", "6to4, which wraps an IPv4 address"),
        ("3ffe::/16", "no longer in use"),
        ("3fff::/20", "for documentation"),
    )
]
_NOT_GLOBAL_IPV6 = [
    (IPv6Network(network), kind)
    for network, kind in (
        ("::1/128", "this host"),
        ("::/128", "this host"),
        ("::ffff:0:0/96", "a wrapped IPv4 address"),
        ("::ffff:0:0:0/96", "a translated IPv4 address"),
        ("::/96", "a wrapped IPv4 address"),
        ("64:ff9b::/96", "NAT64, which wraps an IPv4 address"),
        ("64:ff9b:1::/48", "NAT64, which wraps an IPv4 address"),
        ("fc00::/7", "a private network"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "a private network"),
        ("ff00::/8", "multicast"),
    )
]

_ENTRY_WITH_PORT = re.compile(r"\[([^\[\]]+)\]:([0-9]{1,5})|([^:\[\]]+):([0-9]{1,5})")
_ENTRY_HOST = re.compile(r"[a-z0-9_]([a-z0-9_.-]{0,251}[a-z0-9_])?")

_FORMS = "Write hosts, host:port, addresses or networks: example.internal, 127.0.0.1:8080, [::1]:8080, 10.0.0.0/8."


def parse_address(text: str) -> Address | None:
    """The address that a text is in its canonical form; None for everything else, scopes (`%eth0`) included."""
    try:
        return None if "%" in text else ip_address(text)
    except (AddressValueError, ValueError):
        return None


def why_not_public(address: Address) -> str | None:
    """The purpose of a special address, in words; None for a public one."""
    if isinstance(address, IPv4Address):
        return next((kind for network, kind in _SPECIAL_IPV4 if address in network), None)
    if address not in _GLOBAL_IPV6:
        return next((kind for network, kind in _NOT_GLOBAL_IPV6 if address in network), "reserved")
    return next((kind for network, kind in _SPECIAL_IPV6 if address in network), None)


@dataclass(frozen=True, slots=True)
class AllowList:
    """The allow list: names, addresses and networks, each with or without a port, that need not be public."""

    names: frozenset[tuple[str, int | None]] = frozenset()
    networks: tuple[tuple[Network, int | None], ...] = ()

    @classmethod
    def parse(cls, entries: Iterable[str]) -> AllowList:
        """Read hosts, `host:port`, addresses and CIDRs. Raises SettingsError, which names the invalid entry.

        An entry that begins with `/` names a directory of sockets: it is for data sources, and left out here.
        """
        names: set[tuple[str, int | None]] = set()
        networks: list[tuple[Network, int | None]] = []
        for entry in entries:
            if entry.startswith("/"):
                continue
            host, port = _split_entry(entry)
            network = _network(host)
            if network is not None:
                networks.append((network, port))
            elif _ENTRY_HOST.fullmatch(host.lower()) and not host.replace(".", "").isdigit():
                names.add((host.lower(), port))
            else:
                raise SettingsError(f"ANABRANCH_EGRESS_ALLOW has the entry {entry!r}, which is not a host", hint=_FORMS)
        return cls(frozenset(names), tuple(networks))

    def has_name(self, host: str, port: int) -> bool:
        """Whether this name is allowed, whatever its address."""
        return (host, None) in self.names or (host, port) in self.names

    def has_address(self, address: Address, port: int) -> bool:
        """Whether this address is allowed."""
        return any(
            address.version == network.version and address in network and allowed_port in (None, port)
            for network, allowed_port in self.networks
        )


def _split_entry(entry: str) -> tuple[str, int | None]:
    match = _ENTRY_WITH_PORT.fullmatch(entry)
    if match is None:
        return entry.removeprefix("[").removesuffix("]"), None
    host, port = match[1] or match[3], int(match[2] or match[4])
    if not 1 <= port <= PORT_MAX:
        raise SettingsError(f"ANABRANCH_EGRESS_ALLOW has the entry {entry!r}: ports are 1 to {PORT_MAX}", hint=_FORMS)
    return host, port


def _network(host: str) -> Network | None:
    if "%" in host:
        return None
    try:
        return ip_network(host)
    except ValueError:
        return None
