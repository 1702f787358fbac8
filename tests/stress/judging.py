"""What a stress run is judged by: which activations ended, how often, and in which order.

Called by `load` for every run that has ended, and by the tests of single shapes. Reads the log and the document, and
shares no rule with the engine: the sets come from the shape's own list or from the oracle, the order from
`tests.oracle.order`. A set alone shows little: a join that runs at its first live edge ends like one that waited.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from anabranch.engine.rules.events import ENDINGS, TERMINALS, Event, EventType
from tests.oracle.expressions import Undetermined
from tests.oracle.oracle import predict
from tests.oracle.order import disorder
from tests.oracle.prediction import Ending, Observed, Prediction, disagreements
from tests.spec.scenario import address
from tests.stress.topologies import Topology

_OUTCOMES = {
    EventType.NODE_COMPLETED: "completed",
    EventType.NODE_FAILED: "failed",
    EventType.NODE_SKIPPED: "skipped",
}


@dataclass(frozen=True)
class Work:
    """A workflow with an input, and what is known of its end."""

    name: str
    document: Mapping[str, Any]
    input: Any = None
    shape: Topology | None = None
    """Its end, written down."""
    prediction: Prediction | None = None
    """Its end, worked out."""

    @classmethod
    def of_shape(cls, shape: Topology) -> Work:
        """One of the shapes of this suite."""
        return cls(shape.name, shape.document, shape.input, shape=shape)

    @classmethod
    def of_document(cls, name: str, document: Mapping[str, Any], input_: Any) -> Work:
        """A workflow of somebody's own; what depends on timing or on the world outside is judged by its order alone."""
        known = all(node["type"] in _PREDICTED for node in document["nodes"])
        try:
            prediction = predict(document, input_, {}) if known else None
        except Undetermined:
            prediction = None
        return cls(name, document, input_, prediction=prediction)


_PREDICTED = frozenset({"start", "end", "set", "condition", "loop", "delay"})


def violations_of(work: Work, log: Sequence[Event]) -> Iterator[str]:
    """Everything that the log of an ended run shows and must not, in words."""
    if [event.seq for event in log] != list(range(1, len(log) + 1)):
        yield "its rows are not numbered 1, 2, 3 without gaps"
    if [event.type for event in log if event.type in TERMINALS] != [log[-1].type]:
        yield "it does not end with one ending, the last row"
        return
    ended = Counter((event.node_id, event.scope) for event in log if event.type in ENDINGS)
    yield from (f"{address(*key)} ended {count} times" for key, count in ended.items() if count > 1)
    dispatched = Counter(
        (event.node_id, event.scope, event.attempt) for event in log if event.type is EventType.NODE_DISPATCHED
    )
    yield from (
        f"attempt {attempt} of {address(node_id, scope)} was dispatched {count} times"
        for (node_id, scope, attempt), count in dispatched.items()
        if count > 1
    )
    yield from disorder(work.document, log)
    if work.shape is not None:
        yield from _other_than_written(work.shape, log)
    elif work.prediction is not None:
        yield from disagreements(work.prediction, _observed(log))


def _other_than_written(shape: Topology, log: Sequence[Event]) -> Iterator[str]:
    for outcome, expected in (
        ("completed", shape.completed),
        ("skipped", shape.skipped),
        ("failed", shape.failed),
    ):
        found = {address(e.node_id, e.scope) for e in log if _OUTCOMES.get(e.type) == outcome}
        if found != expected:
            yield f"{outcome}: {sorted(found ^ expected)} should be otherwise"
    status = log[-1].type.removeprefix("INSTANCE_")
    if status != shape.status:
        yield f"it ended {status}, not {shape.status}: {log[-1].payload.value}"
    elif status == "COMPLETED" and log[-1].payload.value != shape.output:
        yield f"its output is {log[-1].payload.value}, not {shape.output}"


def _observed(log: Sequence[Event]) -> Observed:
    last = log[-1]
    return Observed(
        last.type.removeprefix("INSTANCE_"),
        last.payload.value if last.type is EventType.INSTANCE_COMPLETED else None,
        last.payload.value["code"] if last.type is EventType.INSTANCE_FAILED else None,
        {
            (e.node_id, e.scope): Ending(_OUTCOMES[e.type], e.attempt, e.payload.value)
            for e in log
            if e.type in _OUTCOMES
        },
    )
