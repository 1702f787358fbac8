"""The verdict over a campaign: what the logs and the ledger say against what was promised."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from anabranch.engine.ports import Loaded
from anabranch.engine.rules.events import ENDINGS, TERMINALS, EventType, Status
from anabranch.engine.rules.instants import from_iso


def violations_of(
    started: Mapping[str, int], cancelled: set[str], loaded: Mapping[str, Loaded], entries: list[dict[str, Any]]
) -> list[str]:
    """Every broken promise, in words. `started` maps each acknowledged run to its input."""
    found = [f"{run} was acknowledged and is not stored" for run in started if run not in loaded]
    for run, each in loaded.items():
        found += [f"{run}: {problem}" for problem in _of_one_run(each, cancelled=run in cancelled, n=started[run])]
    return found + _of_ledger(loaded, entries)


def what_is_stored_is_wrong(url: str) -> list[str]:
    """What `verify --all` and `doctor --data` find in the database that a campaign leaves behind."""
    found = []
    for command in (["verify", "--all"], ["doctor", "--data"]):
        arguments = [sys.executable, "-m", "anabranch", *command, "--database-url", url, "--json"]
        ended = subprocess.run(arguments, capture_output=True, text=True, check=False)
        wrong = _findings(json.loads(ended.stdout)) if ended.returncode in (0, 1) and ended.stdout else []
        found += [f"{' '.join(command)}: {each}" for each in wrong]
        if ended.returncode != 0 and not wrong:
            found.append(f"{' '.join(command)} exits {ended.returncode}: {ended.stderr}{ended.stdout}")
    return found


def _findings(document: Mapping[str, Any]) -> list[str]:
    faulty = [(run["instanceID"], finding) for run in document.get("faulty", ()) for finding in run["findings"]]
    of_data = [(finding["instanceID"], finding) for finding in document.get("findings", ())]
    return [f"{run}: {finding['code']}: {finding['message']}" for run, finding in [*faulty, *of_data]]


def _of_one_run(loaded: Loaded, *, cancelled: bool, n: int) -> list[str]:
    found: list[str] = []
    events = loaded.events
    if [event.seq for event in events] != list(range(1, loaded.row.last_seq + 1)):
        found.append("its seqs have gaps or doubles")
    if not loaded.row.status.is_terminal:
        return [*found, f"it is still {loaded.row.status.value}"]
    if [e.type for e in events if e.type in TERMINALS] != [events[-1].type]:
        found.append("it does not end with exactly one ending")
    wanted = {Status.COMPLETED, Status.CANCELLED} if cancelled else {Status.COMPLETED}
    if loaded.row.status not in wanted:
        found.append(f"it ended {loaded.row.status.value}: {events[-1].payload.value}")
    elif loaded.row.status is Status.COMPLETED and events[-1].payload.value != {"n": n}:
        found.append(f"its output is {events[-1].payload.value}")
    ended: set[tuple[str, str]] = set()
    dispatched: dict[tuple[str, str], list[int]] = defaultdict(list)
    due: dict[tuple[str, str], int] = {}
    for event in events:
        key = (event.node_id, event.scope)
        if event.type in ENDINGS:
            if key in ended:
                found.append(f"{key} ended twice")
            ended.add(key)
        if event.type is EventType.NODE_DISPATCHED:
            dispatched[key].append(event.attempt)
        fires = event.type is EventType.NODE_DISPATCHED or event.next_handle == "timeout"
        if fires and event.created_at < due.get(key, 0):
            found.append(f"the timer of {key} fired {due[key] - event.created_at} ms early")
        if event.type in (EventType.NODE_WAITING, EventType.NODE_ATTEMPT_FAILED) and "dueAt" in event.payload.value:
            due[key] = from_iso(event.payload.value["dueAt"])
    found += [
        f"{key} has attempts {attempts}"
        for key, attempts in dispatched.items()
        if attempts != list(range(1, len(attempts) + 1))
    ]
    return found


def _of_ledger(loaded: Mapping[str, Loaded], entries: list[dict[str, Any]]) -> list[str]:
    found: list[str] = []
    keys: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    activations: dict[str, set[tuple[str, str, str]]] = defaultdict(set)
    for entry in entries:
        activation = (entry["instance"], entry["node"], entry["scope"])
        keys[activation].add(entry["key"])
        activations[entry["key"]].add(activation)
        if entry["instance"] not in loaded:
            found.append(f"a ghost: {entry['instance']} had an effect and was never acknowledged")
    found += [f"{activation} had effects under {len(used)} keys" for activation, used in keys.items() if len(used) > 1]
    found += [f"the key {key} stands for {len(used)} activations" for key, used in activations.items() if len(used) > 1]
    for run, each in loaded.items():
        for event in each.events:
            output = event.payload.value
            is_effect = event.type is EventType.NODE_COMPLETED and isinstance(output, dict) and "key" in output
            if is_effect and (run, event.node_id, event.scope) not in keys:
                found.append(f"{run}: {event.node_id} is recorded as done and the ledger never saw it")
    return found
