"""Why a node ran, was skipped or has not run yet, and what a run waits for.

Pure. The answers are derived from the state at a row (`as_of`): the verdicts of edges, the waits of open activations,
and the conditions that decided, evaluated again in their context.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import orjson

from anabranch.dataclass import dataclass
from anabranch.engine.rules.drawn.drawn_state import InstanceState
from anabranch.engine.rules.drawn.scopes import base_of, pass_path
from anabranch.engine.rules.events import ELSE_HANDLE, LOOP_HANDLE, ActivationKey, Status, SuspendReason
from anabranch.engine.rules.graph.plan import Plan, PlanNode
from anabranch.engine.rules.graph.pools import DEFAULT_POOL
from anabranch.engine.rules.history import ActivationStatus, ActivationView, loop_of
from anabranch.engine.rules.instants import to_iso, to_iso_or_none
from anabranch.engine.rules.shared.run_state import Phase
from anabranch.engine.rules.templates.template import compile_template
from anabranch.errors import AnabranchError
from anabranch.service.explanations.as_of import CONDITION_TYPE, RunAsOf, Verdict
from anabranch.service.runs.run_view import suspension, waits_for

# 8 steps back: for further causes, ask about the last node.
DEPTH_MAX = 8

# 100 reasons: more than a person reads; `omitted` tells how many are missing.
REASONS_MAX = 100

# A condition's value is shown up to 1,000 characters of its JSON.
_VALUE_LENGTH_MAX = 1_000

PENDING = "pending"
"""Not reached yet: its incoming edges are undecided."""

_Json = dict[str, Any]


@dataclass(slots=True)
class _Budget:
    """How many reasons one answer may still name."""

    left: int = REASONS_MAX
    omitted: bool = False

    def take(self) -> bool:
        """True if one more may be named."""
        if self.left == 0:
            self.omitted = True
            return False
        self.left -= 1
        return True


def why_node(
    run: RunAsOf, node_id: str, scope: str, *, worker: str | None = None, paused_by: _Json | None = None
) -> _Json:
    """The reasons for the state of one node in one scope; of a coded run, of one step.

    `{nodeID, scope, status, sentence, since, edges, waitsFor, decidedBy, omitted}`. `status` is that of the activation,
    or `pending`; of the node where a loop without a loop node begins that of its latest pass. `worker` is the process
    that advances the run, `paused_by` the pause that stops it. The node must be in the plan of a drawn run.
    """
    budget = _Budget()
    activation = run.activations.get((node_id, scope))
    answer: _Json = {
        "nodeID": node_id,
        "scope": scope,
        "status": PENDING if activation is None else activation.status.value,
        "sentence": "",
        "since": None if activation is None else to_iso(activation.at),
        "edges": [],
        "waitsFor": [],
        "decidedBy": [],
        "omitted": False,
    }
    node = run.plan.node_at(node_id, scope) if isinstance(run.plan, Plan) else None
    if node is not None and _fits(run, node, scope):
        answer["edges"] = [_edge(run, edge, source_scope) for edge, source_scope in run.incoming(node_id, scope)]
    latest = None if activation is not None or node is None else _latest_pass(run, node, scope)
    if latest is not None:
        of_pass = why_node(run, node_id, latest.scope, worker=worker, paused_by=paused_by)
        answer.update({name: of_pass[name] for name in ("status", "since", "waitsFor", "decidedBy", "omitted")})
        answer["sentence"] = f"The latest pass is {latest.scope}: {of_pass['sentence']}"
        return answer
    if activation is None:
        answer["waitsFor"] = _stops(run, paused_by) + _reasons_of_unreached(run, node, scope, budget, worker, DEPTH_MAX)
        answer["sentence"] = _sentence_of_unreached(run, node_id, node, scope, answer)
    else:
        if not activation.has_ended:
            answer["waitsFor"] = _stops(run, paused_by) + _reasons_of_open(run, activation, budget, worker, DEPTH_MAX)
        elif node is not None:
            answer["decidedBy"] = list(_deciders(run, node_id, scope, budget))
        answer["sentence"] = _sentence(activation, answer, is_drawn=isinstance(run.plan, Plan))
    answer["omitted"] = budget.omitted
    return answer


def why_run(run: RunAsOf, *, worker: str | None = None, paused_by: _Json | None = None) -> _Json:
    """What a run waits for, or how it ended: `{status, sentence, since, waitsFor, decidedBy, omitted}`."""
    budget = _Budget()
    status = run.state.status
    answer: _Json = {
        "status": status.value,
        "sentence": "",
        "since": to_iso(run.at),
        "waitsFor": [],
        "decidedBy": [],
        "omitted": False,
    }
    if status.is_terminal:
        answer["sentence"], answer["decidedBy"] = _end(run)
    elif not run.state.started:
        answer["waitsFor"] = [*_stops(run, paused_by), _beginning(run, worker)]
        answer["sentence"] = _joined(answer["waitsFor"])
    else:
        answer["waitsFor"] = _stops(run, paused_by) + _open_reasons(run, budget, worker)
        answer["sentence"] = _joined(answer["waitsFor"]) or "The run is about to continue."
    answer["omitted"] = budget.omitted
    return answer


# -- what is open ------------------------------------------------------------------------------
def _open_reasons(run: RunAsOf, budget: _Budget, worker: str | None) -> list[_Json]:
    """The union over everything that is open; a loop is shown by what is open in its iterations."""
    reasons = _function_reasons(run, worker)
    inner = {loop_of(scope) for scope in run.scopes if scope} if isinstance(run.plan, Plan) else ()
    for activation in run.activations.values():
        if activation.has_ended or (activation.key in inner and _open_scopes(run, activation)):
            continue
        reasons += _reasons_of_open(run, activation, budget, worker, depth=1)
    return reasons


def _reasons_of_open(
    run: RunAsOf, activation: ActivationView, budget: _Budget, worker: str | None, depth: int
) -> list[_Json]:
    """What an open activation waits for."""
    if activation.is_loop:
        scopes = _open_scopes(run, activation)
        if scopes:
            return [reason for scope in scopes if (reason := _iteration(run, scope, budget, worker, depth))]
    if not budget.take():
        return []
    key_as_json = {"nodeID": activation.node_id, "scope": activation.scope}
    wait = waits_for(activation)
    if wait is not None:
        reason = {**key_as_json, **wait, **_arrived_signal(run, activation)}
        if activation.status is ActivationStatus.RETRYING:
            error = activation.error or {}
            reason["attempt"] = activation.attempt + 1
            reason["error"] = {key: error.get(key) for key in ("code", "message")}
        return [reason]
    if _is_only_suspended(run, worker):
        return []
    since = to_iso_or_none(activation.attempt_began_at)
    node = run.plan.node_at(*activation.key) if isinstance(run.plan, Plan) else None
    pool = {} if node is None or node.pool == DEFAULT_POOL else {"pool": node.pool}
    return [{"kind": "worker", **key_as_json, "attempt": activation.attempt, "since": since, "worker": worker, **pool}]


def _arrived_signal(run: RunAsOf, activation: ActivationView) -> _Json:
    """The signal that has arrived for this wait, which takes it when the run continues."""
    for seq, wait in run.state.signals.promises.items():
        if wait.key == activation.key and wait.promised is not None:
            return {"arrived": {"event": wait.promised.event, "seq": seq}}
    return {}


def _iteration(run: RunAsOf, scope: str, budget: _Budget, worker: str | None, depth: int) -> _Json | None:
    if not budget.take():
        return None
    loop_id, outer = loop_of(scope)
    reasons: list[_Json] = []
    if depth > 1:
        for activation in list(run.activations.values()):
            if base_of(activation.scope) == scope and not activation.has_ended:
                reasons += _reasons_of_open(run, activation, budget, worker, depth - 1)
    return {"kind": "iteration", "nodeID": loop_id, "scope": outer, "iteration": scope, "why": reasons}


def _open_scopes(run: RunAsOf, loop: ActivationView) -> list[str]:
    """The iterations of a loop that are open."""
    if not isinstance(run.state, InstanceState):
        return []
    return [scope for scope in run.state.scopes if scope and loop_of(scope) == loop.key]


def _function_reasons(run: RunAsOf, worker: str | None) -> list[_Json]:
    """For a coded run: its function is blocked, or about to run."""
    state = run.state
    if isinstance(state, InstanceState) or state.function is None:
        return []
    function, key_as_json = state.function, {"nodeID": "", "scope": ""}
    due_at = to_iso_or_none(function.due_at)
    if function.blocked:
        return [{"kind": "suspended", "dueAt": due_at}]
    if function.phase is Phase.RETRYING and _is_due_on_resume(run, function.due_at):
        return []
    if function.phase is Phase.RETRYING:
        return [{"kind": "timer", **key_as_json, "dueAt": due_at, "attempt": function.attempt + 1}]
    if function.phase is Phase.DISPATCHED and not _is_only_suspended(run, worker):
        began = to_iso(function.began_at)
        return [{"kind": "worker", **key_as_json, "attempt": function.attempt, "since": began, "worker": worker}]
    return []


def _is_only_suspended(run: RunAsOf, worker: str | None) -> bool:
    """Nobody executes anything of it, and no worker does before it is resumed."""
    return run.state.suspension is not None and worker is None


def _is_due_on_resume(run: RunAsOf, due_at: int | None) -> bool:
    """It was due when the run was suspended: only that keeps it from running."""
    return run.state.suspension is not None and due_at is not None and due_at <= run.suspended_at


def _beginning(run: RunAsOf, worker: str | None) -> _Json:
    head = run.state.head
    if head.available_at > head.created_at:
        return {"kind": "timer", "nodeID": "", "scope": "", "dueAt": to_iso(head.available_at)}
    since = to_iso(head.created_at)
    return {"kind": "worker", "nodeID": "", "scope": "", "attempt": 1, "since": since, "worker": worker}


def _stops(run: RunAsOf, paused_by: _Json | None) -> list[_Json]:
    """Why nothing begins or fires: its workflow or its tenant is paused, or the run itself is suspended."""
    of_more: list[_Json] = []
    if paused_by is not None:
        of_more = [{"kind": "paused", "paused": paused_by["kind"], "by": paused_by["by"], "since": paused_by["since"]}]
    return [*of_more, *_suspension(run)]


def _suspension(run: RunAsOf) -> list[_Json]:
    """Nothing begins or fires before the run is resumed."""
    why = run.state.suspension
    if why is None or run.state.is_terminal:
        return []
    kind = "paused" if why.reason is SuspendReason.PAUSED else "suspended"
    return [{"kind": kind, **suspension(why), "since": to_iso(run.suspended_at)}]


# -- what was not reached -----------------------------------------------------------------------
def _reasons_of_unreached(
    run: RunAsOf, node: PlanNode | None, scope: str, budget: _Budget, worker: str | None, depth: int
) -> list[_Json]:
    """The sources whose edges are undecided, each with its own reasons."""
    if node is None or run.state.is_terminal or not _fits(run, node, scope):
        return []
    if scope and scope not in run.scopes:
        return _reasons_of_iteration_to_come(run, scope, budget, worker, depth)
    reasons = []
    for source_id, source_scope in dict.fromkeys(
        (edge.source, run.scope_of_source(edge, source_scope))
        for edge, source_scope in run.incoming(node.id, scope)
        if run.verdict(edge, source_scope) is Verdict.OPEN
    ):
        if not budget.take():
            break
        source = run.activations.get((source_id, source_scope))
        reason: _Json = {
            "kind": "node",
            "nodeID": source_id,
            "scope": source_scope,
            "status": PENDING if source is None else source.status.value,
        }
        if depth > 1:
            if source is not None:
                reason["why"] = _reasons_of_open(run, source, budget, worker, depth - 1)
            else:
                further = run.plan.node_at(source_id, source_scope) if isinstance(run.plan, Plan) else None
                reason["why"] = _reasons_of_unreached(run, further, source_scope, budget, worker, depth - 1)
        reasons.append(reason)
    return reasons


def _reasons_of_iteration_to_come(
    run: RunAsOf, scope: str, budget: _Budget, worker: str | None, depth: int
) -> list[_Json]:
    """An iteration that has not begun waits for its loop: to open, or for room beside those that are open."""
    if not budget.take():
        return []
    loop_id, outer = loop_of(scope)
    loop = run.activations.get((loop_id, outer))
    status = PENDING if loop is None else loop.status.value
    reason: _Json = {"kind": "node", "nodeID": loop_id, "scope": outer, "status": status}
    if loop is None:
        node = run.plan.nodes.get(loop_id) if isinstance(run.plan, Plan) else None
        further = _reasons_of_unreached(run, node, outer, budget, worker, depth - 1) if depth > 1 else []
        return [{**reason, "why": further}]
    if loop.has_ended or not isinstance(run.plan, Plan):
        return []
    spec, opened = run.plan.nodes[loop_id].loop, _open_scopes(run, loop)
    if spec is not None and len(opened) >= spec.concurrency:
        reason = {"kind": "limit", "nodeID": loop_id, "scope": outer, "limit": "concurrency", "value": spec.concurrency}
    if depth > 1:
        reason["why"] = _reasons_of_open(run, loop, budget, worker, depth - 1)
    return [reason]


def _fits(run: RunAsOf, node: PlanNode, scope: str) -> bool:
    """Whether the node belongs to this scope. The header of a region also represents the region in the enclosing
    scope."""
    body = run.body_of(scope)
    return body is node.home or (node.region is not None and body is node.home.outer)


def _latest_pass(run: RunAsOf, node: PlanNode, scope: str) -> ActivationView | None:
    """The activation of the header of a loop in its latest pass, if the loop has begun in this scope."""
    if node.region is None:
        return None
    before = pass_path(node.id, scope, 1).removesuffix("1")
    passes = (
        activation
        for (node_id, where), activation in run.activations.items()
        if node_id == node.id and where.startswith(before) and where[len(before) :].isdecimal()
    )
    return max(passes, key=lambda each: int(each.scope[len(before) :]), default=None)


# -- who decided --------------------------------------------------------------------------------
def _deciders(run: RunAsOf, node_id: str, scope: str, budget: _Budget) -> Iterator[_Json]:
    """The completed nodes whose handles decided about this one; for a skipped node, found by following its dead
    edges back."""
    wanted = Verdict.DEAD if run.activations[node_id, scope].status is ActivationStatus.SKIPPED else Verdict.LIVE
    seen: set[ActivationKey] = set()
    level = [(node_id, scope)]
    for _ in range(DEPTH_MAX):
        further: list[ActivationKey] = []
        for target in level:
            begun = _begun_instead(run, target)
            if begun is not None and begun.key not in seen and budget.take():
                seen.add(begun.key)
                yield {**_decider(run, begun, ""), "began": True}
            for edge, source_scope in run.incoming(*target):
                source = run.activations.get((edge.source, source_scope))
                if source is None or source.key in seen or run.verdict(edge, source_scope) is not wanted:
                    continue
                seen.add(source.key)
                if source.status is ActivationStatus.SKIPPED:
                    further.append(source.key)
                elif budget.take():
                    yield _decider(run, source, edge.handle)
        level = further
    if wanted is Verdict.DEAD and len(seen) == 0 and (end := _who_abandoned(run, scope)) is not None and budget.take():
        yield _decider(run, end, "")


def _begun_instead(run: RunAsOf, key: ActivationKey) -> ActivationView | None:
    """For an entry point that was skipped: the one that the run began at."""
    assert isinstance(run.plan, Plan), "only drawn runs have entry points"
    entry_points = [run.activations.get((node.id, "")) for node in run.plan.entry_points]
    if all(each is None or each.key != key for each in entry_points):
        return None
    return next((each for each in entry_points if each and each.status is not ActivationStatus.SKIPPED), None)


def _who_abandoned(run: RunAsOf, scope: str) -> ActivationView | None:
    """Why a node is skipped although its edges are not dead: the failure of an iteration, or an End that terminates."""
    assert isinstance(run.plan, Plan), "only drawn runs have nodes"
    failures = [each for each in run.activations.values() if each.is_unhandled and each.scope]
    around = scope
    while around:
        loop_id, outer = loop_of(around)
        spec = run.plan.nodes[loop_id].loop
        fails_together = spec is not None and spec.on_item_error == "fail"
        for failure in failures:
            if failure.scope == around or (fails_together and loop_of(failure.scope) == (loop_id, outer)):
                return failure
        around = outer
    ends = (run.plan.nodes[each.node_id] for each in run.activations.values() if each.has_ended)
    terminating = {node.id for node in ends if node.terminate}
    return next((each for each in run.activations.values() if each.node_id in terminating and each.has_ended), None)


def _decider(run: RunAsOf, source: ActivationView, handle: str) -> _Json:
    seq, taken = _row_and_handle(source, handle)
    found: _Json = {
        "nodeID": source.node_id,
        "scope": source.scope,
        "seq": seq,
        "handle": taken,
        **_condition(run, source, handle),
    }
    if source.error is not None:
        found["error"] = {key: source.error.get(key) for key in ("code", "message")}
    return found


def _row_and_handle(source: ActivationView, handle: str) -> tuple[int, str | None]:
    """The row that decided an edge with this handle, and the exit taken then: a loop leaves by `loop` when it opens."""
    if handle == LOOP_HANDLE and source.is_loop and source.has_iterated:
        return source.opened_seq, handle
    return source.seq, source.next_handle


def _condition(run: RunAsOf, source: ActivationView, handle: str) -> _Json:
    """The expression that decided and its value then: of the edge's branch, otherwise of the branch that was taken."""
    assert isinstance(run.plan, Plan), "only drawn runs have conditions"
    node, context = run.plan.node_at(*source.key), run.contexts.get(source.key)
    if node is None or node.type != CONDITION_TYPE or context is None:
        return {}
    evaluated: dict[str, _Json] = {}
    for branch in node.config.get("branches", ()):
        expression = branch["expression"]
        try:
            value = compile_template(expression).resolve(context) if isinstance(expression, str) else expression
        except AnabranchError:  # the data of that moment did not fit: the branch says so itself, as the node's error
            return {"expression": expression, "value": None}
        evaluated[branch["id"]] = {"expression": expression, "value": _shown(value)}
        if value:
            break
    taken = evaluated.get(source.next_handle or ELSE_HANDLE)
    if handle in evaluated:
        return evaluated[handle]
    if taken is not None:
        return taken
    return list(evaluated.values())[-1] if evaluated else {}


