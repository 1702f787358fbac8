"""`run_workflow`: one run of a drawn workflow in memory, on a clock of its own.

The rules of the engine decide, the real node types execute, and the test answers in place of other systems. Nothing is
stored. When the run can only wait, its clock goes on to what is due next: days of delays take no time.
"""

from __future__ import annotations

import inspect
import json
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, urlsplit

from anabranch.dataclass import dataclass
from anabranch.engine.handler_contract import Helpers
from anabranch.engine.rules.commands import Dispatch
from anabranch.engine.rules.drawn.drawn_state import InstanceState
from anabranch.engine.rules.duration import parse_duration
from anabranch.engine.rules.events import Event
from anabranch.engine.rules.evolve import fold
from anabranch.engine.rules.graph.compile import compile_plan
from anabranch.engine.rules.graph.plan import Plan
from anabranch.engine.rules.graph.validate import refusal_of, validate
from anabranch.engine.rules.history import ActivationStatus, run_end, shown_status
from anabranch.engine.rules.schema.json_schema import ValueSchema
from anabranch.engine.rules.shared.run_state import InstanceHead
from anabranch.engine.rules.stimuli import NodeResult, SignalSent, Started, Stimulus, TimersDue
from anabranch.engine.rules.transitions import LeasedState, Outcome, apply_outcome, plan_transitions
from anabranch.engine.rules.values import Payload
from anabranch.engine.task_worker import outcome_of
from anabranch.errors import InvalidInput
from anabranch.handlers import Services
from anabranch.handlers.registry import load_types
from anabranch.handlers.sandbox import Sandbox
from anabranch.handlers.spec import NodeTypeRegistry
from anabranch.handlers.types.http_port import HttpAnswer, HttpCall
from anabranch.handlers.types.variable_nodes import OF_TENANT
from anabranch.json_input import read_workflow_file

# 2026-01-01T00:00:00Z: when a run of a test begins.
STARTED_AT_MS = 1_767_225_600_000

RUN_ID = "00000000-0000-7000-8000-000000000001"
TENANT = "default"
_WORKER = "test"

# Longer than any workflow waits: nobody else takes the run over.
_LEASE_MS = 10 * 366 * 86_400_000


@dataclass(frozen=True, slots=True)
class Request:
    """A request that an `httpRequest` node sent."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes | None

    @property
    def path(self) -> str:
        """The path of the URL."""
        return urlsplit(self.url).path

    @property
    def query(self) -> dict[str, str]:
        """The query of the URL; of a repeated name the last value."""
        return dict(parse_qsl(urlsplit(self.url).query, keep_blank_values=True))

    @property
    def json(self) -> Any:
        """The body, as JSON; None without a body."""
        return None if self.body is None else json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a server."""

    json: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    """In place of `json`; `headers` then have its content type."""


@dataclass(frozen=True, slots=True)
class Signal:
    """A signal that the run is sent."""

    event: str
    payload: Any = field(default_factory=dict)
    after: str | int = 0
    """How long after the start, as a duration: `"3d"`."""


Server: TypeAlias = Callable[[Request], Any]
"""The network: a function, or an async one, from a request to an Answer, or to the JSON of one with status 200."""

Queries: TypeAlias = Callable[[str, Mapping[str, Any]], Sequence[Mapping[str, Any]]]
"""The saved queries: name and arguments to rows."""


@dataclass(frozen=True, slots=True)
class WorkflowRun:
    """A run of a test, for assertions."""

    status: str
    """`COMPLETED`, `FAILED`, or `WAITING`: for a signal that was not sent."""
    output: Any
    error: dict[str, Any] | None
    completed: Sequence[str]
    """The ids of the nodes that completed, in this order: once for each item, iteration or pass."""
    requests: Sequence[Request]
    duration_ms: int
    """How long it took on its own clock."""


