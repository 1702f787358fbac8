"""Check the log of a coded run: what holds for every log, and the order of its function's calls.

Only the code knows what the function does next: `durable.history_replay` calls it with this log.
"""

from __future__ import annotations

from anabranch.engine.rules.coded.coded_plan import CodedPlan
from anabranch.engine.rules.coded.names import FUNCTION_KEY, FUNCTION_NODE_ID, StepKind, is_step_name
from anabranch.engine.rules.event_payloads import (
    FunctionPaused,
    FunctionPostponed,
    LeftBehind,
    read_retry_time,
    read_system,
    read_wait,
)
from anabranch.engine.rules.events import ENDINGS, ActivationKey, Event, EventType
from anabranch.engine.rules.shared.left_out import Ranges
from anabranch.engine.rules.shared.run_state import InstanceHead
from anabranch.engine.rules.verify.finding import FindingCode
from anabranch.engine.rules.verify.run_check import CheckedActivation, RunCheck

_TIMER_PREFIX = "@"

# Rows of steps after which a function that only waits is called.
_CALLING = ENDINGS | {EventType.NODE_DISPATCHED}


class CodedCheck(RunCheck):
    """Checks the log of one coded run."""

    def __init__(self, plan: CodedPlan, head: InstanceHead, left_out: Ranges) -> None:
        super().__init__(head, left_out)
        self._plan = plan
        self._attempt = 0
        """The workflow's attempt."""
        self._is_running = False
        """May the function be called now?"""
        self._was_reopened = False
        """Was the run that this one was forked from retried? Its rows do not say whether the function's attempt goes
        on, as after a cancel, or another is due."""
        self._must_suspend: Event | None = None
        """A failure of the function after which the run has to be suspended."""
        self._kinds: dict[ActivationKey, StepKind] = {}

    def passed_over(self, event: Event) -> None:
        """Take a row that was left out: a failed step that is repeated stays known, although it may have no other
        row."""
        key = (event.node_id, event.scope)
        if event.type is EventType.NODE_FAILED and key not in self.open:
            self._first_row(event, key)
            self.open[key] = CheckedActivation(key, event.attempt, event)

    def begin(self, event: Event) -> None:
        """Take INPUT_SET."""

    def take_activation(self, event: Event) -> None:
        """Take a row about a step or the function."""
        if event.type is EventType.SYSTEM_SET:
            self._take_note(event)
        elif event.type in (EventType.INSTANCE_RECOVERED, EventType.FORKED_FROM):
            return
        elif event.node_id == FUNCTION_NODE_ID:
            self._function(event)
        else:
            self._step(event)

    def _take_note(self, event: Event) -> None:
        recorded = read_system(event.payload)
        function = self.open.get(FUNCTION_KEY)
        if isinstance(recorded, FunctionPostponed):
            self._is_running = False
        elif recorded == LeftBehind(EventType.INSTANCE_REOPENED) and function is not None:
            function.is_retrying, function.redone_after = True, self._attempt
            self._was_reopened = self._is_running = True
        elif isinstance(recorded, LeftBehind) and recorded.event_type in _CALLING:
            self._called_by_step()

    # -- the function ---------------------------------------------------------------------
    def _function(self, event: Event) -> None:
        match event.type:
            case EventType.NODE_DISPATCHED:
                self._function_dispatched(event)
            case EventType.NODE_WAITING:
                self._goes_on(event)
                recorded = read_wait(event.payload)
                if event.attempt != self._attempt or not isinstance(recorded, FunctionPaused):
                    self.note(FindingCode.RESULT_UNEXPECTED, event, "what waits is not the function's present attempt")
                else:
                    self._is_running = recorded.ready
            case EventType.NODE_ATTEMPT_FAILED:
                self._goes_on(event)
                account = self.open.get(FUNCTION_KEY)
                if account is None or event.attempt != self._attempt or not self._is_running:
                    self.note(
                        FindingCode.RESULT_UNEXPECTED,
                        event,
                        f"attempt {event.attempt} of the workflow fails, and is not running",
                    )
                    return
                self._function_failed(event, account)
                self._is_running = False
            case _:
                self.note(
                    FindingCode.ROW_UNEXPECTED, event, f"{event.type.value} of the function: it ends with the run"
                )

    def _goes_on(self, event: Event) -> None:
        """Take it that no other attempt was due, if this is a row of the present one."""
        account = self.open.get(FUNCTION_KEY)
        if self._was_reopened and account is not None and event.attempt == self._attempt:
            self._was_reopened = account.is_retrying = False

    def _function_failed(self, event: Event, account: CheckedActivation) -> None:
        """Another attempt is due: by the workflow's retry, or, if the run is suspended, at once on resume."""
        if event.seq <= self.copied_to:  # by another version's retry, and with the jitter of another run
            self.attempt_failed(event, account, attempts_max=None, earliest=None)
            return
        attempts, policy = event.attempt - account.redone_after, self._plan.retry
        delay_ms = policy.delay_ms(attempts, key=f"{self.head.instance_id}/")
        is_due_now = read_retry_time(event.payload) <= event.created_at
        if is_due_now and (attempts >= policy.max_attempts or delay_ms > 0):
            self.attempt_failed(event, account, attempts_max=None, earliest=None)
            self._must_suspend = None if self.is_suspended else event
        else:
            attempts_max = policy.max_attempts
            self.attempt_failed(event, account, attempts_max=attempts_max, earliest=event.created_at + delay_ms)

    def _take(self, event: Event) -> None:
        failed, self._must_suspend = self._must_suspend, None
        if failed is not None and event.type is not EventType.INSTANCE_SUSPENDED:
            message = f"attempt {failed.attempt} of the workflow function was the last, and another one is due"
            self.note(FindingCode.RETRY_UNEXPECTED, failed, message)
        super()._take(event)

    def _function_dispatched(self, event: Event) -> None:
        if self.dispatched(event) is None:
            self.open[FUNCTION_KEY] = CheckedActivation(FUNCTION_KEY, event.attempt, event)
        self._attempt, self._is_running, self._was_reopened = event.attempt, True, False

    # -- steps ----------------------------------------------------------------------------
    def _step(self, event: Event) -> None:
        key = (event.node_id, event.scope)
        is_new = key not in self.open and key not in self.endings
        if is_new:
            self._first_row(event, key)
        elif event.mark is not None and event.mark.kind is not self._kinds.get(key):
            self.note(
                FindingCode.STEP_DIFFERS,
                event,
                f"'{event.node_id}' was a {self._kinds[key].value} and is a {event.mark.kind.value}",
            )
        if event.type is EventType.NODE_DISPATCHED:
            if self.dispatched(event) is None:
                self.open.setdefault(key, CheckedActivation(key, event.attempt, event))
            self._is_running = self._is_running or self._attempt > 0
            return
        account = self.answered(event, may_be_first=is_new)
        if account is None:
            return
        match event.type:
            case EventType.NODE_WAITING:
                self.waiting(event, account)
            case EventType.NODE_ATTEMPT_FAILED:
                self.attempt_failed(event, account, attempts_max=None, earliest=None)
            case EventType.NODE_COMPLETED | EventType.NODE_FAILED | EventType.NODE_SKIPPED:
                self._end(event, account)

    def _first_row(self, event: Event, key: ActivationKey) -> None:
        if not self._attempt:
            self.note(FindingCode.DISPATCH_EARLY, event, f"'{event.node_id}' has a row before the function was called")
        if not is_step_name(event.node_id) and not event.node_id.startswith(_TIMER_PREFIX):
            self.note(FindingCode.ROW_UNEXPECTED, event, f"'{event.node_id}' cannot be the name of a step")
        self._kinds[key] = StepKind.RUN if event.mark is None else event.mark.kind
        latest = None if event.mark is None else event.mark.latest_row
        if latest is not None and latest >= event.seq:
            self.note(
                FindingCode.DISPATCH_EARLY, event, f"'{event.node_id}' follows row {latest}, which comes after it"
            )

    def _end(self, event: Event, account: CheckedActivation) -> None:
        if event.type is EventType.NODE_COMPLETED and account.is_waiting:
            self.check_wait_over(event, account)
        self.close(event, account)
        self._called_by_step()

    def _called_by_step(self) -> None:
        """Take it that a row of a step has made the function run, unless another attempt of it is due."""
        self._is_running = self._attempt > 0 and (self._was_reopened or not self._is_retrying)

    @property
    def _is_retrying(self) -> bool:
        account = self.open.get(FUNCTION_KEY)
        return account is not None and account.is_retrying

    def finish(self) -> None:
        """Do nothing: only the code knows what the function still has to do."""

    # -- the end --------------------------------------------------------------------------
    def check_completed(self, event: Event) -> None:
        """Check that the function, which has returned, was running."""
        if not self._is_running:
            self.note(FindingCode.END_UNEXPECTED, event, "the run completes while its function is not running")

    def check_failed(self, event: Event) -> None:
        """Check that the function has raised, or asked for too many steps."""
        if not self._is_running:
            code = event.payload.value["code"]
            self.note(FindingCode.END_UNEXPECTED, event, f"the run fails with {code} while its function is not running")
