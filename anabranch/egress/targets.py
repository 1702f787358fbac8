"""Strict parsing of URLs, so that no two readers can disagree about the host.

Pure. Called by `guarded_client`, for the first URL and every redirect. What browsers and libraries read differently
(backslashes, user names, percent signs in the host, numbers as addresses) is refused, not repaired.
"""

from __future__ import annotations

import base64
import re
import unicodedata
from typing import TYPE_CHECKING
from urllib.parse import unquote

from anabranch.dataclass import dataclass
from anabranch.deferred import deferred
from anabranch.egress.addresses import PORT_MAX, parse_address
from anabranch.errors import EgressRefused

if TYPE_CHECKING:
    import yarl
else:
    yarl = deferred("yarl")

# 8 KiB: what servers commonly take. Longer data belongs in the body.
URL_LENGTH_MAX = 8_192

# As DNS has it.
HOST_LENGTH_MAX = 253

_DEFAULT_PORTS = {"http": 80, "https": 443}

# Blanks are fine inside a path or query, where they are encoded; nothing else that is invisible is.
_INVISIBLE = re.compile("[\x00-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff\ud800-\udfff]")
_FORM = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(//)?([^/?#]*)(.*)", re.DOTALL)
_AUTHORITY = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::([0-9]+))?")
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")

# The user and the password of a proxy have no signs of their own: they are percent-encoded.
_PROXY = re.compile(
    r"http://(?:(?P<user>[^:@/?#\s]{0,255})(?::(?P<password>[^@/?#\s]{0,1024}))?@)?(?P<address>[^@/?#\s]+)/?"
)

# These dots are dots to some readers and letters to others.
_OTHER_DOTS = re.compile("[\u3002\uff0e\uff61\u2024\ufe52]")


@dataclass(frozen=True, slots=True)
class RequestTarget:
    """The target of a request: the URL as sent, and the host and port parsed from it."""

    url: yarl.URL
    host: str
    """A name in lower case, as DNS has it, or an address without brackets."""
    port: int

    @property
    def origin(self) -> str:
        """`https://host:port`: what may see credentials, and all of a URL that messages show."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.url.scheme}://{host}:{self.port}"


def parse_target(text: str) -> RequestTarget:
    """The target of an http or https URL. Raises EgressRefused, which names the invalid part."""
    if len(text) > URL_LENGTH_MAX:
        raise _refused(f"it has {len(text)} characters, the limit is {URL_LENGTH_MAX}")
    if _INVISIBLE.search(text) or text != text.strip():
        raise _refused("it has control or invisible characters in it, or blanks around it")
    if "\\" in text:
        raise _refused("it contains a backslash; write / or %5C")
    form = _FORM.fullmatch(text)
    if form is None or form[2] is None:
        raise _refused("write it in full: https://host/path")
    scheme = form[1].lower()
    if scheme not in _DEFAULT_PORTS:
        raise _refused(f"the scheme {scheme[:20]}: is not http or https")
    host, port = _read_authority(form[3], _DEFAULT_PORTS[scheme])
    host = _host_name(host)
    return RequestTarget(_same_to_the_client(scheme, host, port, form[4]), host, port)


@dataclass(frozen=True, slots=True)
class ProxyTarget:
    """An HTTP proxy, and the credentials for it."""

    target: RequestTarget
    user: str | None = None
    password: str = ""

    @property
    def headers(self) -> dict[str, str]:
        """The header for the proxy, in the form from which the client makes Proxy-Authorization."""
        if self.user is None:
            return {}
        pair = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
        return {"Authorization": f"Basic {pair}"}


def parse_proxy(text: str) -> ProxyTarget:
    """The proxy of a URL `http://user:password@host:port`. Raises EgressRefused, which shows nothing of the URL."""
    form = _PROXY.fullmatch(text)
    if form is None:
        raise EgressRefused("the URL of the proxy cannot be read", hint="Write http://user:password@host:port.")
    named = None if form["user"] is None else unquote(form["user"])
    return ProxyTarget(parse_target(f"http://{form['address']}"), named, unquote(form["password"] or ""))


def _read_authority(authority: str, default_port: int) -> tuple[str, int]:
    if "@" in authority:
        raise _refused("it contains a user name; use `auth`")
    if "%" in authority:
        raise _refused("its host contains a percent sign")
    match = _AUTHORITY.fullmatch(authority)
    if match is None or not match[1]:
        raise _refused("its host and port cannot be read")
    # Five digits at most: int() of a very long number would take its time.
    if match[2] is not None and not (len(match[2]) <= 5 and 1 <= int(match[2]) <= PORT_MAX):
        raise _refused(f"its port is not 1 to {PORT_MAX}")
    return match[1], default_port if match[2] is None else int(match[2])


def _host_name(host: str) -> str:
    """The host as it is resolved: an address in its canonical form, or a name in ASCII."""
    if host.startswith("["):
        address = parse_address(host[1:-1])
        if address is None or address.version != 6:
            raise _refused("its host in brackets is not an IPv6 address")
        return str(address)
    name = _ascii_name(host).removesuffix(".")
    labels = name.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        # Resolvers read 127.1, 0x7f.1, 017700000001 and 2130706433 as addresses.
        address = parse_address(name)
        if address is None:
            raise _refused("its host looks like an address that is not written out; write four decimal numbers")
        return str(address)
    if len(name) > HOST_LENGTH_MAX or not all(_LABEL.fullmatch(label) for label in labels):
        raise _refused("its host is not a valid DNS name")
    return name


def _ascii_name(host: str) -> str:
    if host.isascii():
        return host.lower()
    lower = host.lower()
    if unicodedata.normalize("NFKC", lower) != lower or _OTHER_DOTS.search(lower):
        raise _refused("its host has characters in it that stand for others; write it in plain letters")
    try:
        encoded = yarl.URL.build(scheme="http", host=lower).raw_host
    except ValueError:
        encoded = None
    if not encoded or not encoded.isascii() or encoded.count(".") != lower.count("."):
        raise _refused("its host cannot be written in ASCII")
    return encoded.lower()


def _same_to_the_client(scheme: str, host: str, port: int, rest: str) -> yarl.URL:
    """The URL built of what was read, so that the client cannot read anything else out of it."""
    shown = f"[{host}]" if ":" in host else host
    path = rest.split("#", 1)[0]
    try:
        url = yarl.URL(f"{scheme}://{shown}:{port}{path if path[:1] in ('', '/') else '/' + path}")
        same = (url.scheme, url.raw_host, url.port) == (scheme, host, port) and url.user is None
    except ValueError:
        same = False
    if not same:
        raise _refused("it is ambiguous")
    return url


def _refused(reason: str) -> EgressRefused:
    # The URL itself is not repeated: paths and queries hold tokens.
    return EgressRefused(f"the URL is refused: {reason}", hint="Correct the URL.")
