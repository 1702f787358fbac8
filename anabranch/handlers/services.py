"""What the built-in types need of the rooms beside them, handed in by the composition root.

Called by `builtin`. Where nothing is handed in (checking a workflow needs none of it) the types are
there all the same, and say clearly that they cannot be executed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from anabranch.errors import NonRetryable
from anabranch.handlers.workflow import Children


class _NoChildren:
    async def start(self, *_: Any, **__: Any) -> str:
        raise NonRetryable("this process starts no other runs: it was put together without a place to start them")


@dataclass(frozen=True, slots=True)
class Services:
    """One field per port; each refuses unless it is given."""

    children: Children = field(default_factory=_NoChildren)


NO_SERVICES = Services()
