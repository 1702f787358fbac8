"""Options of a test run: pins, the node it continues from, and the node it ends at.

Pure. Called by the services of test runs and drafts. The options are read, checked against the graph, and become a
`TestRunPlan`, which is stored in the run's log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

from anabranch.dataclass import dataclass
from anabranch.engine.rules.drawn.scopes import is_item_of
from anabranch.engine.rules.entry_points import WEBHOOK_TYPE
from anabranch.engine.rules.events import LOOP_HANDLE
from anabranch.engine.rules.graph.control_flow.structure import loops_around, structure_of
from anabranch.engine.rules.graph.document import parse
from anabranch.engine.rules.graph.plan import Plan, PlanNode
from anabranch.engine.rules.graph.problems import pointer_to, quoted
from anabranch.engine.rules.history import ActivationView, value_left
from anabranch.engine.rules.test_runs import Pin, TestRunPlan
from anabranch.engine.rules.values import Payload
from anabranch.errors import InvalidRequest, ValueNotStorable, ValueTooLarge
from anabranch.service.runs.start_verbs import check_entry_point

OPTION_FIELDS = frozenset({"pins", "until", "from", "trigger", "listen"})

_PIN_FIELDS = frozenset({"output", "handle"})
_ORIGIN_FIELDS = frozenset({"instanceID", "nodeID", "scope"})

_Problem = tuple[str, str]
"""JSON pointer, sentence."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The run and node that a test run continues from: the results before that node are pinned."""

    instance_id: str
    node_id: str
    scope: str | None = None
    """The iteration whose outputs are used; None: that of the node's first activation."""


@dataclass(frozen=True, slots=True)
class TrialOptions:
    """The options of a test run."""

    pins: Mapping[str, Pin] = field(default_factory=dict)
    until: str | None = None
    origin: Origin | None = None
    trigger: str | None = None
    """The trigger that it begins at; None: the start, or the only entry point."""
    listens: bool = False
    """It begins at a webhook, and waits for a request."""

    @property
    def differ(self) -> bool:
        """Whether the run does not execute the whole graph as it is."""
        return bool(self.pins) or self.until is not None or self.origin is not None or self.listens


def read_options(fields: Mapping[str, Any]) -> TrialOptions:
    """Read the options from the fields of a request; null equals absent. Raises InvalidRequest."""
    pins = {} if fields.get("pins") is None else read_pins(fields["pins"], "/pins")
    until, trigger = fields.get("until"), fields.get("trigger")
    problems: list[_Problem] = []
    if until is not None and not isinstance(until, str):
        problems.append(("/until", "`until` must be the id of a node"))
    if trigger is not None and not isinstance(trigger, str):
        problems.append(("/trigger", "`trigger` must be the id of a trigger or start node"))
    listens = fields.get("listen")
    if not isinstance(listens, bool | None):
        problems.append(("/listen", "`listen` must be true or false"))
    origin = fields.get("from")
    if origin is not None and not _is_origin(origin):
        problems.append(("/from", "`from` must be an object with instanceID, nodeID and optionally scope"))
    if problems:
        raise _refusal(problems)
    if origin is None:
        return TrialOptions(pins, until, trigger=trigger, listens=bool(listens))
    where = Origin(origin["instanceID"], origin["nodeID"], origin.get("scope"))
    return TrialOptions(pins, until, where, trigger, bool(listens))


def read_pins(value: Any, pointer: str) -> dict[str, Pin]:
    """Pins by node id. Raises InvalidRequest, which lists all problems."""
    if not isinstance(value, Mapping):
        raise _refusal([(pointer, "pins must be an object: node id to pin")])
    problems: list[_Problem] = []
    pins: dict[str, Pin] = {}
    for node_id, pin in value.items():
        pin_pointer = pointer + pointer_to(node_id)
        if not isinstance(pin, Mapping) or "output" not in pin:
            problems.append((pin_pointer, "a pin must be an object with an `output`"))
            continue
        problems += [
            (pin_pointer + pointer_to(name), f"unknown field {name[:64]!r} in a pin")
            for name in pin
            if name not in _PIN_FIELDS
        ]
        handle = pin.get("handle")
        if handle is not None and not isinstance(handle, str):
            problems.append((pin_pointer + "/handle", "a handle must be text"))
            continue
        pins[node_id] = Pin(pin["output"], handle)
    if problems:
        raise _refusal(problems)
    return pins


