"""Decisions about drawn runs: results of handlers, pure nodes, waits, iterations of loops.

Pure. `decide` calls it for an activation that awaits the result, or for one that has ended. Loops continue when an
iteration has ended, or when a decision had to stop before they were finished. Each ended activation is added to the
decision's `todo`; `decide` then handles its edges.
"""

from __future__ import annotations

from anabranch.engine.rules.commands import AwaitChild
from anabranch.engine.rules.drawn.drawn_state import Activation, LoopRun, RegionRun, error_of
from anabranch.engine.rules.drawn.scopes import pass_path
from anabranch.engine.rules.event_payloads import ChildAwaited, DelayStarted, LoopOpened
from anabranch.engine.rules.events import DEFAULT_HANDLE, EventType
from anabranch.engine.rules.shared.decisions import (
    DrawnDecisionBuilder,
    child_result,
    error_about,
    next_attempt,
)
from anabranch.engine.rules.shared.failures import failed_by, who_is
from anabranch.engine.rules.stimuli import AwaitsChild, AwaitsSignal, ChildEnded, Failed
from anabranch.engine.rules.templates.budget import WORK_MAX, TemplateBudget
from anabranch.engine.rules.values import Payload
from anabranch.errors import AnabranchError

# 16 MB: all loops in a batch of decisions together may do as much work as one template, about a tenth of a second in
# which the event loop serves nothing else. Later decisions do the rest.
LOOP_WORK_MAX = WORK_MAX

# The cost of a dispatch and a small template (one to two µs), in the budget's unit of 160 bytes per µs: 10,000
# iterations of one node can still open at once.
ITERATION_UNITS = 250
DISPATCH_UNITS = 1_250
TEMPLATE_UNITS = 3_000

# The cost of evaluating a node and deciding about it, apart from its templates: some 12 µs.
EVALUATION_UNITS = 2_000

# 200 nodes or 1 MB of outputs per decision: larger decisions are not faster, and delay other instances.
EVALUATIONS_MAX = 200
EVALUATED_BYTES_MAX = 1_048_576

# A `while` template that looks at `ctx.results` copies them first.
RESULTS_COPIED_PER_UNIT = 4


def returned(
    builder: DrawnDecisionBuilder, activation: Activation, output: Payload, handle: str | None, delay_ms: int | None
) -> None:
    """A handler returned: wait out its delay, open its loop, or complete."""
    node = activation.node
    if node.loop is not None:
        open_loop(builder, activation, output)
        return
    if handle is None and node.exits:
        handle = DEFAULT_HANDLE
    if handle not in node.exits and not node.may_leave_by(handle):
        message = f"the handler of type {node.type!r} named a handle that the node does not have: {handle!r}"
        builder.fail(activation, error_about(activation, "UNKNOWN_HANDLE", "UnknownHandle", message))
    elif delay_ms is None:
        builder.complete(activation, output, handle)
    else:
        delay = DelayStarted(builder.now + delay_ms, output, handle)
        builder.emit(EventType.NODE_WAITING, activation, delay.payload)
        builder.wake(activation)


def evaluate_next(builder: DrawnDecisionBuilder) -> bool:
    """Evaluate the pure node that was dispatched first, and apply its result like a handler's; False if this decision
    has evaluated enough, so that later ones do the rest.

    Any exception becomes the failure of the node, so that the events before it are still written.
    """
    if (
        len(builder.evaluated) >= builder.evaluations_max
        or builder.evaluated_bytes >= EVALUATED_BYTES_MAX
        or builder.worked >= builder.work_max
    ):
        return False
    activation = next(iter(builder.state.unevaluated.values()))
    node, path, attempt = activation.node, activation.scope.path, activation.attempt
    assert node.evaluate is not None, "only pure nodes are left to decisions"
    builder.evaluated.append((node.id, path, attempt))
    work = TemplateBudget()
    failed: Failed | None = None
    try:
        value, handle = node.evaluate(activation.context, work)
        output = Payload.of(value, node.output_bytes_max)
    except Exception as failure:  # noqa: BLE001 -- as of any handler
        who = who_is(builder.state.head.instance_id, node.id, path)
        failed = failed_by(failure, node_id=node.id, scope=path, attempt=attempt, who=who)
    builder.worked += EVALUATION_UNITS + work.spent
    if failed is None:
        builder.evaluated_bytes += output.size
        returned(builder, activation, output, handle, None)
    else:
        attempt_failed(builder, activation, failed)
    return True


def open_wait(builder: DrawnDecisionBuilder, activation: Activation, asked: AwaitsSignal) -> None:
    """A node waits for a signal; a kept one completes it at once."""
    note, output = builder.state.signals.opened_wait(asked, now=builder.now)
    builder.emit(EventType.NODE_WAITING, activation, note)
    if output is None:
        builder.wake(activation)
    else:
        builder.complete(activation, output, DEFAULT_HANDLE)


