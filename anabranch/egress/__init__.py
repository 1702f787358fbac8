"""Egress: the guard for everything that leaves the machine.

`Guard` checks hosts (HTTP, databases); `GuardedClient` sends HTTP requests through it.
"""

from anabranch.egress.addresses import AllowList
from anabranch.egress.guard import Guard, Resolve
from anabranch.egress.guarded_client import GuardedClient

__all__ = ["AllowList", "Guard", "GuardedClient", "Resolve"]
