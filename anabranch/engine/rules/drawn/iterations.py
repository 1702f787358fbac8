"""The course of a loop: its source recorded, its iterations opened, the loop ended.

Pure. `outcomes` opens a loop when its handler has returned; `decide` goes on with it whenever
one of its iterations has ended, or a decision had to stop before it was finished. What
iterations see and what they are worth is `loops`' matter.
"""

from __future__ import annotations

import orjson

from anabranch.engine.rules.drawn import loops
from anabranch.engine.rules.drawn.decision_builder import DrawnDecisionBuilder, error_about
from anabranch.engine.rules.drawn.endings import abandon, complete, fail
from anabranch.engine.rules.drawn.state import Activation
from anabranch.engine.rules.events import DONE_HANDLE, EventType
from anabranch.engine.rules.templates.budget import WORK_MAX, Work
from anabranch.engine.rules.values import Payload
from anabranch.errors import AnabranchError

# 16 MB: what one template may work through is what all loops of a batch of decisions may, about
# a tenth of a second in which nobody else is served. What is left is done by the next ones.
LOOP_WORK_MAX = WORK_MAX

# What a microsecond or two, a dispatch and a small template take, measured against the budget's
# 160 bytes a microsecond: 10,000 iterations of one node still open at once.
ITERATION_UNITS = 250
DISPATCH_UNITS = 1_250
TEMPLATE_UNITS = 3_000

# A `while` template that looks at `ctx.results` copies them first.
RESULTS_COPIED_PER_UNIT = 4


def open_loop(builder: DrawnDecisionBuilder, activation: Activation, source: Payload) -> None:
    """The handler resolved the source: record it once, and open what concurrency allows."""
    spec = activation.node.loop
    assert spec is not None
    items = source.value if spec.mode == "forEach" else None
    count = None if items is None else len(items)
    raw = b'{"items":%s,"count":%s}' % (source.raw if items is not None else b"null", orjson.dumps(count))
    builder.emit(EventType.LOOP_OPENED, activation, payload=Payload({"items": items, "count": count}, raw))
    go_on(builder, activation)


def go_on(builder: DrawnDecisionBuilder, activation: Activation) -> None:
    """Go on with a loop: open further iterations, or end it. Harmless if it has ended already.

    Stops where it is once the decision has worked enough: the state then owes a wake-up for it.
    """
    run, spec = activation.loop, activation.node.loop
    if run is None or spec is None or activation.scope.open.get(activation.node.id) is not activation:
        return
    prefix = f"{activation.scope.path}/{activation.node.id}" if activation.scope.path else activation.node.id
    while run.may_open(spec):
        if builder.has_worked_enough:
            return
        builder.worked += ITERATION_UNITS
        if not _condition_holds(builder, activation, run):
            break
        if not spec.body.nodes:
            _pass_through(builder, activation, run)
            continue
        builder.worked += DISPATCH_UNITS * len(spec.body.first)
        path = f"{prefix}[{run.next_index}]"
        for node in spec.body.first:
            builder.dispatch(node, path)
    if run.error is not None:
        for scope in list(run.open.values()):
            abandon(builder, scope)
        fail(builder, activation, run.error)
    elif not run.open:
        complete(builder, activation, run.output(), DONE_HANDLE)


def _condition_holds(builder: DrawnDecisionBuilder, activation: Activation, run: loops.LoopRun) -> bool:
    """Does a `while` loop go on? It is asked before each iteration; forEach always does while it has items."""
    spec = activation.node.loop
    if spec is None or spec.condition is None:
        return True
    context = builder.state.context_of(activation.scope).within(run.bindings(run.next_index))
    work = Work()
    try:
        goes_on = bool(spec.condition.resolve(context, work))
    except AnabranchError as error:
        run.error = loops.error_of(error, activation)
        return False
    finally:
        _count(builder, run, work)
    if goes_on and run.next_index >= spec.iterations_max:
        message = f"loop {activation.node.id!r} wants more than its {spec.iterations_max} iterations (maxIterations)"
        run.error = error_about(activation, "LOOP_LIMIT", "LoopLimit", message)
        return False
    return goes_on


def _pass_through(builder: DrawnDecisionBuilder, activation: Activation, run: loops.LoopRun) -> None:
    """The next iteration of a loop without a body: all there is to it is its `yield`."""
    work = Work()
    run.pass_through(activation, builder.state.context_of(activation.scope), work)
    if activation.node.loop is not None and activation.node.loop.yields is not None:
        _count(builder, run, work)


def _count(builder: DrawnDecisionBuilder, run: loops.LoopRun, work: Work) -> None:
    """Count a resolved template into what this decision has cost."""
    builder.worked += TEMPLATE_UNITS + work.spent + run.results_count // RESULTS_COPIED_PER_UNIT
