"""The log of a drawn run against its graph: every dispatch, skip and ending is derived again.

A row is either a *cause* (a handler has answered, a time has come, a signal has arrived) or a *consequence*: a
dispatch, a skip, the end of a loop or of the run. The consequences of a cause must be the next rows. So at the next
cause no consequence may be missing, and no row may be an unexpected consequence (early, or a duplicate).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from anabranch.engine.rules.callbacks import CALLBACK_TYPE
from anabranch.engine.rules.drawn.scopes import ScopeKey, pass_path, scope_key_of
from anabranch.engine.rules.event_payloads import handled_error, read_error, read_input, read_items, read_trigger
from anabranch.engine.rules.events import DEFAULT_HANDLE, ERROR_HANDLE, ActivationKey, Event, EventType
from anabranch.engine.rules.graph.loop_config import CURSOR_POSITION
from anabranch.engine.rules.graph.plan import AGAIN, Plan, PlanNode
from anabranch.engine.rules.shared.left_out import Ranges
from anabranch.engine.rules.shared.run_state import InstanceHead
from anabranch.engine.rules.templates.budget import TemplateBudget
from anabranch.engine.rules.templates.builtin_variables import Facts
from anabranch.engine.rules.values import NULL, Payload, json_equal
from anabranch.engine.rules.verify.checked_scopes import (
    CheckedContext,
    CheckedLoop,
    CheckedReadiness,
    CheckedRegion,
    CheckedScope,
    Derived,
    Edges,
    exit_handle,
    failure_handle,
    merged,
    region_failure_handle,
)
from anabranch.engine.rules.verify.finding import FindingCode
from anabranch.engine.rules.verify.run_check import CheckedActivation, RunCheck

_DELAY_TYPE = "delay"
_WAIT_TYPE = "waitForEvent"

# Failures that the engine adds to the result of a node.
_ADDED_FAILURES = frozenset({"CONTEXT_TOO_LARGE", "VALUE_TOO_LARGE", "VALUE_NOT_STORABLE"})


class DrawnCheck(RunCheck):
    """Checks the log of one drawn run."""

    def __init__(self, plan: Plan, head: InstanceHead, left_out: Ranges) -> None:
        super().__init__(head, left_out)
        self._plan = plan
        self._edges = Edges(plan)
        self._root = CheckedScope("", plan.root)
        self._scopes: dict[str, CheckedScope] = {"": self._root}
        self._loops: dict[ActivationKey, CheckedLoop] = {}
        self._regions: dict[ActivationKey, CheckedRegion] = {}
        """Those that have begun and not ended, by header and the scope around them."""
        self._owed: dict[ActivationKey, CheckedReadiness] = {}
        """What has to be dispatched or skipped before anything else happens."""
        self._derived: dict[ActivationKey, Derived] = {}
        """The outcomes of open pure nodes."""
        self._contexts: dict[ActivationKey, CheckedContext] = {}
        """What pure nodes see: the same in every attempt, but for the time."""
        self._ends: list[tuple[str | None, Event]] = []
        self._must_fail: Event | None = None
        """The unhandled failure that ends the run."""
        self._is_terminating = False
        self._entry_point: PlanNode | None = None
        """Where the run was started."""
        self._unwaited: list[Event] = []
        """Delays and waits that completed at once: right only where their outcomes were copied by a fork."""

    def passed_over(self, event: Event) -> None:
        """Do nothing: a row that was left out changes nothing."""

    # -- rows -----------------------------------------------------------------------------
    def begin(self, event: Event) -> None:
        """Take INPUT_SET."""
        self._entry_point = self._plan.entry_point_by_trigger.get(read_trigger(event.payload))
        self._root.names["input"] = [(event.seq, read_input(event.payload))]
        self._root.bytes += event.payload.weight

    def take_activation(self, event: Event) -> None:
        """Take a row about a node."""
        if event.type is EventType.FORKED_FROM:
            self._unwaited.clear()  # outcomes that were copied have no waits
        if event.type in (EventType.SYSTEM_SET, EventType.INSTANCE_RECOVERED) or not event.node_id:
            return
        node = self._plan.node_at(event.node_id, event.scope)
        if node is None:
            self.note(FindingCode.ROW_UNEXPECTED, event, f"the graph has no node '{event.node_id}' that can be reached")
            return
        self._check_variable(event, node)
        match event.type:
            case EventType.NODE_DISPATCHED:
                self._dispatch(event, node)
            case EventType.NODE_SKIPPED:
                self._skip(event, node)
            case EventType.NODE_COMPLETED:
                self._complete(event, node)
            case EventType.NODE_FAILED:
                self._fail(event, node)
            case EventType.NODE_ATTEMPT_FAILED:
                self._attempt_failed(event, node)
            case EventType.NODE_WAITING:
                self._wait(event, node)
            case EventType.LOOP_OPENED:
                self._open_loop(event, node)

    def _check_variable(self, event: Event, node: PlanNode) -> None:
        """Check the column that repeats the node's variable: not all rows have it, but those that complete it do."""
        written, expected = event.output_variable, node.output_variable
        if written != expected and (written is not None or event.type is EventType.NODE_COMPLETED):
            message = f"'{node.id}' is recorded with the variable {written!r}, and writes {expected!r}"
            self.note(FindingCode.RESULT_DIFFERS, event, message)

    def finish(self) -> None:
        """Check that nothing is missing at the end of the log: consequences are committed with their cause."""
        for event in self._unwaited:
            self.note(FindingCode.RESULT_UNEXPECTED, event, f"'{event.node_id}' completes without having waited")
        self.findings.sort(key=lambda finding: finding.seq)
        if self.last is not None and self.ended is None and not self.awaits_turn:
            self._nothing_is_owed(self.last)
            if self._root.is_over and self._root.handles:
                self.note(
                    FindingCode.END_MISSING, self.last, "everything in the run has ended, and the run has not", ("", "")
                )

    # -- dispatches -----------------------------------------------------------------------
    def _dispatch(self, event: Event, node: PlanNode) -> None:
        key = (event.node_id, event.scope)
        account = self.dispatched(event)
        if account is not None or key in self.endings:
            if account is not None and key in self._contexts:
                self._contexts[key].facts = self._facts(event.created_at)
                self._derived[key] = self._evaluate(node, self._contexts[key])
            return
        if event.scope not in self._scopes and not self._open_scope(event, event.scope):
            return
        scope = self._scopes[event.scope]
        if scope.body is not node.home:
            self.note(FindingCode.ROW_UNEXPECTED, event, f"'{node.id}' does not live in scope {event.scope!r}")
            return
        owed = self._owed.pop(key, None)
        if node is self._entry_point and not event.scope:
            for other in self._plan.entry_points:
                if other is not node:
                    self._owe(other, scope, CheckedReadiness.SKIP)
        elif self._must_fail is not None or self._is_terminating:
            self.note(FindingCode.DISPATCH_UNEXPECTED, event, f"'{node.id}' is dispatched while the run ends")
        elif owed is CheckedReadiness.SKIP:
            self.note(FindingCode.DISPATCH_UNEXPECTED, event, f"'{node.id}' is dispatched and was to be skipped")
        elif owed is None and node.region is not None:
            self.note(FindingCode.DISPATCH_UNEXPECTED, event, f"{event.scope} begins, and nothing leads to it")
        elif owed is None:
            readiness = scope.readiness(node, self._edges)
            if readiness is not CheckedReadiness.DISPATCH:
                code = (
                    FindingCode.DISPATCH_EARLY
                    if readiness is CheckedReadiness.OPEN
                    else FindingCode.DISPATCH_UNEXPECTED
                )
                verdicts = "are not all decided" if readiness is CheckedReadiness.OPEN else "are all dead"
                self.note(code, event, f"'{node.id}' is dispatched while its incoming edges {verdicts}")
        scope.dispatched.add(node.id)
        self.open[key] = CheckedActivation(key, event.attempt, event, event.created_at)
        if node.evaluate is not None:
            self._contexts[key] = self._context(node, scope, event)
            self._derived[key] = self._evaluate(node, self._contexts[key])

    def _open_scope(self, event: Event, path: str) -> bool:
        """Open the iteration or pass in which this row is the first."""
        try:
            scope_key = scope_key_of(path)
        except ValueError:
            self.note(FindingCode.ITERATION_UNEXPECTED, event, f"there is no scope {path!r}")
            return False
        if scope_key.is_pass:
            return self._open_pass(event, path, scope_key)
        return self._open_iteration(event, path, scope_key)

    def _open_pass(self, event: Event, path: str, scope_key: ScopeKey) -> bool:
        if scope_key.scope not in self._scopes and not self._open_scope(event, scope_key.scope):
            return False
        header, outer = self._plan.nodes.get(scope_key.node_id), self._scopes[scope_key.scope]
        if header is None or header.region is None or header.home.outer is not outer.body or header.id in outer.handles:
            self.note(FindingCode.ITERATION_UNEXPECTED, event, f"{path} begins, but is not a pass of an open loop")
            return False
        region = self._regions.setdefault((header.id, outer.path), CheckedRegion(header, outer))
        if region.open_pass is not None or scope_key.index != region.number + 1:
            message = f"{path} begins, and the next pass of '{header.id}' is {region.number + 1}"
            self.note(FindingCode.ITERATION_UNEXPECTED, event, message)
            return False
        scope = CheckedScope(path, header.home, outer)
        region.open_pass, region.number, region.is_again = scope, scope_key.index, False
        outer.dispatched.add(header.id)
        self._scopes[path] = scope
        return True

    def _open_iteration(self, event: Event, path: str, scope_key: ScopeKey) -> bool:
        loop_id, outer, index = scope_key.node_id, scope_key.scope, scope_key.index
        loop = self._loops.get((loop_id, outer))
        if loop is None or (loop_id, outer) in self.endings:
            self.note(FindingCode.ITERATION_UNEXPECTED, event, f"{path} begins while its loop is not open")
            return False
        if index != loop.next_index:
            message = f"{path} begins, and the next iteration of '{loop_id}' is {loop.next_index}"
            self.note(FindingCode.ITERATION_UNEXPECTED, event, message)
            if loop.items is not None and index >= len(loop.items):
                return False
        elif (more := loop.goes_on()) is not True:
            why = (
                "has no more items"
                if loop.items is not None
                else f"does not go on ({more or 'its condition is false'})"
            )
            self.note(FindingCode.ITERATION_UNEXPECTED, event, f"{path} begins although '{loop_id}' {why}")
            if loop.items is not None:
                return False
        if len(loop.unfinished) >= loop.spec.concurrency or loop.error is not None:
            why = (
                f"{len(loop.unfinished)} iterations are open"
                if loop.error is None
                else f"the loop fails ({loop.error})"
            )
            self.note(FindingCode.ITERATION_UNEXPECTED, event, f"{path} begins although {why}")
        scope = CheckedScope(path, loop.spec.body, loop.scope, (loop_id, outer), index, loop.bindings(index))
        loop.next_index = index + 1
        loop.unfinished[index] = self._scopes[path] = scope
        for each in scope.body.nodes:
            if scope.readiness(each, self._edges) is CheckedReadiness.DISPATCH:
                self._owe(each, scope, CheckedReadiness.DISPATCH)
        return True

    def _evaluate(self, node: PlanNode, context: CheckedContext) -> Derived:
        assert node.evaluate is not None
        try:
            output, handle = node.evaluate(context, TemplateBudget())
            payload = Payload.of(output, bytes_max=node.output_bytes_max)
        except Exception as failure:  # noqa: BLE001 -- as a decision does: whatever it raises is the node's failure
            return Derived(error=getattr(failure, "code", None) or "HANDLER_ERROR")
        return Derived(payload, DEFAULT_HANDLE if handle is None and node.exits else handle)

    def _context(self, node: PlanNode, scope: CheckedScope, event: Event) -> CheckedContext:
        """The context of a node in its first attempt; in further ones only the time differs."""
        facts, region = self._facts(event.created_at), self._region_of(scope)
        if not node.is_cursor:
            return CheckedContext(scope, facts, before=event.seq)
        position = 0 if region is None else region.positions.get(node.id, 0)
        return CheckedContext(scope, facts, {CURSOR_POSITION: position}, before=event.seq)

    def _facts(self, now_ms: int) -> Facts:
        return Facts(now_ms, self.head.instance_id, self.head.workflow_name)

    def _region_of(self, scope: CheckedScope) -> CheckedRegion | None:
        """The region that a scope is a pass of."""
        if scope.body.header is None or scope.outer is None:
            return None
        return self._regions[scope.body.header.id, scope.outer.path]

    # -- skips ----------------------------------------------------------------------------
    def _skip(self, event: Event, node: PlanNode) -> None:
        key = (event.node_id, event.scope)
        scope = self._scopes.get(event.scope)
        if key in self.endings:
            self.answered(event)
            return
        is_region = scope is not None and node.region is not None and node.home.outer is scope.body
        if scope is None or (scope.body is not node.home and not is_region):
            self.note(
                FindingCode.SKIP_UNEXPECTED, event, f"'{node.id}' is skipped in {event.scope!r}, which is not open"
            )
            return
        account = self.open.get(key)
        owed = self._owed.pop(key, None)
        is_open = key in self._regions if is_region else account is not None
        is_derived = owed is CheckedReadiness.SKIP or (self._is_terminating and is_open)
        if not is_derived and not (account is None and scope.readiness(node, self._edges) is CheckedReadiness.SKIP):
            why = "it is open" if account is not None else "not all of its incoming edges are dead"
            self.note(FindingCode.SKIP_UNEXPECTED, event, f"'{node.id}' is skipped although {why}")
        if account is not None and event.attempt != account.attempt:
            self.note(
                FindingCode.SKIP_UNEXPECTED,
                event,
                f"attempt {event.attempt} of '{node.id}' is skipped, open is {account.attempt}",
            )
        self._leave(event, node, scope, None)

    # -- results --------------------------------------------------------------------------
    def _complete(self, event: Event, node: PlanNode) -> None:
        key = (event.node_id, event.scope)
        account = self._cause(event)
        if account is None:
            return
        scope = self._scopes[event.scope]
        derived = self._loop_result(event, key) if key in self._loops else self._derived.get(key)
        if derived is not None:
            self._compare(event, node, derived)
        elif node.given is not None:
            self._compare(event, node, Derived(node.given.output, node.given.handle))
        elif account.is_waiting:
            self.check_wait_over(event, account)
        elif node.type in (_DELAY_TYPE, _WAIT_TYPE, CALLBACK_TYPE):
            self._unwaited.append(event)
        elif node.knows_exits and event.next_handle not in node.exits and (event.next_handle is not None or node.exits):
            self.note(FindingCode.HANDLE_DIFFERS, event, f"'{node.id}' has no handle {event.next_handle!r}")
        base = scope.base
        base.bytes += event.payload.weight
        self._write(base, node, event.seq, event.payload.value)
        region = self._region_of(scope) if node.is_cursor else None
        if region is not None and isinstance(event.payload.value, list):
            region.positions[node.id] = region.positions.get(node.id, 0) + len(event.payload.value)
        if event.next_handle in node.back_handles:
            base.back = event.payload
        if node.is_sink and base.outer is not None:
            base.sinks.pop(node.id, None)
            base.sinks[node.id] = (node, event.payload)
        if node.is_end and (base.outer is None or node.terminate):
            self._ends.append((node.end_name, event))
        self._leave(event, node, scope, event.next_handle, event.payload)
        if node.terminate:
            self._is_terminating = True
            self._owed.clear()

    def _compare(self, event: Event, node: PlanNode, derived: Derived) -> None:
        """Compare the recorded result of a node with the derived one."""
        if derived.error is not None:
            self.note(FindingCode.RESULT_DIFFERS, event, f"'{node.id}' completes, but evaluates to {derived.error}")
        elif not json_equal(derived.output.value, event.payload.value):
            message = f"'{node.id}' is recorded with {event.payload.excerpt}, but evaluates to {derived.output.excerpt}"
            self.note(FindingCode.RESULT_DIFFERS, event, message)
        elif derived.handle != event.next_handle:
            message = f"'{node.id}' is recorded as leaving by {event.next_handle!r}, and leaves by {derived.handle!r}"
            self.note(FindingCode.HANDLE_DIFFERS, event, message)

    def _loop_result(self, event: Event, key: ActivationKey) -> Derived:
        """The result of a loop, if it is over."""
        loop = self._loops[key]
        if not loop.spec.body.nodes:
            loop.run_empty()
        elif loop.error is None and not loop.unfinished:
            more = loop.goes_on()
            if isinstance(more, str):
                loop.error = more
            elif more:
                what = (
                    "its condition holds"
                    if loop.items is None
                    else f"{len(loop.items) - loop.next_index} items are left"
                )
                self.note(FindingCode.ITERATION_UNEXPECTED, event, f"'{key[0]}' ends although {what}")
        if loop.unfinished:
            self.note(
                FindingCode.RESULT_UNEXPECTED,
                event,
                f"'{key[0]}' ends while {len(loop.unfinished)} iterations are open",
            )
        return loop.derived()

    def _fail(self, event: Event, node: PlanNode) -> None:
        key = (event.node_id, event.scope)
        region = self._regions.get(key)
        if region is not None:
            self._fail_region(event, region)
            return
        account = self._cause(event)
        if account is None:
            return
        scope, error = self._scopes[event.scope], read_error(event.payload)
        derived = self._loop_result(event, key) if key in self._loops else self._derived.get(key)
        if derived is not None and derived.error != error["code"] and error["code"] not in _ADDED_FAILURES:
            outcome = derived.error or f"the output {derived.output.excerpt}"
            self.note(
                FindingCode.RESULT_DIFFERS, event, f"'{node.id}' fails with {error['code']}, but evaluates to {outcome}"
            )
        self._failed(event, node, scope, failure_handle(node))

    def _fail_region(self, event: Event, region: CheckedRegion) -> None:
        """Fail a region that needs another pass beyond its limit."""
        node = region.node
        assert node.region is not None
        self._owed.pop(region.key, None)
        if region.open_pass is not None or region.number < node.region.passes_max:
            message = f"the loop at '{node.id}' fails in pass {region.number} of at most {node.region.passes_max}"
            self.note(FindingCode.RESULT_UNEXPECTED, event, message)
        self._failed(event, node, region.scope, region_failure_handle(node))

    def _failed(self, event: Event, node: PlanNode, scope: CheckedScope, handle: str | None) -> None:
        """Apply a failure and derive what follows."""
        base, error, left = scope.base, read_error(event.payload), NULL
        if event.next_handle != handle:
            self.note(
                FindingCode.HANDLE_DIFFERS, event, f"'{node.id}' fails by {event.next_handle!r}, not by {handle!r}"
            )
        if handle == ERROR_HANDLE:
            folded = handled_error(error)
            left = Payload.trusted(folded)
            base.bytes += event.payload.weight
            self._write(base, node, event.seq, folded)
        elif handle is not None:
            self._write(base, node, event.seq, None)
        elif node.error_handling == "fail_workflow" or base.outer is None:
            self._must_fail = event
            self._owed.clear()
        else:
            base.error = error
        if handle in node.back_handles:
            base.back = left
        self._leave(event, node, scope, handle, left)
        if handle is None and self._must_fail is None:
            self._abandon(base)

    def _attempt_failed(self, event: Event, node: PlanNode) -> None:
        account = self._cause(event)
        if account is None:
            return
        key = f"{self.head.instance_id}/{event.scope}/{node.id}"
        earliest = event.created_at + node.retry.delay_ms(event.attempt - account.redone_after, key=key)
        self.attempt_failed(event, account, attempts_max=node.retry.max_attempts, earliest=earliest)

    def _wait(self, event: Event, node: PlanNode) -> None:
        account = self._cause(event)
        if account is None:
            return
        self.waiting(event, account)
        configured = node.config.get("event") if node.type == _WAIT_TYPE else None
        if isinstance(configured, str) and "{" not in configured and configured not in (account.events or {}):
            self.note(FindingCode.SIGNAL_DIFFERS, event, f"'{node.id}' waits for something else than {configured!r}")
        if node.type == _DELAY_TYPE and account.delay is not None and account.delay.output is not None:
            delayed_ms = account.delay.output.value["delayedMs"]
            if account.delay.due_at < event.created_at + delayed_ms:
                self.note(FindingCode.TIMER_EARLY, event, f"'{node.id}' is due before its {delayed_ms} ms are over")

    def _open_loop(self, event: Event, node: PlanNode) -> None:
        account = self._cause(event)
        if account is None:
            return
        key, items = (event.node_id, event.scope), read_items(event.payload)
        account.row = event
        if node.loop is None or key in self._loops:
            self.note(FindingCode.RESULT_UNEXPECTED, event, f"'{node.id}' opens, but is not a loop that may open")
            return
        derived = self._derived.pop(key, None)
        if derived is not None and derived.error is not None:
            self.note(FindingCode.RESULT_DIFFERS, event, f"'{node.id}' opens, but evaluates to {derived.error}")
        elif derived is not None and node.loop.mode == "forEach" and not json_equal(derived.output.value, items):
            self.note(FindingCode.RESULT_DIFFERS, event, f"'{node.id}' opens with other items than its source has")
        facts = self._facts(account.dispatched_at)
        loop = self._loops[key] = CheckedLoop(node, self._scopes[event.scope], account.attempt, items, facts)
        if items == [] and loop.spec.mode == "forEach":
            self._owed[key] = CheckedReadiness.OPEN

    # -- what follows ---------------------------------------------------------------------
    def _cause(self, event: Event) -> CheckedActivation | None:
        """Take a cause: everything that was due before it must have been written."""
        key = (event.node_id, event.scope)
        if self._owed.get(key) is CheckedReadiness.OPEN:
            del self._owed[key]
        if key not in self._loops:
            self._nothing_is_owed(event)
        account = self.answered(event)
        if account is not None and event.scope not in self._scopes:
            self.note(FindingCode.RESULT_UNEXPECTED, event, f"{event.type.value} in {event.scope}, which is not open")
            return None
        return account

    def _nothing_is_owed(self, event: Event) -> None:
        for key, readiness in self._owed.items():
            node_id, scope = key
            shown = f"'{node_id}'" + (f" in {scope}" if scope else "")
            if readiness is CheckedReadiness.OPEN:
                self.note(
                    FindingCode.END_MISSING, event, f"the loop {shown} has nothing left to do, and has not ended", key
                )
            elif readiness is CheckedReadiness.SKIP:
                self.note(FindingCode.SKIP_MISSING, event, f"{shown} was to be skipped before row {event.seq}", key)
            else:
                self.note(
                    FindingCode.DISPATCH_MISSING, event, f"{shown} was to be dispatched before row {event.seq}", key
                )
        self._owed.clear()

    def _leave(
        self, event: Event, node: PlanNode, scope: CheckedScope, handle: str | None, left: Payload = NULL
    ) -> None:
        """End an activation or a region: decide its targets, and perhaps the enclosing scope."""
        key = (event.node_id, event.scope)
        self.close(event, self.open.get(key))
        self._derived.pop(key, None)
        self._forget_iterations(key)
        if node.region is not None and node.home is not scope.body:
            exits = enumerate(node.region.exits) if handle is not None else ()
            self._end_region(
                node, scope, {number: left for number, each in exits if (each.source, each.handle) == (node, handle)}
            )
            return
        scope.handles[node.id] = frozenset() if handle is None else frozenset((handle,))
        if node.leaving:
            region = self._region_of(scope)
            assert region is not None
            for edge in node.leaving:
                if edge.handle == handle:
                    region.left_by(edge.exit, left)
        self._decide([edge.target for edge in node.edges], scope)

    def _decide(self, targets: Iterable[PlanNode], scope: CheckedScope) -> None:
        """Decide what follows in a scope from new verdicts of edges to these nodes."""
        if self._must_fail is None and not self._is_terminating:
            for target in dict.fromkeys(targets):
                if target.id not in scope.handles and target.id not in scope.dispatched:
                    readiness = scope.readiness(target, self._edges)
                    if readiness is not CheckedReadiness.OPEN:
                        self._owe(target, scope, readiness)
        if not scope.is_over:
            return
        if scope.loop_key is not None:
            self._close_iteration(scope)
        elif scope.body.header is not None and scope.outer is not None:
            self._close_pass(self._regions[scope.body.header.id, scope.outer.path])

    def _owe(self, node: PlanNode, scope: CheckedScope, readiness: CheckedReadiness) -> None:
        """Expect a dispatch or skip of a node; a region begins with the dispatch of its header in a pass."""
        path = scope.path
        if readiness is CheckedReadiness.DISPATCH and node.region is not None and node.home is not scope.body:
            path = pass_path(node.id, path, 1)
        self._owed.setdefault((node.id, path), readiness)

    def _close_pass(self, region: CheckedRegion) -> None:
        assert region.open_pass is not None and region.node.region is not None
        del self._scopes[region.open_pass.path]
        region.open_pass = None
        if not region.is_again:
            self._end_region(region.node, region.scope, region.exits)
        elif self._must_fail is not None or self._is_terminating:
            return
        elif region.scope.base.is_abandoned:
            self._owed[region.key] = CheckedReadiness.SKIP
        elif region.number >= region.node.region.passes_max:
            self._owed[region.key] = CheckedReadiness.OPEN
        else:
            self._owed[region.node.id, pass_path(*region.key, region.number + 1)] = CheckedReadiness.DISPATCH

    def _end_region(self, header: PlanNode, scope: CheckedScope, live: Mapping[int, Payload]) -> None:
        """Give each exit of a region its verdict, in the enclosing scope."""
        assert header.region is not None
        region = self._regions.pop((header.id, scope.path), None)
        if region is not None and region.open_pass is not None:
            del self._scopes[region.open_pass.path]
        scope.handles[header.id] = frozenset(map(exit_handle, live))
        for number, output in live.items():
            leaving = header.region.exits[number]
            if leaving.returns:
                scope.base.back = output
            elif leaving.target is None:
                around = self._region_of(scope)
                assert around is not None
                around.left_by(AGAIN if leaving.outer is None else leaving.outer, output)
        self._decide([each.target for each in header.region.exits if each.target is not None], scope)

    def _forget_iterations(self, key: ActivationKey) -> None:
        loop = self._loops.get(key)
        if loop is not None:
            for scope in loop.unfinished.values():
                self._scopes.pop(scope.path, None)

    def _close_iteration(self, scope: CheckedScope) -> None:
        assert scope.loop_key is not None
        del self._scopes[scope.path]
        loop = self._loops[scope.loop_key]
        loop.closed(scope)
        if self._must_fail is not None or self._is_terminating or scope.loop_key in self.endings:
            return
        if loop.error is not None:
            for other in list(loop.unfinished.values()):
                self._abandon(other)
        if not loop.unfinished and (
            loop.error is not None or (loop.items is not None and loop.next_index >= len(loop.items))
        ):
            self._owed.setdefault(scope.loop_key, CheckedReadiness.OPEN)

    def _abandon(self, scope: CheckedScope) -> None:
        """Expect a skip of everything open or undecided in an iteration."""
        for each in self._within(scope):
            each.is_abandoned = True
            for node in each.undecided():
                region = self._regions.get((node.id, each.path))
                is_pass = region is not None and node.home is not each.body
                if region is None or not is_pass:
                    if node.region is not None:  # its first pass is not to begin any more
                        self._owed.pop((node.id, pass_path(node.id, each.path, 1)), None)
                    self._owed[node.id, each.path] = CheckedReadiness.SKIP
                elif region.open_pass is None:  # its next pass was due, and is dropped
                    self._owed.pop((node.id, pass_path(*region.key, region.number + 1)), None)
                    self._owed[node.id, each.path] = CheckedReadiness.SKIP

    def _within(self, scope: CheckedScope) -> Iterator[CheckedScope]:
        yield scope
        for (_, outer), loop in self._loops.items():
            if outer == scope.path:
                for inner in list(loop.unfinished.values()):
                    yield from self._within(inner)
        for (_, outer), region in list(self._regions.items()):
            if outer == scope.path and region.open_pass is not None:
                yield from self._within(region.open_pass)

    def _write(self, scope: CheckedScope, node: PlanNode, seq: int, value: object) -> None:
        scope.names.setdefault("__node_" + node.id, []).append((seq, value))
        if node.is_input:
            scope.names.setdefault("input", []).append((seq, value))
        if node.output_variable is not None:
            scope.names.setdefault(node.output_variable, []).append((seq, value))

    # -- the end --------------------------------------------------------------------------
    def check_completed(self, event: Event) -> None:
        """Check that everything in the root has ended, or that an End has terminated the run."""
        self._nothing_is_owed(event)
        if self._must_fail is not None:
            self.note(
                FindingCode.END_UNEXPECTED,
                event,
                f"the run completes although '{self._must_fail.node_id}' has failed it",
            )
        elif not self._is_terminating and not self._root.is_over:
            undecided = ", ".join(sorted(f"'{node.id}'" for node in self._root.undecided())[:5])
            self.note(FindingCode.END_UNEXPECTED, event, f"the run completes although {undecided} has not ended")
        elif self._is_terminating and self.open:
            self.note(
                FindingCode.SKIP_MISSING, event, f"the run is terminated, and {len(self.open)} nodes are open still"
            )
        try:
            output = merged(self._ends)
        except TypeError:
            return  # the rows of its End nodes were noted before
        if not json_equal(output, event.payload.value):
            self.note(
                FindingCode.OUTPUT_DIFFERS,
                event,
                f"the output of the run is {event.payload.excerpt}, not {Payload.trusted(output).excerpt}",
            )

    def check_failed(self, event: Event) -> None:
        """Check that the error is the unhandled failure right before."""
        failed = self._must_fail
        if failed is None or not json_equal(read_error(failed.payload), event.payload.value):
            code = event.payload.value["code"]
            self.note(
                FindingCode.END_UNEXPECTED, event, f"the run fails with {code}, not an unhandled failure of a node"
            )