def check_options(options: TrialOptions, plan: Plan) -> None:
    """Check that the graph has the nodes in the options. Raises InvalidRequest, which lists all problems."""
    problems = [
        (pointer, f"no entry point leads to a node {quoted(node_id)}")
        for pointer, node_id in (("/until", options.until), ("/from/nodeID", _node_of(options.origin)))
        if node_id is not None and node_id not in plan.nodes
    ]
    for node_id, pin in options.pins.items():
        pin_pointer, node = "/pins" + pointer_to(node_id), plan.nodes.get(node_id)
        found = _problem_of(pin, node, plan)
        if found is not None:
            problems.append((pin_pointer + found[0], found[1]))
    if problems:
        raise _refusal(problems)


def entry_point_of(plan: Plan, trigger: str | None) -> str | None:
    """The trigger that a test run begins at; None: the start.

    `plan` has what the run executes. Raises NoManualStart, UnknownTrigger.
    """
    if trigger is None and plan.start is None and len(plan.entry_points) == 1:
        trigger = plan.entry_points[0].id
    check_entry_point(plan, trigger)
    return None if plan.entry_point_by_trigger.get(trigger) is plan.start else trigger


def listening_node(options: TrialOptions, plan: Plan) -> str | None:
    """The webhook that waits for a request; None: none does. Raises InvalidRequest, NoManualStart, UnknownTrigger."""
    if not options.listens:
        return None
    trigger = entry_point_of(plan, options.trigger)
    node = plan.entry_point_by_trigger.get(trigger)
    if node is None or node.type != WEBHOOK_TYPE:
        message = "only a run that begins at a `webhook` can wait for a request; name it as `trigger`"
        raise _refusal([("/listen", message)])
    return node.id


def before(document: Mapping[str, Any], node_id: str) -> frozenset[str]:
    """The nodes that lead to one, without those that it is in the body of, and without entry points."""
    graph = parse(document)
    structure = structure_of(graph)
    entry_points = {node.id for node in graph.entry_points}
    return frozenset(structure.before(node_id) - {node_id, *entry_points, *loops_around(node_id, structure.homes)})


def pins_from(
    activations: Iterable[ActivationView], wanted: frozenset[str], plan: Plan, origin: Origin
) -> dict[str, Pin]:
    """The results of nodes in a run: of each node the activation in the chosen iteration, otherwise the first.

    Nodes that were skipped, did not end, or left by a handle that no longer exists are not pinned.
    """
    scope = origin.scope
    found: dict[str, ActivationView] = {}
    for activation in activations:
        if activation.node_id == origin.node_id and scope is None:
            scope = activation.scope
        is_item = is_item_of(activation.node_id, activation.scope)  # of a mapped node the whole list is pinned
        if activation.node_id in wanted and activation.leaves_value and not is_item:
            known = found.get(activation.node_id)
            if known is None or (scope is not None and _is_around(activation.scope, scope)):
                found[activation.node_id] = activation
    pins = {node_id: Pin(value_left(each), each.next_handle) for node_id, each in found.items()}
    return {node_id: pin for node_id, pin in pins.items() if _problem_of(pin, plan.nodes.get(node_id), plan) is None}


def trial_plan(options: TrialOptions, known: Mapping[str, Pin], plan: Plan) -> TestRunPlan:
    """The plan of the test run; pins by hand take precedence over results of another run.

    Raises InvalidRequest, NoManualStart, UnknownTrigger where it should wait for a request and cannot.
    """
    return TestRunPlan({**known, **options.pins}, options.until, listening_node(options, plan))


def _problem_of(pin: Pin, node: PlanNode | None, plan: Plan) -> _Problem | None:
    """The pointer within a pin and its problem; None if it is valid."""
    if node is None:
        return "", "no entry point leads to a node with this id"
    if node in plan.entry_points:
        return "", f"the {node.type} node cannot be pinned: its output is the input"
    if pin.handle is not None and (pin.handle not in node.handles or (node.loop and pin.handle == LOOP_HANDLE)):
        exits = ", ".join(quoted(each) for each in sorted(node.handles - ({LOOP_HANDLE} if node.loop else set())))
        return "/handle", f"the node has no handle {quoted(pin.handle)}" + (f"; it has {exits}" if exits else "")
    if node.type == "end" and not isinstance(pin.output, dict):
        return "/output", "the output of an end node must be an object"
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