async def run_workflow(
    workflow: str | Path | Mapping[str, Any],
    input: Any = None,  # its name everywhere
    *,
    http: Server | None = None,
    queries: Queries | None = None,
    signals: Sequence[Signal] = (),
) -> WorkflowRun:
    """Run a drawn workflow, a file or a document, until it ends or waits for a signal that is not sent.

    Retries, delays and timeouts of waits happen on the run's own clock; time limits of executions do not apply. Secrets
    have the value `test-NAME`. Nodes that start other workflows fail. Raises InvalidWorkflow and InvalidInput as a save
    and a start do.
    """
    document = read_workflow_file(workflow) if isinstance(workflow, str | Path) else workflow
    sandbox = Sandbox()
    network = _Network(http)
    services = Services(http=network, secrets=_Secrets(), sandbox=sandbox, queries=_SavedQueries(queries),
                        variables=_NothingSet())  # fmt: skip
    types = load_types(services)
    report = validate(document, types)
    if not report.valid:
        raise refusal_of(report.errors)
    plan = compile_plan(document, types, evaluates=False)
    _check_input(plan, input)
    try:
        run = _MemoryRun(plan, types, signals)
        await run.drive(input)
    finally:
        await sandbox.stop()
    return run.result(network.requests)


def _entry_point(plan: Plan) -> str | None:
    """The only entry point where there is no `start`, as test runs choose it; None: `start`."""
    return plan.entry_points[0].id if plan.start is None and len(plan.entry_points) == 1 else None


def _check_input(plan: Plan, value: Any) -> None:
    problems = [] if plan.input_schema is None else list(ValueSchema(plan.input_schema).problems(value))
    if problems:
        pointer, message = problems[0]
        raise InvalidInput(f"the input does not fit the workflow's inputSchema at {pointer or '/'}: {message}")


class _MemoryRun:
    """The run: its state, what it has to execute, and its clock."""

    def __init__(self, plan: Plan, types: NodeTypeRegistry, signals: Sequence[Signal]) -> None:
        self._plan = plan
        self._types = types
        self._now = STARTED_AT_MS
        due = [(self._now + parse_duration(each.after), each) for each in signals]
        self._signals = deque(sorted(due, key=lambda pair: pair[0]))
        self._head = InstanceHead(
            instance_id=RUN_ID,
            tenant_id=TENANT,
            workflow_id=None,
            workflow_name="test",
            workflow_version=1,
            created_at=self._now,
            available_at=self._now,
            deadline_at=None if plan.deadline_ms is None else self._now + plan.deadline_ms,
        )
        self._state = InstanceState(plan, self._head)
        self._leased = LeasedState(self._state, 0, _WORKER, 0)
        self._log: list[Event] = []
        self._jobs: list[Dispatch] = []

    async def drive(self, value: Any) -> None:
        """Until the run ends, or nothing happens any more."""
        stimuli: list[Stimulus] = [Started(Payload.of(value), trigger=_entry_point(self._plan))]
        while stimuli:
            self._decide(stimuli)
            if self._state.status.is_terminal:
                return
            stimuli = [await self._execute(self._jobs.pop(0))] if self._jobs else self._wait()

    def _decide(self, stimuli: Sequence[Stimulus]) -> None:
        planned = plan_transitions([(self._leased, stimuli)], now=self._now, lease_ms=_LEASE_MS, evaluations_max=0)
        for pending in planned.pending_transitions:
            if pending.defect is not None:
                raise pending.defect
        settled = apply_outcome(planned, Outcome(won={RUN_ID}, store_now=self._now))
        for won in settled.won:
            self._log += won.events
            self._jobs = [job for job in (*self._jobs, *won.dispatches) if job not in won.stops]
            if won.parks:  # it leaves the memory of its worker, and comes back as another worker would have it
                self._state = fold(self._plan, self._head, self._log)
                self._leased = LeasedState(self._state, self._leased.version, _WORKER, self._now + _LEASE_MS)

    async def _execute(self, job: Dispatch) -> NodeResult:
        activation = self._state.awaits(job.node_id, job.scope, job.attempt)
        assert activation is not None, f"{job} is executed though nothing awaits it"
        helpers = Helpers(
            instance_id=RUN_ID,
            tenant_id=TENANT,
            node_id=job.node_id,
            workflow_id=None,
            scope=job.scope,
            attempt=job.attempt,
            now_ms=self._now,
            context=activation.context,
        )
        return NodeResult(job.node_id, job.scope, job.attempt, await outcome_of(self._types, activation.node, helpers))

    def _wait(self) -> list[Stimulus]:
        """Let the next thing happen: a signal, or what is due; nothing if there is neither."""
        due = self._state.next_due()
        if self._signals and (due is None or self._signals[0][0] <= due):
            at, signal = self._signals.popleft()
            self._now = max(self._now, at)
            return [SignalSent(signal.event, Payload.of(signal.payload))]
        if due is None:
            return []
        self._now = max(self._now, due)
        return [TimersDue()]

    def result(self, requests: Sequence[Request]) -> WorkflowRun:
        """The run when it has ended."""
        end = run_end(self._log[-1])
        return WorkflowRun(
            status=self._state.status.value,
            output=None if end is None or end.output is None else end.output.value,
            error=None if end is None else end.error,
            completed=[row.node_id for row in self._log if shown_status(row.type) is ActivationStatus.SUCCESS],
            requests=requests,
            duration_ms=self._now - STARTED_AT_MS,
        )


