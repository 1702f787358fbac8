"""The text form of scopes in drawn runs: `each[3]` is an iteration, `ask#2` a pass, and `each[3]/ask#2` both.

Pure. Read by the fold, by the projection of the log and by what explains runs.
"""

from __future__ import annotations

import re

from anabranch.dataclass import dataclass

_STEP = re.compile(r"(?:(.*)/)?(?:([^/\[\]#]+)\[(\d+)\]|([^/\[\]#]+)#(\d+))", re.DOTALL)


@dataclass(slots=True)
class ScopeKey:
    """Which scope a path means: `a[1]/b[2]` is iteration 2 of the loop `b` in `a[1]`. Never changed once created (not
    `frozen`: see `Event`)."""

    node_id: str
    """The loop, or the header of the region."""
    scope: str
    """The scope around it."""
    index: int
    """Of iterations from 0 on, of passes from 1 on."""
    is_pass: bool


def scope_key_of(path: str) -> ScopeKey:
    """The key of a scope. Raises ValueError for the root and for text that is not a scope of a drawn run."""
    found = _STEP.fullmatch(path)
    if found is None:
        raise ValueError(f"{path!r} is neither an iteration nor a pass")
    outer, loop, index, header, number = found.groups()
    if loop is not None:
        return ScopeKey(loop, outer or "", int(index), False)
    return ScopeKey(header, outer or "", int(number), True)


def is_pass(path: str) -> bool:
    """Whether the scope is a pass of a region."""
    return "#" in path.rpartition("/")[2]


def base_of(path: str) -> str:
    """The scope without its innermost passes: of `each[3]/ask#2` it is `each[3]`, of `ask#2` the root."""
    while path and is_pass(path):
        path = path.rpartition("/")[0]
    return path


def pass_path(header: str, scope: str, number: int) -> str:
    """The scope of a pass."""
    return f"{scope}/{header}#{number}" if scope else f"{header}#{number}"


def is_item_of(node_id: str, path: str) -> bool:
    """Is it an iteration of the loop with this id? The body of a mapped node has its id, too."""
    return path.endswith("]") and path.rpartition("[")[0].rpartition("/")[2] == node_id


def depth_of(path: str) -> int:
    """How many loops and regions enclose a scope."""
    return path.count("[") + path.count("#")
