"""The course of a loop: its source recorded, its iterations opened, the loop ended.

Pure. `outcomes` opens a loop when its handler has returned; `decide` goes on with it whenever
one of its iterations has ended. What iterations see and what they are worth is `loops`' matter.
"""

from __future__ import annotations

import orjson

from anabranch.engine.rules import loops
from anabranch.engine.rules.endings import abandon, complete, fail
from anabranch.engine.rules.events import DONE_HANDLE, EventType
from anabranch.engine.rules.instance import Activation
from anabranch.engine.rules.thought import Thought, error_about
from anabranch.engine.rules.values import Payload
from anabranch.errors import AnabranchError


def open_loop(thought: Thought, activation: Activation, source: Payload) -> None:
    """The handler resolved the source: record it once, and open what concurrency allows."""
    spec = activation.node.loop
    assert spec is not None
    items = source.value if spec.mode == "forEach" else None
    count = None if items is None else len(items)
    raw = b'{"items":%s,"count":%s}' % (source.raw if items is not None else b"null", orjson.dumps(count))
    thought.emit(EventType.LOOP_OPENED, activation, payload=Payload({"items": items, "count": count}, raw))
    iteration_ended(thought, activation)


def iteration_ended(thought: Thought, activation: Activation) -> None:
    """Go on with a loop: open further iterations, or end it. Harmless if it has ended already."""
    run, spec = activation.loop, activation.node.loop
    if run is None or spec is None or activation.scope.open.get(activation.node.id) is not activation:
        return
    prefix = f"{activation.scope.path}/{activation.node.id}" if activation.scope.path else activation.node.id
    while run.may_open(spec) and _condition_holds(thought, activation, run):
        if not spec.body.nodes:
            run.pass_through(activation, thought.state.context_of(activation.scope))
            continue
        path = f"{prefix}[{run.next_index}]"
        for node in spec.body.first:
            thought.dispatch(node, path)
    if run.error is not None:
        for scope in list(run.open.values()):
            abandon(thought, scope)
        fail(thought, activation, run.error)
    elif not run.open:
        complete(thought, activation, run.output(), DONE_HANDLE)


def _condition_holds(thought: Thought, activation: Activation, run: loops.LoopRun) -> bool:
    """Does a `while` loop go on? It is asked before each iteration; forEach always does while it has items."""
    spec = activation.node.loop
    if spec is None or spec.condition is None:
        return True
    context = thought.state.context_of(activation.scope).within(run.bindings(run.next_index))
    try:
        goes_on = bool(spec.condition.resolve(context))
    except AnabranchError as error:
        run.error = loops.error_of(error, activation)
        return False
    if goes_on and run.next_index >= spec.iterations_max:
        message = f"loop {activation.node.id!r} wants more than its {spec.iterations_max} iterations (maxIterations)"
        run.error = error_about(activation, "LOOP_LIMIT", "LoopLimit", message)
        return False
    return goes_on
