"""How the test node type `flaky` fails, decided beforehand so that the oracle and the handler read one script."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

FATAL = "fatal"
"""The first attempt fails and says that no other can help."""

Script: TypeAlias = Mapping[str, Mapping[str, Any]]
"""node id → {"where": the end of the scopes meant ("" means all), "fails": so many first attempts, or FATAL}."""


def planned_failure(script: Script, node_id: str, scope: str) -> int | str:
    """How many first attempts of this activation fail, or FATAL."""
    rule = script.get(node_id)
    return rule["fails"] if rule and scope.endswith(rule["where"]) else 0


def attempt_fails(script: Script, node_id: str, scope: str, attempt: int) -> bool:
    """True if this attempt fails."""
    fails = planned_failure(script, node_id, scope)
    return isinstance(fails, str) or attempt <= fails


# From this pass on, whoever has a choice takes the last of its handles: the loops that are drawn end.
LAST_CHOICE = 4


def planned_handle(handles: Sequence[str], node_id: str, scope: str) -> str:
    """The handle that a `pick` node leaves by: another one in each pass, always the same in the same scope."""
    numbers = [int(each) for each in re.findall(r"#(\d+)", scope)]
    if any(number >= LAST_CHOICE for number in numbers):
        return handles[-1]
    return handles[zlib.crc32(f"{node_id} {scope}".encode()) % len(handles)]
