"""The statements that write transitions without parents or children on PostgreSQL.

Called by the dialect, in a thread, and by `async_commits`, on the event loop: both execute the same statements in the
same order. Knows no connection.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, TypeAlias

from sqlalchemy import TextClause

from anabranch.engine.ports import Outcome, Transition
from anabranch.engine.store.postgresql import postgresql_statements as statements
from anabranch.engine.store.sql.rows import encode_events, encode_new_runs, encode_transitions

Rows: TypeAlias = Sequence[Sequence[Any]]

Question: TypeAlias = tuple[TextClause, dict[str, str]]
"""A statement and its parameters."""


def writing(transitions: Sequence[Transition]) -> Generator[Question, Rows, Outcome]:
    """Write the transitions whose guards hold: yields statements, is sent their rows, and returns what was written.

    One statement; more only if a creation did not win.
    """
    new_runs = [transition for transition in transitions if transition.new_run is not None]
    batch = {
        "transitions": encode_transitions(transition for transition in transitions if transition.new_run is None),
        "events": encode_events(transitions),
    }
    if new_runs:
        batch["new_runs"] = encode_new_runs(new_runs)
    [(winners, now)] = yield statements.COMMIT if new_runs else statements.ADVANCE, batch
    won = set(winners or ())
    uncreated = [transition for transition in new_runs if transition.instance_id not in won]
    existing: dict[str, str] = {}
    rejected: set[str] = set()
    if uncreated:
        # Only a new statement sees the rows of a batch that this one has waited for.
        asked = {"new_runs": encode_new_runs(uncreated)}
        holders = yield statements.KEY_HOLDERS, asked
        existing = {row[0]: row[1] for row in holders}
        without_workflow = yield statements.CREATIONS_WITHOUT_WORKFLOW, asked
        rejected = {row[0] for row in without_workflow} - existing.keys()
    return Outcome(won, now, existing, rejected=rejected)
