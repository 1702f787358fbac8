"""`check_log`: find faults in the log of a run."""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.engine.rules.coded.coded_plan import CodedPlan
from anabranch.engine.rules.event_payloads import left_out_by
from anabranch.engine.rules.events import Event, EventType
from anabranch.engine.rules.evolve import AnyPlan
from anabranch.engine.rules.shared.run_state import InstanceHead
from anabranch.engine.rules.verify.coded_check import CodedCheck
from anabranch.engine.rules.verify.drawn_check import DrawnCheck
from anabranch.engine.rules.verify.finding import Finding


def check_log(plan: AnyPlan, head: InstanceHead, events: Sequence[Event]) -> list[Finding]:
    """Every difference between a whole log and the log that its definition implies, in log order; at most
    `FINDINGS_MAX`."""
    left_out = left_out_by(events)
    check = CodedCheck(plan, head, left_out) if isinstance(plan, CodedPlan) else DrawnCheck(plan, head, left_out)
    check.copied_to = next((event.seq for event in events if event.type is EventType.FORKED_FROM), 0)
    for event in events:
        check.take(event)
    check.finish()
    return check.findings
