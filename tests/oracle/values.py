"""What each activation folds into the context, read after the oracle has walked the whole run.

A variable has a certain value if all its writers certainly ended before the reader and one of them
certainly ended last; a writer that may come before or after makes it UNKNOWN.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial, reduce
from typing import Any

from tests.oracle.activation import Activation, Errors, Iteration, base_of
from tests.oracle.expressions import UNKNOWN, Missing, resolve
from tests.oracle.prediction import AtLeast, agrees
from tests.oracle.shape import Shape


class Values:
    """The values of one walked run."""

    def __init__(self, shape: Shape, activations: Sequence[Activation]) -> None:
        self._shape = shape
        self._activations = activations
        self._known: dict[Activation, Any] = {}

    def of(self, activation: Activation) -> Any:
        """The output of a completed activation, or what a handled failure folds."""
        if activation not in self._known:
            failed = activation.outcome == "failed"
            self._known[activation] = self._failed(activation) if failed else self._completed(activation)
        return self._known[activation]

    def written(self, activation: Activation) -> Any:
        """What the row of its ending holds: the output, or the error whether or not it is handled."""
        return _error(activation.errors) if activation.outcome == "failed" else self.of(activation)

    def merge(self, ends: Sequence[Activation]) -> Any:
        """The instance output that these End nodes make together; null without any."""
        named = [(end.node.get("config", {}).get("name"), self.of(end)) for end in ends]
        return reduce(_join_objects, [{name: value} if name else value for name, value in named]) if named else None

    def _failed(self, activation: Activation) -> Any:
        return None if activation.node.get("errorHandling") == "ignore" else _error(activation.errors)

    def _completed(self, activation: Activation) -> Any:
        node, config = activation.node, activation.node.get("config", {})
        if node.get("disabled"):
            return None
        read = partial(self._read, activation, activation.scope, activation.frame, activation.before)
        match node["type"]:
            case "topic" | "workflowCall":
                return activation.frame["input"]
            case "start":
                return {"started": True, "inputReceived": activation.frame["input"]}
            case "flaky" | "pick":
                return {"ok": node.get("shown", node["id"])}
            case "condition":
                return {"branch": activation.handle}
            case "cursor":
                return activation.batch
            case "delay":
                return {"delayedMs": int(config["duration"].removesuffix("ms"))}
            case "set":
                return resolve(config["values"], read)
            case "end":
                found = resolve(config.get("outputParameters", {}), read)
                return {pair["name"]: pair["value"] for pair in found} if isinstance(found, list) else found
            case "loop":
                skips = config.get("onItemError") == "skip"
                return [self._of_iteration(activation, i) for i in activation.iterations if not (skips and i.errors)]
        raise AssertionError(f"the oracle does not know the type {node['type']}")

    def _of_iteration(self, loop: Activation, iteration: Iteration) -> Any:
        if iteration.errors:
            return _error(iteration.errors)
        if "yield" in loop.node["config"]:
            read = partial(self._read, loop, iteration.scope, iteration.frame, iteration.past)
            return resolve(loop.node["config"]["yield"], read)
        own = [a for a in iteration.created if base_of(a.scope) == iteration.scope]
        ended = [a for a in own if a.outcome in ("completed", "failed")]
        returning = [a for a in ended if (a.node["id"], a.handle, loop.node["id"]) in self._shape.back]
        if returning:
            last = [a for a in returning if all(other in a.past for other in returning)]
            return self.of(last[0]) if last else UNKNOWN
        if any(self._shape.is_doubtful_sink(a.node["id"]) for a in ended):
            return UNKNOWN
        sinks = [a for a in ended if a.outcome == "completed" and self._shape.is_sink(a.node["id"])]
        if len({a.scope for a in sinks}) > 1:  # of a node that ran in several passes the last one counts
            latest = {a.node["id"]: a for a in sorted(sinks, key=lambda a: len(a.past))}
            sinks = list(latest.values())
        if len(sinks) > 1:
            return reduce(_join_objects, [{a.node.get("outputVariable", a.node["id"]): self.of(a)} for a in sinks])
        return self.of(sinks[0]) if sinks else None

    def _read(
        self, reader: Activation, scope: str, frame: Mapping[str, Any], before: frozenset[Activation], name: str
    ) -> Any:
        if name in frame:
            return frame[name]
        writers = [a for a in self._activations if a.node.get("outputVariable") == name and _is_visible(a, scope)]
        writers = [a for a in writers if a.outcome in ("completed", "failed") and reader not in a.past]
        if scope == reader.scope or base_of(scope) == base_of(
            reader.scope
        ):  # not for a `yield`, which the loop reads long after its own dispatch
            writers = [a for a in writers if not reader.is_dispatched_before_the_end_of(a)]
        if not writers:
            raise Missing(name)
        last = [a for a in writers if all(other in a.past for other in writers)]
        return self.of(last[0]) if last and all(a in before for a in writers) else UNKNOWN


def _is_visible(writer: Activation, scope: str) -> bool:
    writes, reads = base_of(writer.scope), base_of(scope)
    return writes in ("", reads) or reads.startswith(f"{writes}/")


def _error(errors: Errors) -> Any:
    if len(errors) != 1:
        return AtLeast({"error": UNKNOWN})
    code, attempt = errors[0]
    return {"error": AtLeast({"code": code} if attempt is None else {"code": code, "attempt": attempt})}


def _join_objects(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Both objects in one; where they differ the later ending wins, and which is later is not known here."""
    shared = one.keys() & other.keys()
    clashes = {key for key in shared if not (agrees(one[key], other[key]) and agrees(other[key], one[key]))}
    return {**one, **other, **dict.fromkeys(clashes, UNKNOWN)}