def open_child_wait(builder: DrawnDecisionBuilder, activation: Activation, asked: AwaitsChild) -> None:
    """A node has started its child and waits for its end, which may have come already.

    The engine reports that end; the store cancels the child if the wait ends first (`Transition.cancels`).
    """
    builder.emit(EventType.NODE_WAITING, activation, ChildAwaited(asked.child_id).payload)
    builder.commands.append(AwaitChild(activation.node.id, activation.scope.path, asked.child_id))


def close_child_wait(builder: DrawnDecisionBuilder, activation: Activation, ended: ChildEnded) -> None:
    """End the node with the child's output. If the child failed or was cancelled, the node fails without a retry."""
    worth = child_result(ended)
    if isinstance(worth, Payload):
        builder.complete(activation, worth, DEFAULT_HANDLE)
    else:
        builder.fail(activation, error_about(activation, *worth))


def attempt_failed(builder: DrawnDecisionBuilder, activation: Activation, failed: Failed) -> None:
    """An attempt failed: schedule the next one, or fail the activation."""
    key = f"{activation.scope.path}/{activation.node.id}"
    note = next_attempt(builder, activation.node.retry, activation.counted_attempt, failed, key=key)
    if note is None:
        builder.fail(activation, failed.error)
        return
    builder.emit(EventType.NODE_ATTEMPT_FAILED, activation, note, error_message=failed.error.message)
    builder.wake(activation)


def open_loop(builder: DrawnDecisionBuilder, activation: Activation, source: Payload) -> None:
    """The handler resolved the source: record it once, and open what concurrency allows."""
    spec = activation.node.loop
    assert spec is not None
    opened = LoopOpened(source if spec.mode == "forEach" else None)
    builder.emit(EventType.LOOP_OPENED, activation, opened.payload)
    go_on(builder, activation)


def go_on(builder: DrawnDecisionBuilder, activation: Activation) -> None:
    """Continue a loop or a region: open further iterations, or end it. Does nothing if it has ended.

    Stops when the decision's budget is used up; a wake-up is then outstanding.
    """
    if activation.region is not None:
        _pass_again(builder, activation, activation.region)
        return
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
            builder.enter(node, path)
    if run.error is not None:
        for scope in list(run.open.values()):
            builder.skip_all(scope)
        builder.fail(activation, run.error)
    elif not run.open:
        builder.complete(activation, run.output(), spec.done_handle)


def _pass_again(builder: DrawnDecisionBuilder, activation: Activation, run: RegionRun) -> None:
    """Begin the next pass of a region whose latest one led back to its header."""
    node, scope = activation.node, activation.scope
    is_over = run.open_pass is not None or scope.open.get(node.id) is not activation
    if is_over or builder.has_worked_enough:
        return
    assert node.region is not None
    if run.number >= node.region.passes_max:
        message = f"the loop at {node.id!r} wants more than its {node.region.passes_max} passes (maxPasses)"
        builder.fail(activation, error_about(activation, "LOOP_LIMIT", "LoopLimit", message))
        return
    builder.worked += ITERATION_UNITS + DISPATCH_UNITS
    builder.dispatch(node, pass_path(node.id, scope.path, run.number + 1))


def _condition_holds(builder: DrawnDecisionBuilder, activation: Activation, run: LoopRun) -> bool:
    """Whether a `while` loop has another iteration. A forEach loop has one for each item."""
    spec = activation.node.loop
    if spec is None or spec.condition is None:
        return True
    context = builder.state.context_of(activation.scope, activation.context.facts)
    work = TemplateBudget()
    try:
        goes_on = bool(spec.condition.resolve(context.within(run.bindings(run.next_index)), work))
    except AnabranchError as error:
        run.error = error_of(error, activation)
        return False
    finally:
        _count(builder, run, work)
    if goes_on and run.next_index >= spec.iterations_max:
        message = f"loop {activation.node.id!r} wants more than its {spec.iterations_max} iterations (maxIterations)"
        run.error = error_about(activation, "LOOP_LIMIT", "LoopLimit", message)
        return False
    return goes_on


def _pass_through(builder: DrawnDecisionBuilder, activation: Activation, run: LoopRun) -> None:
    """Run the next iteration of a loop without a body, which consists of its `yield` only."""
    work = TemplateBudget()
    run.pass_through(activation, builder.state.context_of(activation.scope, activation.context.facts), work)
    if activation.node.loop is not None and activation.node.loop.yields is not None:
        _count(builder, run, work)


def _count(builder: DrawnDecisionBuilder, run: LoopRun, work: TemplateBudget) -> None:
    """Add a resolved template to the cost of this decision."""
    builder.worked += TEMPLATE_UNITS + work.spent + run.results_count // RESULTS_COPIED_PER_UNIT
