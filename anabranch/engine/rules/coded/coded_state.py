"""The journal: the state of one coded run, folded from its log.

Plain objects that only `evolve` changes. Ended steps stay in it, because the next call of the function asks for all of
them again.
"""

from __future__ import annotations

from typing import TypeAlias

from anabranch.engine.rules.coded.coded_plan import CodedPlan
from anabranch.engine.rules.coded.names import FUNCTION_KEY, FUNCTION_NODE_ID, Mark, scope_of_attempt
from anabranch.engine.rules.drawn.drawn_state import ContextSnapshot
from anabranch.engine.rules.shared.run_state import InstanceHead, OpenActivation, RunState
from anabranch.engine.rules.values import NULL, Payload
from anabranch.errors import RunError

_NO_CONTEXT = ContextSnapshot(())


class Step(OpenActivation):
    """What the log knows of one call of a step."""

    __slots__ = (
        "arguments",
        "created_in",
        "ended_at",
        "ended_seq",
        "error",
        "first_seq",
        "kind",
        "mark",
        "name",
        "output",
        "scope",
        "seq",
        "step_cancelled",
        "undone_in",
    )

    def __init__(self, name: str, scope: str, mark: Mark, created_in: int, arguments: str | None = None) -> None:
        super().__init__()
        self.name = name
        self.scope = scope
        self.mark = mark
        """What its rows say of where it stands among the others."""
        self.kind = mark.kind
        self.created_in = created_in
        """The attempt of the workflow that its first row was written in."""
        self.arguments = arguments
        """What it was asked for with (`arguments`); None: an older version has not noted it, or it has none."""
        self.first_seq = 0
        """Its first row: its function had asked for it by then."""
        self.seq = 0
        """Its latest row."""
        self.ended_seq = 0
        """The row that ended it; 0 while it is open."""
        self.ended_at = 0
        self.output: Payload = NULL
        self.error: RunError | None = None
        """Its final error."""
        self.step_cancelled = False
        """Its function has cancelled the task that waited for it."""
        self.undone_in = 0
        """The attempt of the workflow in which it failed or was given up; 0: neither."""

    @property
    def place(self) -> tuple[str, str]:
        """Name and scope: the key of the step's activation within the run."""
        return self.name, self.scope

    @property
    def has_ended(self) -> bool:
        """True once it has completed or failed for good."""
        return self.ended_seq > 0


class FunctionActivation(OpenActivation):
    """The workflow function of a coded run, in its current attempt."""

    __slots__ = (
        "began_at",
        "began_seq",
        "blocked",
        "called_by",
        "context",
        "loop_since",
        "node",
        "offers",
        "python",
        "seed",
    )

    def __init__(self, plan: CodedPlan) -> None:
        super().__init__()
        self.node = plan.function
        self.context = _NO_CONTEXT
        """Empty: a workflow function has an input and steps, but no context of a graph."""
        self.began_at = 0
        """When this attempt was dispatched (ms)."""
        self.began_seq = 0
        self.loop_since: int | None = None
        """From which row on this attempt follows the rules of workflow loops; None: an older version recorded it."""
        self.seed: int | None = None
        """What hashes of tasks and random numbers begin with."""
        self.python = ""
        """The version that this attempt began with."""
        self.called_by = 0
        """The row that made it run: one attempt is called many times, and an answer belongs to one call."""
        self.blocked = False
        """Its worker could not continue it; it is offered again when it is due."""
        self.offers = 0
        """How often it was offered without success since a step last ended: its worker did not know it, or it did not
        match the log."""

    @property
    def place(self) -> tuple[str, str]:
        """The key of the function's activation."""
        return FUNCTION_KEY


OpenInCode: TypeAlias = Step | FunctionActivation


class CodedState(RunState[OpenInCode, FunctionActivation]):
    """Everything that decisions about one coded run need, and the results for its function."""

    __slots__ = ("bytes", "endings", "function", "input", "origins", "plan", "steps")

    def __init__(self, plan: CodedPlan, head: InstanceHead) -> None:
        super().__init__(head)
        self.plan = plan
        self.input: Payload = NULL
        """The row that brought it: `{"input": …}`."""
        self.function: FunctionActivation | None = None
        self.steps: dict[tuple[str, str], Step] = {}
        """Every step that has a row, by (name, scope), in the order of their first ones."""
        self.endings: list[Step] = []
        """The steps that have ended, in the order of the rows that ended them."""
        self.origins: tuple[str, ...] = ()
        """Of a fork: the ids of the runs that its first rows were copied from."""
        self.bytes = 0
        """JSON bytes of the input and of all outputs."""

    def activation(self, node_id: str, scope: str) -> OpenInCode | None:
        """The open step, or the function."""
        if node_id == FUNCTION_NODE_ID:
            return self.function
        step = self.steps.get((node_id, scope))
        return None if step is None or step.has_ended else step

    def scope_for(self, name: str, scope: str, *, attempt: int) -> str:
        """The scope that a call is recorded under in this attempt of the workflow.

        Steps that failed or were cancelled in an earlier attempt run again under a new scope; completed ones are found
        under their old one.
        """
        found, latest = scope, self.steps.get((name, scope))
        for number in range(2, attempt + 1):
            again = scope_of_attempt(scope, number)
            step = self.steps.get((name, again))
            if step is not None:
                found, latest = again, step
        if latest is not None and 0 < latest.undone_in < attempt:
            return scope_of_attempt(scope, attempt)
        return found