def _shown(value: Any) -> Any:
    """A value for a reason; a large one is cut after the beginning of its JSON."""
    text = orjson.dumps(value, default=str)
    return value if len(text) <= _VALUE_LENGTH_MAX else text[:_VALUE_LENGTH_MAX].decode(errors="ignore") + "…"


# -- sentences ----------------------------------------------------------------------------------
def _edge(run: RunAsOf, edge: Any, scope: str) -> _Json:
    verdict = run.verdict(edge, scope)
    source = run.activations.get((edge.source, scope))
    shown = {"edgeID": edge_id(edge), "from": edge.source, "handle": edge.handle, "verdict": verdict.value}
    if verdict is not Verdict.OPEN and source is not None:
        shown["seq"] = _row_and_handle(source, edge.handle)[0]
    return shown


def edge_id(edge: Any) -> str:
    """The name of an edge: its id, otherwise its JSON pointer."""
    return str(edge.pointer) if edge.id is None else str(edge.id)


def _sentence(activation: ActivationView, answer: _Json, *, is_drawn: bool) -> str:
    name = f"'{activation.node_id}'"
    match activation.status:
        case ActivationStatus.SUCCESS:
            by = f" and left by {activation.next_handle!r}" if activation.next_handle not in (None, "default") else ""
            return f"{name} completed{by}."
        case ActivationStatus.ERROR:
            error = activation.error or {}
            return f"{name} failed: {error.get('code')}: {error.get('message')}"
        case ActivationStatus.CANCELLED:
            return f"{name} was cut off: the run ended before it did."
        case ActivationStatus.SKIPPED if not is_drawn:
            return f"{name} was closed: the function cancelled it, or ended before it did."
        case ActivationStatus.SKIPPED:
            decided = "; ".join(_decision(each) for each in answer["decidedBy"][:3])
            return f"{name} was skipped: {decided or 'none of its incoming edges was live'}."
    return _joined(answer["waitsFor"]) or f"{name} is running."


