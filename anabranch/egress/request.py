"""The request of one hop, and the limits of its response. Used by `guarded_client` and `exchange`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from anabranch.dataclass import dataclass

if TYPE_CHECKING:
    from anabranch.egress.targets import ProxyTarget, RequestTarget

# 10 MiB after decompression: ten times the largest output.
BODY_BYTES_MAX = 10 * 1_048_576


@dataclass(frozen=True, slots=True)
class EgressRequest:
    """A request to one target; header names are lower case."""

    method: str
    target: RequestTarget
    headers: Mapping[str, str]
    body: bytes | None
    proxy: ProxyTarget | None = None
