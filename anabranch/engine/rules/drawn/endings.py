"""How an activation ends: well, badly, or given up together with all that is open around it.

Pure. Called by whoever finds that something is over: `decide` and `outcomes` for nodes,
`iterations` for loops. Every ended activation is left in the decision's `todo`; what its
verdicts decide is drawn from there.
"""

from __future__ import annotations

from anabranch.engine.rules.drawn.decision_builder import DrawnDecisionBuilder, error_about
from anabranch.engine.rules.drawn.state import Activation, Scope
from anabranch.engine.rules.events import EventType
from anabranch.engine.rules.evolve import failure_handle
from anabranch.engine.rules.values import Payload
from anabranch.errors import RunError

# 16 MB of context a run: it lives in memory while the run is held, and every adoption reads it.
CONTEXT_BYTES_MAX = 16_777_216

# Looked up once: a member of an enum costs ten times a global before Python 3.12.
_NODE_COMPLETED = EventType.NODE_COMPLETED


def complete(builder: DrawnDecisionBuilder, activation: Activation, output: Payload, handle: str | None) -> None:
    """The activation ends well, unless its output would overfill the context."""
    node, scope = activation.node, activation.scope
    if builder.state.context_bytes(scope) + len(output.raw) > CONTEXT_BYTES_MAX:
        message = f"with this output the context of the run would pass {CONTEXT_BYTES_MAX} bytes"
        fail(builder, activation, error_about(activation, "CONTEXT_TOO_LARGE", "ContextTooLarge", message))
        return
    builder.emit(_NODE_COMPLETED, activation, payload=output, next_handle=handle)
    if node.terminate:
        terminate(builder)
    else:
        builder.todo.append((scope, node))


def fail(builder: DrawnDecisionBuilder, activation: Activation, error: RunError) -> None:
    """The activation fails for good: handled, or the end of its iteration or of the instance."""
    node, scope = activation.node, activation.scope
    payload = Payload.trusted({"error": error.as_json()})
    handle = failure_handle(node)
    if activation.child_id is None:  # else it is the child's end that we hear of
        builder.abandon(activation)
    builder.emit(EventType.NODE_FAILED, activation, payload=payload, next_handle=handle, error_message=error.message)
    if handle is None and (node.error_handling == "fail_workflow" or scope.owner is None):
        builder.fail_instance(error)
        return
    if handle is None:
        abandon(builder, scope)
    builder.todo.append((scope, node))


def abandon(builder: DrawnDecisionBuilder, scope: Scope) -> None:
    """End all that is open or undecided in an iteration, innermost loops first."""
    scopes = [scope]
    for outer in scopes:  # grows while it is walked: breadth first
        for activation in outer.open.values():
            if activation.loop is not None:
                scopes.extend(activation.loop.open.values())
    for inner in reversed(scopes):
        for node in inner.body.nodes:
            if node.id not in inner.ended:
                builder.skip(node, inner)


def terminate(builder: DrawnDecisionBuilder) -> None:
    """An End with `terminate`: what is open becomes SKIPPED, the instance COMPLETED."""
    for scope in sorted(builder.state.scopes.values(), key=lambda scope: scope.path.count("["), reverse=True):
        for activation in sorted(scope.open.values(), key=lambda activation: activation.loop is not None):
            builder.skip(activation.node, scope)
    builder.end_instance(EventType.INSTANCE_COMPLETED, Payload.trusted(builder.state.output()))
