"""The modules that a python node may import: objects that carry chosen functions, never modules.

Called by `python_language`. A real module leads on to whatever it imported itself (`json.codecs`,
`datetime.sys`, `statistics.sys`), so each function is entered here by name. Everything is imported,
and used once where it loads more by itself, before a child is sealed.
"""

from __future__ import annotations

import base64
import binascii
import bisect
import collections
import datetime
import decimal
import fractions
import hashlib
import heapq
import hmac
import itertools
import json
import math
import random
import re
import statistics
import textwrap
import time
import unicodedata
import urllib.parse
import uuid
import zlib
from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any


class ModuleProxy:
    """Looks like a module, holds functions only, and cannot be changed."""

    __slots__ = ("_functions", "_name")

    def __init__(self, name: str, functions: Mapping[str, Any]) -> None:
        object.__setattr__(self, "_name", name)
        object.__setattr__(self, "_functions", dict(functions))

    def __getattr__(self, name: str) -> Any:
        try:
            return self._functions[name]
        except KeyError:
            known = ", ".join(sorted(self._functions))
            raise AttributeError(f"{self._name}.{name} is not available here; there are {known}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{self._name} cannot be changed")

    def __repr__(self) -> str:
        return f"<module {self._name!r}>"


def _chosen(module: Any, names: str) -> dict[str, Any]:
    return {name: getattr(module, name) for name in names.split()}


_JSON_KEYWORDS = frozenset({"indent", "sort_keys", "ensure_ascii", "separators", "allow_nan"})


def _json_loads(text: str | bytes) -> Any:
    return json.loads(text)


def _json_dumps(value: Any, **options: Any) -> str:
    if unknown := sorted(set(options) - _JSON_KEYWORDS):
        raise TypeError(f"json.dumps takes {', '.join(sorted(_JSON_KEYWORDS))} here, not {', '.join(unknown)}")
    return json.dumps(value, **options)


def _hash(algorithm: str) -> Any:
    def make(data: bytes = b"") -> SimpleNamespace:
        return _digest(hashlib.new(algorithm, data, usedforsecurity=False))

    return make


def _hmac_new(key: bytes, message: bytes = b"", digestmod: str = "sha256") -> SimpleNamespace:
    if digestmod not in _HASHES:
        raise ValueError(f"digestmod is one of {', '.join(_HASHES)}")
    return _digest(hmac.new(key, message, digestmod))


def _digest(state: Any) -> SimpleNamespace:
    return SimpleNamespace(update=state.update, digest=state.digest, hexdigest=state.hexdigest, name=state.name)


def _chain(*iterables: Iterable[Any]) -> Any:
    return itertools.chain(*iterables)


_HASHES = ("md5", "sha1", "sha224", "sha256", "sha384", "sha512", "sha3_256", "sha3_512", "blake2b", "blake2s")

_TABLE: Mapping[str, Mapping[str, Any]] = {
    "math": {name: value for name, value in vars(math).items() if not name.startswith("_")},
    "json": {"loads": _json_loads, "dumps": _json_dumps, "JSONDecodeError": json.JSONDecodeError},
    "re": {
        **_chosen(re, "compile match fullmatch search findall finditer sub subn split escape"),
        **{name: int(getattr(re, name)) for name in ("I", "M", "S", "X", "A")},
        **{name: int(getattr(re, name)) for name in ("IGNORECASE", "MULTILINE", "DOTALL", "VERBOSE", "ASCII")},
        "error": re.error,
    },
    "datetime": {**_chosen(datetime, "date datetime time timedelta timezone"), "UTC": datetime.UTC},
    "time": _chosen(time, "time monotonic perf_counter"),
    "base64": _chosen(
        base64, "b64encode b64decode urlsafe_b64encode urlsafe_b64decode b32encode b32decode b16encode b16decode"
    ),
    "binascii": _chosen(binascii, "hexlify unhexlify crc32"),
    "zlib": _chosen(zlib, "crc32 adler32"),
    "hashlib": {name: _hash(name) for name in _HASHES},
    "hmac": {"new": _hmac_new, "compare_digest": hmac.compare_digest},
    "decimal": _chosen(
        decimal,
        "Decimal ROUND_HALF_UP ROUND_HALF_EVEN ROUND_HALF_DOWN ROUND_UP ROUND_DOWN ROUND_CEILING ROUND_FLOOR"
        " InvalidOperation DivisionByZero",
    ),
    "fractions": _chosen(fractions, "Fraction"),
    "statistics": _chosen(
        statistics,
        "mean fmean median median_low median_high mode multimode stdev pstdev variance pvariance quantiles"
        " geometric_mean harmonic_mean",
    ),
    "random": _chosen(
        random, "random randint randrange choice choices sample shuffle uniform gauss normalvariate seed getrandbits"
    ),
    "itertools": {
        **_chosen(
            itertools,
            "accumulate combinations combinations_with_replacement compress count cycle dropwhile filterfalse groupby"
            " islice pairwise permutations product repeat starmap takewhile zip_longest",
        ),
        "chain": _chain,
        "from_iterable": itertools.chain.from_iterable,
    },
    "collections": _chosen(collections, "Counter OrderedDict deque"),
    "heapq": _chosen(heapq, "heapify heappush heappop heappushpop heapreplace nlargest nsmallest merge"),
    "bisect": _chosen(bisect, "bisect bisect_left bisect_right insort"),
    "textwrap": _chosen(textwrap, "dedent indent fill wrap shorten"),
    "unicodedata": _chosen(unicodedata, "normalize category name"),
    "uuid": {"uuid4": lambda: str(uuid.uuid4()), "uuid5": lambda space, name: str(uuid.uuid5(uuid.UUID(space), name))},
    "urllib.parse": _chosen(urllib.parse, "quote quote_plus unquote unquote_plus urlencode urlsplit urljoin parse_qs"),
}

MODULES: Mapping[str, ModuleProxy] = {name: ModuleProxy(name, functions) for name, functions in _TABLE.items()}
"""By the name that `import` uses."""


def warm_up() -> None:
    """Use once what loads modules, tables or libraries when it is first used."""
    moment = datetime.datetime.strptime("2026-01-31 08:00", "%Y-%m-%d %H:%M")
    moment.strftime("%A %c")
    for name in _HASHES:
        hashlib.new(name, b"", usedforsecurity=False)
        if name.startswith(("md5", "sha")):
            hmac.new(b"", b"", name)
    for encoding in ("utf-8", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1", "ascii", "cp1252", "idna"):
        "a".encode(encoding).decode(encoding)
    statistics.stdev([1, 2.5])
    statistics.quantiles([1, 2, 3])
    str(decimal.Decimal(1) / 3)
    re.compile(r"(?i)é+").sub("e", "É")
    collections.Counter("a").most_common(1)
    uuid.uuid4()
    unicodedata.name("a")
    "\N{BULLET}".encode("ascii", "namereplace")
    urllib.parse.quote("é")