class _Network:
    """`HttpSender`: every host is the test."""

    def __init__(self, server: Server | None) -> None:
        self._server = server
        self.requests: list[Request] = []

    async def fetch(self, call: HttpCall, *, timeout_s: float) -> HttpAnswer:
        """Note the request, and answer it as the test says. Raises AssertionError if the test has no answer."""
        request = Request(call.method, call.url, call.headers, call.body)
        self.requests.append(request)
        if self._server is None:
            raise AssertionError(f"the run sends {call.method} {call.url}: give run_workflow an http that answers")
        answer = self._server(request)
        if inspect.isawaitable(answer):
            answer = await answer
        if not isinstance(answer, Answer):
            answer = Answer(answer)
        headers = {
            "content-type": "application/json",
            **{name.lower(): value for name, value in answer.headers.items()},
        }
        if answer.body is not None:
            return HttpAnswer(answer.status, headers, answer.body, call.url)
        body = b"" if answer.json is None else json.dumps(answer.json).encode()
        return HttpAnswer(answer.status, headers, body, call.url)


class _SavedQueries:
    """`QueryRunner`: every query is the test's."""

    def __init__(self, queries: Queries | None) -> None:
        self._queries = queries

    async def run_query(
        self, *, tenant_id: str, data_query_id: str, args: Mapping[str, Any], as_in_node: bool = False
    ) -> Mapping[str, Any]:
        if self._queries is None:
            raise AssertionError(f"the run asks for {data_query_id}: give run_workflow queries that answer")
        rows = [dict(row) for row in self._queries(data_query_id, args)]
        return {"rows": rows, "rowCount": len(rows)}


class _NothingSet:
    """`VariableStore`: nothing is set, and what the run writes is gone with it."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}

    async def read(
        self, *, tenant_id: str, workflow_id: str | None, names: Collection[str] | None
    ) -> Mapping[str, Any]:
        known = {} if workflow_id == OF_TENANT else self._values
        return {name: value for name, value in known.items() if names is None or name in names}

    async def write(self, *, tenant_id: str, workflow_id: str | None, values: Mapping[str, Any], writer: str) -> None:
        self._values = {name: value for name, value in {**self._values, **values}.items() if value is not None}


class _Secrets:
    """`SecretReader`: every secret exists."""

    async def read(self, tenant_id: str, names: Collection[str]) -> Mapping[str, str]:
        return {name: f"test-{name}" for name in names}