def _decision(decider: _Json) -> str:
    name = f"'{decider['nodeID']}'"
    if "began" in decider:
        return f"the run began at {name}"
    if "error" in decider:
        return f"{name} failed ({decider['error']['code']})"
    because = f", since {decider['expression']} was {_as_json(decider['value'])}" if "expression" in decider else ""
    return f"{name} left by {decider['handle']!r}{because}"


def _sentence_of_unreached(run: RunAsOf, node_id: str, node: PlanNode | None, scope: str, answer: _Json) -> str:
    name = f"'{node_id}'"
    if node is not None and not _fits(run, node, scope):
        loop, header = node.home.loop, node.home.header
        where = "at the root, with an empty scope" if loop is None else f"in the iterations of '{loop.id}'"
        if header is not None:
            where = f"in the passes of '{header.id}', such as '{pass_path(header.id, '', 1)}'"
        return f"{name} does not run in the scope {scope!r}: it runs {where}."
    if run.state.is_terminal:
        return f"{name} was not reached: the run ended ({run.state.status.value}) before."
    stops = [reason for reason in answer["waitsFor"] if "reason" in reason or "paused" in reason]
    suspended = [_reason_sentence(reason) for reason in stops]
    if suspended:
        return f"{name} has not run yet. {suspended[0]}"
    limits = [_reason_sentence(reason) for reason in answer["waitsFor"] if reason["kind"] == "limit"]
    if limits:
        return f"{name} has not run in {scope} yet: {limits[0]}"
    open_sources = [f"'{reason['nodeID']}'" for reason in answer["waitsFor"]]
    if not open_sources:
        return f"{name} has not been reached."
    verdicts = [edge["verdict"] for edge in answer["edges"]]
    return (
        f"{name} has not run yet: it waits for {_listed(open_sources)} "
        f"(edges: {verdicts.count('live')} live, {verdicts.count('dead')} dead, {verdicts.count('open')} open)."
    )


