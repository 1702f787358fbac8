"""What a test run takes beside a graph and an input: pins, where it begins and where it ends.

Pure. Called by the façades of test runs and drafts. What is asked for is read here, held against the graph, and
becomes a `TestRunPlan`, which is kept in the run's log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from anabranch.engine.rules.events import LOOP_HANDLE
from anabranch.engine.rules.graph.document import parse
from anabranch.engine.rules.graph.plan import Plan, PlanNode
from anabranch.engine.rules.graph.problems import pointer_to, quoted
from anabranch.engine.rules.graph.structure import loops_around, structure_of
from anabranch.engine.rules.history import Activation, value_left
from anabranch.engine.rules.test_runs import Pin, TestRunPlan
from anabranch.engine.rules.values import Payload
from anabranch.errors import InvalidRequest, ValueNotStorable, ValueTooLarge

OPTION_FIELDS = frozenset({"pins", "until", "from"})

_PIN_FIELDS = frozenset({"output", "handle"})
_ORIGIN_FIELDS = frozenset({"instanceID", "nodeID", "scope"})

_Problem = tuple[str, str]
"""JSON pointer, sentence."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The run, and its node, that a test run goes on from: what was before it there is pinned."""

    instance_id: str
    node_id: str
    scope: str | None = None
    """The iteration whose outputs are taken; None: that of the node's first activation."""


@dataclass(frozen=True, slots=True)
class TrialOptions:
    """What was asked for."""

    pins: Mapping[str, Pin] = field(default_factory=dict)
    until: str | None = None
    origin: Origin | None = None


NO_OPTIONS = TrialOptions()


def read_options(fields: Mapping[str, Any]) -> TrialOptions:
    """The options among the fields of a request; null is as good as absent. Raises InvalidRequest."""
    pins = {} if fields.get("pins") is None else read_pins(fields["pins"], "/pins")
    until = fields.get("until")
    problems: list[_Problem] = []
    if until is not None and not isinstance(until, str):
        problems.append(("/until", "`until` is the id of a node"))
    origin = fields.get("from")
    if origin is not None and not _is_origin(origin):
        problems.append(("/from", "`from` is an object with instanceID and nodeID, and perhaps a scope"))
    if problems:
        raise _refusal(problems)
    if origin is None:
        return TrialOptions(pins, until)
    return TrialOptions(pins, until, Origin(origin["instanceID"], origin["nodeID"], origin.get("scope")))


def read_pins(value: Any, pointer: str) -> dict[str, Pin]:
    """Pins by node id. Raises InvalidRequest, naming each place that does not fit."""
    if not isinstance(value, Mapping):
        raise _refusal([(pointer, "pins are an object: a node's id with its pin")])
    problems: list[_Problem] = []
    pins: dict[str, Pin] = {}
    for node_id, pin in value.items():
        place = pointer + pointer_to(node_id)
        if not isinstance(pin, Mapping) or "output" not in pin:
            problems.append((place, "a pin is an object with an `output`"))
            continue
        problems += [
            (place + pointer_to(name), f"a pin has no field {name[:64]!r}") for name in pin if name not in _PIN_FIELDS
        ]
        handle = pin.get("handle")
        if handle is not None and not isinstance(handle, str):
            problems.append((place + "/handle", "a handle is text"))
            continue
        pins[node_id] = Pin(pin["output"], handle)
    if problems:
        raise _refusal(problems)
    return pins


def check_options(options: TrialOptions, plan: Plan) -> None:
    """Return if the graph has what the options name. Raises InvalidRequest, naming each place that does not fit."""
    problems = [
        (pointer, f"no way leads from the start to a node {quoted(node_id)}")
        for pointer, node_id in (("/until", options.until), ("/from/nodeID", _node_of(options.origin)))
        if node_id is not None and node_id not in plan.nodes
    ]
    for node_id, pin in options.pins.items():
        place, node = "/pins" + pointer_to(node_id), plan.nodes.get(node_id)
        found = _problem_of(pin, node, plan)
        if found is not None:
            problems.append((place + found[0], found[1]))
    if problems:
        raise _refusal(problems)


def before(document: Mapping[str, Any], node_id: str) -> frozenset[str]:
    """The nodes that lead to one, without those that it is in the body of, and without `start`."""
    structure = structure_of(parse(document))
    start = structure.order[0]
    return frozenset(structure.before(node_id) - {node_id, start, *loops_around(node_id, structure.homes)})


def pins_from(activations: Iterable[Activation], wanted: frozenset[str], plan: Plan, origin: Origin) -> dict[str, Pin]:
    """What nodes came to in a run: of each the activation in the iteration that is gone on from, else its first one.

    Nodes that were skipped, did not end, or left by a handle that they do not have any more are not pinned.
    """
    scope = origin.scope
    found: dict[str, Activation] = {}
    for activation in activations:
        if activation.node_id == origin.node_id and scope is None:
            scope = activation.scope
        if activation.node_id in wanted and activation.leaves_value:
            known = found.get(activation.node_id)
            if known is None or (scope is not None and _is_around(activation.scope, scope)):
                found[activation.node_id] = activation
    pins = {node_id: Pin(value_left(each), each.next_handle) for node_id, each in found.items()}
    return {node_id: pin for node_id, pin in pins.items() if _problem_of(pin, plan.nodes.get(node_id), plan) is None}


def trial_plan(options: TrialOptions, known: Mapping[str, Pin]) -> TestRunPlan:
    """How the run differs from its graph: what was pinned by hand stands before what is known of another run."""
    return TestRunPlan({**known, **options.pins}, options.until)


def _problem_of(pin: Pin, node: PlanNode | None, plan: Plan) -> _Problem | None:
    """Where in a pin, and what: None if it fits."""
    if node is None:
        return "", "no way leads from the start to a node of this id"
    if node is plan.start:
        return "", "the start is not pinned: its output is the input"
    if pin.handle is not None and (pin.handle not in node.handles or (node.loop and pin.handle == LOOP_HANDLE)):
        exits = ", ".join(quoted(each) for each in sorted(node.handles - ({LOOP_HANDLE} if node.loop else set())))
        return "/handle", f"the node does not complete by {quoted(pin.handle)}" + (f"; it has {exits}" if exits else "")
    if node.type == "end" and not isinstance(pin.output, dict):
        return "/output", "an end puts out an object"
    try:
        Payload.of(pin.output)
    except (ValueTooLarge, ValueNotStorable) as refusal:
        return "/output", refusal.message
    return None


def _is_around(scope: str, inner: str) -> bool:
    return scope in ("", inner) or inner.startswith(f"{scope}/")


def _node_of(origin: Origin | None) -> str | None:
    return None if origin is None else origin.node_id


def _is_origin(value: Any) -> bool:
    return (
        isinstance(value, Mapping)
        and value.keys() <= _ORIGIN_FIELDS
        and all(isinstance(value.get(name), str) for name in ("instanceID", "nodeID"))
        and isinstance(value.get("scope"), str | None)
    )


def _refusal(problems: list[_Problem]) -> InvalidRequest:
    return InvalidRequest(
        "; ".join(f"{pointer or 'the pins'}: {message}" for pointer, message in problems[:3]),
        hint='Pins are {"NODE_ID": {"output": …, "handle": "default"}}; `until` and `from` name nodes of the graph.',
        details=[{"code": "INVALID_VALUE", "pointer": pointer, "message": message} for pointer, message in problems],
    )
