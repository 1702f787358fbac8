"""What products commonly do: a list of forbidden texts, and readers that do not agree with each other.

Only here to see that the attacks are attacks. `reached` gives every address that one of the usual
readers of a URL would connect to, after a check of the text as it is commonly written.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import unicodedata
from collections.abc import Iterator
from urllib.parse import unquote, urlsplit

from tests.egress.attacks import DNS

_FORBIDDEN = {"169.254.169.253", "intranet"}  # lists are made of what its author has heard of

# Inner hosts that Python's tables take for public ones: a cloud's service, and protocols' own addresses.
_UNLISTED = (ipaddress.ip_network("168.63.129.16/32"), ipaddress.ip_network("192.0.0.0/24"))


def reached(url: str) -> set[str]:
    """Where the usual readers would connect to."""
    found: set[str] = set()
    for reading in _readings(url):
        try:
            host = urlsplit(reading).hostname
        except ValueError:
            continue
        if host and host not in _FORBIDDEN:
            found.update(_addresses(host.rstrip(".")))
    return found


def is_inner(text: str) -> bool:
    """An address that a tenant must not reach, or one that wraps such an address; judged by Python's own tables."""
    address = ipaddress.ip_address(text.partition("%")[0])
    if any(address.version == 4 and address in network for network in _UNLISTED):
        return True
    if not address.is_global or address.is_multicast:
        return True
    return isinstance(address, ipaddress.IPv6Address) and any(not wrapped.is_global for wrapped in _wrapped(address))


def _readings(url: str) -> Iterator[str]:
    """A URL as libraries and browsers read it: stripped, with slashes for backslashes, decoded, normalized."""
    stripped = re.sub(r"[\t\r\n]", "", url).strip()
    invisible = re.sub("[\u00ad\u200b\u2060\ufeff]", "", stripped)
    for text in (stripped, invisible):
        yield text
        yield text.replace("\\", "/")
        yield re.sub(r"^(https?):[/\\]*", r"\1://", text).replace("\\", "/")
        yield unquote(text)
        yield unicodedata.normalize("NFKC", text).replace("\u3002", ".")


def _addresses(host: str) -> Iterator[str]:
    name = host.partition("%")[0]
    if name in DNS:
        yield from DNS[name]
        return
    try:  # what the system's resolver makes of numbers, without asking anybody
        for answer in socket.getaddrinfo(name, 80, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST):
            yield str(answer[4][0])
    except OSError:
        return


def _wrapped(address: ipaddress.IPv6Address) -> Iterator[ipaddress.IPv4Address]:
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
    yield ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