def _joined(reasons: list[_Json]) -> str:
    return " ".join(_reason_sentence(reason) for reason in reasons[:3])


def _reason_sentence(reason: _Json) -> str:
    name = f"'{reason.get('nodeID')}'"
    until = f" until {reason['dueAt']}" if reason.get("dueAt") else ""
    match reason["kind"]:
        case "signal" if "arrived" in reason:
            event, seq = reason["arrived"]["event"], reason["arrived"]["seq"]
            return f"The signal {event!r} for {name} has arrived (row {seq}): it is delivered when the run goes on."
        case "signal":
            events = list(reason["events"]) if "events" in reason else [reason["event"]]
            return f"{name} waits for the signal {_listed([repr(event) for event in events], 'or')}{until}."
        case "child":
            return f"{name} waits for the end of run {reason['childID']}."
        case "timer" if "error" in reason:
            return f"{name} failed ({reason['error']['code']}) and is tried again at {reason['dueAt']}."
        case "timer":
            return f"{name if reason['nodeID'] else 'The run'} waits{until}."
        case "iteration":
            return f"{name} has not finished the iteration {reason['iteration']}."
        case "paused" if "paused" in reason:
            goes_on = "nothing starts until it is resumed"
            return f"The {reason['paused']} has been paused since {reason['since']} by {reason['by']}: {goes_on}."
        case "paused" | "suspended" if "reason" in reason:
            message = str(reason["message"]).rstrip(".")
            hint = f" {reason['hint']}" if reason["hint"] else ""
            return f"The run has been suspended since {reason['since']} ({reason['reason']}): {message}.{hint}"
        case "suspended":
            return "The code does not match the log, or no worker has it: see the run's note."
        case "limit":
            return f"{name} has as many iterations open as its concurrency allows ({reason['value']})."
        case "worker" if not reason["nodeID"]:
            where = "waits for a worker" if reason["worker"] is None else f"runs on {reason['worker']}"
            return f"The run {where} (since {reason['since']})."
        case "worker":
            if reason["worker"] is None:
                return f"{name} is due (attempt {reason['attempt']}) and waits for a worker."
            where = f", in the pool {reason['pool']!r}" if "pool" in reason else ""
            attempt = f"attempt {reason['attempt']}, since {reason['since']}"
            return f"{name} is running on {reason['worker']}{where} ({attempt})."
    return f"{name} is {reason['status']}."


def _end(run: RunAsOf) -> tuple[str, list[_Json]]:
    outcome = run.state.outcome
    value = None if outcome is None else outcome.value
    if run.state.terminal is Status.COMPLETED:
        return "The run completed.", []
    if run.state.terminal is Status.CANCELLED:
        return f"The run was cancelled: {value}", []
    error = value if isinstance(value, dict) else {}
    key = (error.get("nodeID") or "", error.get("scope") or "")
    failed = run.activations.get(key)
    by = f" at '{key[0]}'" if key[0] else ""
    found = []
    if failed is not None:
        found = [{"nodeID": key[0], "scope": key[1], "seq": failed.seq, "handle": failed.next_handle}]
    return f"The run failed{by}: {error.get('code')}: {error.get('message')}", found


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _listed(names: list[str], word: str = "and") -> str:
    shown = names[:5]
    if len(names) > len(shown):
        return f"{', '.join(shown)} {word} {len(names) - len(shown)} more"
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} {word} {shown[-1]}"
