"""Checks all data of a live database, read-only, a few runs at a time.

Called by `anabranch doctor --data`. A row and its log are read in one snapshot; each finding is checked again after a
moment, so that concurrent changes are not reported.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

from anabranch.dataclass import dataclass
from anabranch.engine.log_pages import pages_of
from anabranch.engine.plans import PlanCache
from anabranch.engine.ports import InstanceRow, Loaded
from anabranch.engine.rules.evolve import AnyPlan, AnyState, evolve, new_state
from anabranch.engine.rules.graph.node_types import NodeTypes
from anabranch.engine.store.sql.data_checks import UnreadableRun
from anabranch.engine.store.sql.store import SqlStore
from anabranch.errors import AnabranchError, LogUnreadable, NotFound, StoreUnavailable
from anabranch.service.data_check.data_finding import DataFault, DataFinding
from anabranch.service.data_check.run_consistency import LogFacts, family, parents_to_wake, row_and_log

# 100 runs or 8 MB of logs at once: a statement of some ten milliseconds, and bounded memory whatever is stored.
RUNS_AT_ONCE = 100
BYTES_AT_ONCE = 8 * 1_048_576

# 500 ms: concurrent commits are complete by then, and workers have handled what they woke.
LOOK_AGAIN_S = 0.5

# 1,000 findings: more would not help, and they are kept in memory.
FINDINGS_MAX = 1_000

# Before every id.
_FIRST_ID = "00000000-0000-0000-0000-000000000000"


@dataclass(slots=True)
class DataReport:
    """The number of rows read, and the findings."""

    runs: int = 0
    rows: int = 0
    findings: list[DataFinding] = field(default_factory=list)
    omitted: int = 0

    def add(self, found: Sequence[DataFinding]) -> None:
        """Add findings, up to the limit."""
        left = max(0, FINDINGS_MAX - len(self.findings))
        self.findings += found[:left]
        self.omitted += max(0, len(found) - left)

    def as_json(self) -> dict[str, Any]:
        """As it is printed."""
        return {
            "runs": self.runs,
            "rows": self.rows,
            "findings": [finding.as_json() for finding in self.findings],
            "findingsOmitted": self.omitted,
        }


class DataDoctor:
    """Checks one database."""

    def __init__(self, store: SqlStore, node_types: NodeTypes, *, look_again_s: float = LOOK_AGAIN_S) -> None:
        self._store = store
        self._look_again_s = look_again_s
        self._plans = PlanCache(store, node_types)

    async def check(self, progress: Callable[[int], None] = lambda runs: None) -> DataReport:
        """Check everything. `progress` is called with the number of runs checked so far. Raises StoreUnavailable."""
        report = DataReport()
        after: str | None = _FIRST_ID
        while after is not None:
            rows = await self._store.runs_after(after, limit=RUNS_AT_ONCE)
            self._report_unreadable([row for row in rows if isinstance(row, UnreadableRun)], report)
            for batch in _batches([row for row in rows if not isinstance(row, UnreadableRun)]):
                report.runs += len(batch)
                report.rows += sum(row.last_seq for row in batch)
                report.add(await self._confirmed([row.head.instance_id for row in batch]))
            progress(report.runs)
            after = _id_of(rows[-1]) if len(rows) == RUNS_AT_ONCE else None
        report.add(await self._orphans())
        report.add(await self._values())
        report.add(await self._counters())
        report.add(await self._schema())
        return report

    def _report_unreadable(self, rows: Sequence[UnreadableRun], report: DataReport) -> None:
        report.runs += len(rows)
        report.add([DataFinding(DataFault.RUN_UNREADABLE, row.message, row.instance_id) for row in rows])

    # -- runs -----------------------------------------------------------------------------
    async def _confirmed(self, instance_ids: list[str]) -> list[DataFinding]:
        """Findings about these runs that are still there after a moment."""
        found = await self._runs(instance_ids)
        if not found:
            return []
        await asyncio.sleep(self._look_again_s)
        again = await self._runs(
            list(dict.fromkeys(each.instance_id for each in found if each.instance_id is not None))
        )
        kinds = {(each.instance_id, each.fault) for each in found}
        return [each for each in again if (each.instance_id, each.fault) in kinds]

    async def _runs(self, instance_ids: list[str]) -> list[DataFinding]:
        """Findings about these runs."""
        found: list[DataFinding] = []
        loaded = await self._loaded(instance_ids, found)
        states: dict[str, AnyState | None] = {}
        found += [
            DataFinding(DataFault.LOG_ROW_DIFFERS, wrong.message, wrong.instance_id, wrong.seq)
            for wrong in await self._store.differing_rows(list(loaded), limit=FINDINGS_MAX)
        ]
        now = await self._store.now()
        for instance_id, each in loaded.items():
            note = _FindingCollector(instance_id, found)
            states[instance_id] = await self._one(each, now, note)
        relatives = {each.row.head.parent_id for each in loaded.values() if each.row.head.parent_id is not None}
        relatives |= {child for state in states.values() if state is not None for child in state.children}
        others = await self._store.runs_among(sorted(relatives)) if relatives else {}
        for instance_id, each in loaded.items():
            note, state = _FindingCollector(instance_id, found), states[instance_id]
            family(each.row, state, others, now=now, note=note)
            for child_id in () if state is None else parents_to_wake(state, each.row, others, now=now):
                note(DataFault.PARENT_NOT_WOKEN, f"its child {child_id} has ended, but no worker will notice", None)
        return found

    async def _loaded(self, instance_ids: list[str], found: list[DataFinding]) -> dict[str, Loaded]:
        """These runs with their logs; an unreadable one is left out and reported."""
        try:
            return await self._store.load(instance_ids)
        except (StoreUnavailable, asyncio.CancelledError):
            raise
        except LogUnreadable as refusal:
            if len(instance_ids) == 1:
                seq = refusal.details["seq"]
                found.append(DataFinding(DataFault.LOG_UNREADABLE, refusal.message, instance_ids[0], seq))
                return {}
        except Exception as unreadable:  # noqa: BLE001 -- whatever a stored value makes a parser raise
            if len(instance_ids) == 1:
                message = f"its log cannot be read: {type(unreadable).__name__}: {unreadable}"
                found.append(DataFinding(DataFault.LOG_UNREADABLE, message, instance_ids[0]))
                return {}
        loaded: dict[str, Loaded] = {}
        for instance_id in instance_ids:
            loaded |= await self._loaded([instance_id], found)
        return loaded

    async def _one(self, loaded: Loaded, now: int, note: _FindingCollector) -> AnyState | None:
        """Check one run; the state that its log folds to, if it does."""
        row = loaded.row
        facts = LogFacts(note, row.head.left_out)
        plan = await self._plan(row, note)
        state = None if plan is None else new_state(plan, row.head)
        try:
            async for page in pages_of(self._store, loaded):
                for event in page:
                    facts.take(event)
                    if state is not None and not facts.is_broken:
                        evolve(state, event)
        except (StoreUnavailable, asyncio.CancelledError):
            raise
        except Exception as unreadable:  # noqa: BLE001 -- see _loaded
            message = f"its log cannot be folded at row {facts.rows}: {type(unreadable).__name__}: {unreadable}"
            note(DataFault.LOG_UNREADABLE, message, facts.rows)
            return None
        whole = state if not facts.is_broken and facts.rows == row.last_seq else None
        row_and_log(row, facts, whole, now=now, note=note)
        return whole

    async def _plan(self, row: InstanceRow, note: _FindingCollector) -> AnyPlan | None:
        try:
            return await self._plans.plan_of(row.head)
        except NotFound as absent:
            note(DataFault.DEFINITION_MISSING, absent.message, None)
        except StoreUnavailable:
            raise
        except AnabranchError as refusal:
            note(DataFault.DEFINITION_MISSING, f"its definition cannot be compiled: {refusal.message}", None)
        except Exception as unreadable:  # noqa: BLE001 -- see _loaded
            message = f"its definition cannot be read: {type(unreadable).__name__}: {unreadable}"
            note(DataFault.DEFINITION_MISSING, message, None)
        return None

    # -- what belongs to no run -----------------------------------------------------------
    async def _orphans(self) -> list[DataFinding]:
        found: list[DataFinding] = []
        after: str | None = _FIRST_ID
        while after is not None and len(found) < FINDINGS_MAX:
            orphans, after = await self._store.orphaned_logs(after=after)
            stored = await self._store.runs_among(orphans) if orphans else {}  # a run may have begun meanwhile
            for instance_id in orphans:
                if instance_id not in stored:
                    message = f"there are rows of the log of run {instance_id}, and no such run"
                    found.append(DataFinding(DataFault.LOG_ORPHANED, message, instance_id))
        for workflow_id, name, version, which in await self._store.missing_versions(limit=FINDINGS_MAX):
            message = f"workflow '{name}' ({workflow_id}) has no version {version}, which is its {which} one"
            found.append(DataFinding(DataFault.DEFINITION_MISSING, message))
        return found

    async def _values(self) -> list[DataFinding]:
        """Large values and references to them that do not fit together, and still do not after a moment."""
        found = await self._values_now()
        if not found:
            return []
        await asyncio.sleep(self._look_again_s)
        again = set(await self._values_now())
        return [each for each in found if each in again]

    async def _values_now(self) -> list[DataFinding]:
        found = [
            DataFinding(DataFault.VALUE_MISSING, f"it refers to the value {sha256}, which is not stored", instance_id)
            for instance_id, sha256 in await self._store.missing_values(limit=FINDINGS_MAX)
        ]
        for instance_id, sha256 in await self._store.orphaned_references(limit=FINDINGS_MAX):
            message = f"run {instance_id}, which is not there, refers to the value {sha256}"
            found.append(DataFinding(DataFault.VALUE_REFERENCE_ORPHANED, message, instance_id))
        for sha256, tenant_id, size in await self._store.unreferenced_values(limit=FINDINGS_MAX):
            message = f"no run of tenant '{tenant_id}' refers to the value {sha256} of {size} bytes"
            found.append(DataFinding(DataFault.VALUE_ORPHANED, message))
        async for sha256, tenant_id in self._store.changed_values():
            message = f"the value {sha256} of tenant '{tenant_id}' is not what it was stored as"
            found.append(DataFinding(DataFault.VALUE_DIFFERS, message))
            if len(found) >= FINDINGS_MAX:
                break
        return found

    async def _counters(self) -> list[DataFinding]:
        found: list[DataFinding] = []
        workflow = await self._store.counted_workflow_after(None)
        while workflow is not None and len(found) < FINDINGS_MAX:
            tenant_id, workflow_id = workflow
            for counter in await self._store.counters_of(tenant_id, workflow_id):
                if counter.counted != counter.stored:
                    message = (
                        f"workflow {workflow_id} has {counter.counted} runs counted {counter.status}"
                        f" in tenant '{tenant_id}', and {counter.stored} are stored"
                    )
                    found.append(DataFinding(DataFault.COUNTS_DIFFER, message))
            workflow = await self._store.counted_workflow_after(workflow)
        return found

    async def _schema(self) -> list[DataFinding]:
        missing = await self._store.missing_indexes()
        return [DataFinding(DataFault.INDEX_MISSING, f"the index {name} is not there") for name in missing]


class _FindingCollector:
    """Notes findings about one run."""

    def __init__(self, instance_id: str, found: list[DataFinding]) -> None:
        self._instance_id = instance_id
        self._found = found

    def __call__(self, fault: DataFault, message: str, seq: int | None) -> None:
        self._found.append(DataFinding(fault, message, self._instance_id, seq))


def _id_of(row: InstanceRow | UnreadableRun) -> str:
    return row.instance_id if isinstance(row, UnreadableRun) else row.head.instance_id


def _batches(rows: Sequence[InstanceRow]) -> list[list[InstanceRow]]:
    """The same rows, in parts whose logs can be in memory together."""
    batches: list[list[InstanceRow]] = []
    weight = BYTES_AT_ONCE
    for row in rows:
        weight += row.log_weight
        if weight >= BYTES_AT_ONCE or not batches:
            batches.append([])
            weight = row.log_weight
        batches[-1].append(row)
    return batches
