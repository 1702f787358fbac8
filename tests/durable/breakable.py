"""What steps do in tests that break and mend them: each call is counted, and fails while its name is broken.

Called by the tests of retries and forks. `conftest` forgets what earlier tests have done.
"""

from __future__ import annotations

from collections import Counter
from typing import Any


class Breakable:
    """What steps have done, and what is broken."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.broken: set[str] = set()

    def call(self, name: str, *told: Any) -> str:
        """Count a call; its result says which it was. Raises ValueError while the name is broken."""
        self.calls[name] += 1
        if name in self.broken:
            raise ValueError(f"{name} is broken")
        return f"{name} {self.calls[name]}"

    def forget(self) -> None:
        """Begin anew: nothing was called, and nothing is broken."""
        self.calls.clear()
        self.broken.clear()


WORLD = Breakable()
