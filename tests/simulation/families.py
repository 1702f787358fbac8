"""What must hold between a run and the runs that it starts, after every transaction.

Kept by `judge`, which tells it of every change; knows rows and facts, nothing of the engine's own
bookkeeping. Each method yields what is wrong, in words, with the run that it is about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from anabranch.engine.ports import InstanceHead, InstanceRow
from anabranch.engine.rules.event_payloads import RunCancelledPayload
from anabranch.engine.rules.events import EventType, Status
from anabranch.engine.store.sql.families import cancel_reason
from anabranch.testing.memory_store.records import Change, Transaction
from tests.simulation.facts import Facts

Wrong = tuple[str, str]
"""(what is wrong, the run that it is about)."""


class Families:
    """Who was started by whom, and where each of them stands."""

    def __init__(self) -> None:
        self._rows: dict[str, InstanceRow] = {}
        self._children: dict[str, dict[tuple[str | None, str | None], str]] = {}
        """Parent → activation → child."""
        self.pausing_tenants: set[str] = set()
        """Tenants whose clients have paused workflows, or all of them."""

    @property
    def laws(self) -> tuple[Callable[[Transaction, Mapping[str, Facts]], Iterator[Wrong]], ...]:
        """What must hold after a transaction."""
        return (
            self.nobody_is_left_behind,
            self.a_parked_parent_is_woken,
            self.whom_a_run_awaits_is_its_own,
            self.who_ended_with_its_parent_goes_on_with_it,
        )

    def note(self, change: Change) -> None:
        """Take in a row as it is now."""
        if change.after is not None:
            self._rows[change.after.head.instance_id] = change.after

    def one_child_per_activation(self, change: Change, runs: Mapping[str, Facts]) -> Iterator[Wrong]:
        """One child per activation, even across crashes; none for an activation that is over."""
        head = None if change.before is not None or change.after is None else change.after.head
        if head is None or head.parent_id is None:
            return
        key = (head.parent_node_id, head.parent_scope)
        first = self._children.setdefault(head.parent_id, {}).setdefault(key, head.instance_id)
        if first != head.instance_id:
            yield f"{key} of run {head.parent_id} has started {first} already", head.instance_id
        if not self._asks_for(head, runs):
            yield f"it is created although {key} of run {head.parent_id} is over", head.instance_id

    def nobody_is_left_behind(self, transaction: Transaction, runs: Mapping[str, Facts]) -> Iterator[Wrong]:
        """A child whose parent does not wait for it any more ends in the same transaction."""
        for change in transaction.changes:
            parent_id = None if change.after is None else change.after.head.instance_id
            for child in map(self._rows.get, self._children.get(parent_id or "", {}).values()):
                is_open = child is not None and child.head.parent_waits and not child.status.is_terminal
                if child is not None and is_open and not self._asks_for(child.head, runs):
                    yield f"it is {child.status}, and nobody waits for it any more", child.head.instance_id

    def a_parked_parent_is_woken(self, transaction: Transaction, runs: Mapping[str, Facts]) -> Iterator[Wrong]:
        """A parent that nobody holds is available as soon as an awaited child has ended; not if it is kept back."""
        for change in transaction.changes:
            # As the whole transaction leaves it: it may be parked and woken in one.
            parent = None if change.after is None else self._rows[change.after.head.instance_id]
            if parent is None or parent.worker_id is not None or parent.status.is_terminal:
                continue
            if parent.suspended_for is not None or (parent.blame is not None and parent.blame.crashes):
                continue  # or it has crashed alone, and is kept back for a while
            if parent.head.tenant_id in self.pausing_tenants:
                continue  # it may have been let go of for a pause, available by the clock of its owner
            if parent.available_at is not None and parent.available_at <= transaction.now:
                continue
            facts = runs[parent.head.instance_id]
            for key, child_id in self._children.get(parent.head.instance_id, {}).items():
                last = facts.last.get((str(key[0]), str(key[1])))
                waits = last is not None and last.type is EventType.NODE_WAITING
                if waits and self._rows[child_id].status.is_terminal:
                    yield (
                        f"it sleeps until {parent.available_at}, and its child {child_id} has ended",
                        parent.head.instance_id,
                    )

    def whom_a_run_awaits_is_its_own(self, transaction: Transaction, runs: Mapping[str, Facts]) -> Iterator[Wrong]:
        """A run awaits only what it has started itself, whatever it was forked from."""
        for change in transaction.changes:
            for row in change.events if change.after is not None else ():
                waits_for = row.payload.value.get("childID") if row.type is EventType.NODE_WAITING else None
                child, parent_id = self._rows.get(waits_for or ""), change.after.head.instance_id
                has_ended = (row.node_id, row.scope) in runs[parent_id].endings  # a fork copies such rows
                if child is not None and child.head.parent_id != parent_id and not has_ended:
                    yield f"{row.node_id} awaits {waits_for}, which {child.head.parent_id} has started", parent_id

    def who_ended_with_its_parent_goes_on_with_it(
        self, transaction: Transaction, runs: Mapping[str, Facts]
    ) -> Iterator[Wrong]:
        """What was cancelled because its parent ended is reopened together with it, if it is still awaited."""
        for change in transaction.changes if transaction.operation == "reopen" else ():
            parent_id = "" if change.after is None else change.after.head.instance_id
            for key, child_id in self._children.get(parent_id, {}).items():
                last = runs[parent_id].last.get((str(key[0]), str(key[1])))
                ended = runs[child_id].log[-1]
                was_taken_along = (
                    ended.type is EventType.INSTANCE_CANCELLED
                    and ended.payload.value == RunCancelledPayload(cancel_reason(parent_id)).payload.value
                )
                if was_taken_along and last is not None and last.type is EventType.NODE_WAITING:
                    yield f"it stays cancelled, and {key} of run {parent_id} waits for it again", child_id

    def what_nodes_say_of_their_children(self, runs: Mapping[str, Facts]) -> Iterator[Wrong]:
        """COMPLETED → its output; FAILED → CHILD_FAILED; CANCELLED → CHILD_CANCELLED."""
        for parent_id, children in self._children.items():
            for (node_id, scope), child_id in children.items():
                ending = runs[parent_id].endings.get((str(node_id), str(scope)))
                child, last = self._rows[child_id], runs[child_id].log[-1]
                if ending is None or ending.type is EventType.NODE_SKIPPED or not child.head.parent_waits:
                    continue
                if ending.type is EventType.NODE_COMPLETED:
                    agrees = child.status is Status.COMPLETED and ending.payload.raw == last.payload.raw
                else:
                    said = ending.payload.value["error"]["code"]
                    # Who gave up starting it (the store was away, say) has cancelled it, if it was there.
                    agrees = child.status is _SAID.get(said, Status.CANCELLED)
                if not agrees:
                    yield f"{node_id} in {scope!r} ended with {ending.type}, its child is {child.status}", parent_id

    def _asks_for(self, head: InstanceHead, runs: Mapping[str, Facts]) -> bool:
        parent = self._rows.get(head.parent_id or "")
        if parent is None or parent.status.is_terminal:
            return False
        return (str(head.parent_node_id), str(head.parent_scope)) not in runs[parent.head.instance_id].endings


_SAID = {"CHILD_FAILED": Status.FAILED, "CHILD_CANCELLED": Status.CANCELLED, "VALUE_TOO_LARGE": Status.COMPLETED}
