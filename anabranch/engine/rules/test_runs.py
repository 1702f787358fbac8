"""Test runs: how they differ from runs of the same graph (pinned outputs, where they end).

Pure. Made by the service of test runs, kept in the log beside the definition, read when the plan is compiled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from anabranch.dataclass import dataclass
from anabranch.engine.rules.values import Payload

# 4 MB of pinned outputs, as much as the definition: both are in one row of the log.
PINS_BYTES_MAX = 4 * 1_048_576


@dataclass(frozen=True, slots=True)
class Pin:
    """The output of a node in a test run, in place of executing it."""

    output: Any
    handle: str | None = None
    """None: the one that it takes when its failures are ignored."""

    def as_json(self) -> dict[str, Any]:
        """As it is sent and stored."""
        return {"output": self.output} if self.handle is None else {"output": self.output, "handle": self.handle}


@dataclass(frozen=True, slots=True)
class TestRunPlan:
    """The pins of a test run, where it ends, and whether it waits for its input."""

    __test__ = False

    pins: Mapping[str, Pin] = field(default_factory=dict)
    """By node id; in a loop's body a pin holds for every iteration."""
    until: str | None = None
    """Only this node and those before it exist for the run."""
    listens: str | None = None
    """The webhook that the run begins at, which waits for a request first: that is the input."""

    @property
    def is_whole(self) -> bool:
        """Whether the test run has no pins and runs the whole graph."""
        return not self.pins and self.until is None and self.listens is None

    @property
    def payload(self) -> Payload:
        """As it is stored. Raises ValueTooLarge, ValueNotStorable."""
        return Payload.of(self.as_json(), bytes_max=PINS_BYTES_MAX)

    def as_json(self) -> dict[str, Any]:
        """As it is stored and shown."""
        pins = {node_id: pin.as_json() for node_id, pin in self.pins.items()}
        return {"pins": pins, "until": self.until, **({} if self.listens is None else {"listens": self.listens})}


WHOLE = TestRunPlan()


def read_test_run_plan(value: Mapping[str, Any] | None) -> TestRunPlan:
    """Read what `as_json` wrote; None: a test run of the whole graph."""
    if value is None:
        return WHOLE
    pins = {node_id: Pin(pin["output"], pin.get("handle")) for node_id, pin in value["pins"].items()}
    return TestRunPlan(pins, value["until"], value.get("listens"))
