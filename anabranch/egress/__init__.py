"""Egress: everything that leaves the machine passes here.

`Guard` judges hosts (HTTP, databases); `GuardedClient` sends HTTP requests through it.
"""

from anabranch.egress.addresses import AllowList
from anabranch.egress.client import FetchResponse, GuardedClient
from anabranch.egress.guard import Guard, Resolve

__all__ = ["AllowList", "FetchResponse", "Guard", "GuardedClient", "Resolve"]
