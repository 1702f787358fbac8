"""The fenced code blocks of a page, and what the first line of each says of it.

```json order.json           a file that the reader saves
```sh not run: needs a cluster   the reason why no test runs it
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

NOT_RUN = "not run: "

_BLOCK = re.compile(r"(?ms)^(?P<indent> *)```(?P<language>\w*) ?(?P<info>[^\n]*)\n(?P<text>.*?)^ *```$")
_FILE = re.compile(r"[\w./-]+\.\w+")


@dataclass(frozen=True, slots=True)
class Block:
    """One block, and the line of its page where it begins."""

    language: str
    info: str
    text: str
    line: int

    @property
    def file(self) -> str | None:
        """The name that a reader saves it under."""
        return self.info if _FILE.fullmatch(self.info) else None


def blocks_of(page: str) -> Iterator[Block]:
    """All blocks, in their order."""
    for found in _BLOCK.finditer(page):
        yield Block(found["language"], found["info"].strip(), found["text"], page.count("\n", 0, found.start()) + 1)
