"""`anabranch pause` and `anabranch resume`: all runs of a tenant at once."""

from __future__ import annotations

from anabranch.cli.output import print_answer
from anabranch.cli.target import TargetOptions, open_target


def pause(*, at: TargetOptions) -> None:
    """Pause all runs of the tenant: executions under way end, nothing else begins, and starts stay PENDING."""
    found = open_target(at).ask(lambda gateway: gateway.pause_tenant())
    print_answer(found, "all runs of the tenant are paused", as_json=at.as_json)


def resume(*, at: TargetOptions) -> None:
    """Resume the runs of the tenant, except those of paused workflows."""
    found = open_target(at).ask(lambda gateway: gateway.resume_tenant())
    print_answer(found, "the runs of the tenant are resumed", as_json=at.as_json)
