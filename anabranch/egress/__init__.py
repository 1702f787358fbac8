"""Egress: everything that leaves the machine passes here.

`Guard` judges hosts (HTTP, databases); `GuardedClient` sends HTTP requests through it.
"""

from anabranch.egress.addresses import AllowList
from anabranch.egress.guard import Guard, Resolve
from anabranch.egress.guarded_client import GuardedClient

__all__ = ["AllowList", "Guard", "GuardedClient", "Resolve"]
