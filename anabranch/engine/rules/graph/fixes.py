"""Quick fixes: changes that solve a problem of a document, as JSON patches (RFC 6902).

Pure. Called by `analysis`. A fix is offered only if there is nothing to ask; the problem's hint explains more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, TypeAlias

from anabranch.dataclass import dataclass
from anabranch.engine.rules.graph.control_flow.structure import Structure
from anabranch.engine.rules.graph.document import ERROR_HANDLINGS, JOIN_MODES, TITLE_LENGTH_MAX, Graph, derive_name
from anabranch.engine.rules.graph.known_fields import CLOSE, EDGE_FIELDS, NODE_FIELDS, OPTION_FIELDS, WORKFLOW_FIELDS
from anabranch.engine.rules.graph.node_checks import NodeFacts
from anabranch.engine.rules.graph.node_types import config_fields
from anabranch.engine.rules.graph.problems import Problem, pointer_to

# Offer at most 5 handles of a node if none is similar to the written one.
CHOICES_MAX = 5

# 10 s between two passes of a loop that would spin: the author changes it, and nothing is hammered until then.
DELAY_BETWEEN_PASSES = "10s"
DELAY_TYPE = "delay"

Patch: TypeAlias = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class _LocatedProblem:
    """A problem and its context in the document."""

    problem: Problem
    document: Any
    graph: Graph
    facts: NodeFacts
    structure: Structure

    @property
    def steps(self) -> list[str]:
        """Its pointer, step by step."""
        pointer = self.problem.pointer
        return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]

    @property
    def element(self) -> str:
        """The pointer of the node or edge that it is in."""
        return pointer_to(*self.steps[:2])

    def value(self, *steps: str) -> Any:
        """The value at the pointer; None if there is none."""
        found = self.document
        for step in steps or self.steps:
            if isinstance(found, Mapping):
                found = found.get(step)
            elif isinstance(found, list) and step.isdecimal() and int(step) < len(found):
                found = found[int(step)]
            else:
                return None
        return found


def fixes_of(
    problem: Problem, document: Any, graph: Graph, facts: NodeFacts, structure: Structure
) -> list[dict[str, Any]]:
    """`{title, patch}` of each change that would fix it; empty if only the author can decide."""
    make = _FIXES.get(problem.code)
    if make is None:
        return []
    located = _LocatedProblem(problem, document, graph, facts, structure)
    return [{"title": title, "patch": patch} for title, patch in make(located)]


_Fixes: TypeAlias = Iterator[tuple[str, Patch]]


def _unknown_handle(located: _LocatedProblem) -> _Fixes:
    handles = sorted(located.facts.handles.get(located.problem.node_id or "", ()))
    yield from _nearest(located, handles)
    yield from _remove_edge(located)


def _unknown_type(located: _LocatedProblem) -> _Fixes:
    yield from _nearest(located, sorted(located.facts.known_types), 1)


def _unknown_field(located: _LocatedProblem) -> _Fixes:
    steps, owner = located.steps, _owner(located.steps)
    node_type = located.facts.types.get(located.problem.node_id or "")
    if owner == "node" and node_type is not None and steps[-1] in config_fields(node_type):
        config = located.value(*steps[:-1], "config")
        if isinstance(config, Mapping):
            yield (
                "move it into the config",
                [_move(located.problem.pointer, pointer_to(*steps[:-1], "config", steps[-1]))],
            )
    yield from _renamed(located, _FIELDS[owner])
    yield "remove it", [{"op": "remove", "path": located.problem.pointer}]


def _config_invalid(located: _LocatedProblem) -> _Fixes:
    steps = located.steps
    node_type = located.facts.types.get(located.problem.node_id or "")
    if node_type is None or len(steps) != 4 or steps[2] != "config" or steps[3] in config_fields(node_type):
        return
    if located.value() is None:
        return
    if steps[3] in NODE_FIELDS and located.value(*steps[:2], steps[3]) is None:
        yield "move it to the node", [_move(located.problem.pointer, pointer_to(*steps[:2], steps[3]))]
    yield from _renamed(located, config_fields(node_type))
    yield "remove it", [{"op": "remove", "path": located.problem.pointer}]


def _no_end(located: _LocatedProblem) -> _Fixes:
    yield from _nearest(located, list(located.graph.nodes), 1)
    yield from _remove_edge(located)


def _remove_edge(located: _LocatedProblem) -> _Fixes:
    yield "remove the edge", [{"op": "remove", "path": located.element}]


def _remove(located: _LocatedProblem) -> _Fixes:
    yield f"remove `{located.steps[-1]}`", [{"op": "remove", "path": located.problem.pointer}]


def _no_start(located: _LocatedProblem) -> _Fixes:
    if isinstance(located.value("nodes"), list) and "start" not in located.graph.nodes:
        yield "add a start node", [{"op": "add", "path": "/nodes/-", "value": {"id": "start", "type": "start"}}]


def _duplicate_node_id(located: _LocatedProblem) -> _Fixes:
    written = str(located.value())
    free = _free_id(located.graph, written)
    yield f"call it {free!r}", [_replace(located.problem.pointer, free)]


def _bad_name(located: _LocatedProblem) -> _Fixes:
    name = derive_name(str(located.value()))
    yield f"use {name!r}", [_replace(located.problem.pointer, name)]


def _title_too_long(located: _LocatedProblem) -> _Fixes:
    yield "cut it off", [_replace(located.problem.pointer, str(located.value())[:TITLE_LENGTH_MAX])]


def _error_edge_never_taken(located: _LocatedProblem) -> _Fixes:
    node = located.graph.nodes.get(located.problem.node_id or "")
    if node is not None:
        path = node.pointer + "/errorHandling"
        yield "take the edge on a failure", [{"op": "add", "path": path, "value": "continue"}]
    yield from _remove_edge(located)


def _continue_without_edge(located: _LocatedProblem) -> _Fixes:
    path = located.problem.pointer + "/errorHandling"
    yield "ignore failures", [_replace(path, "ignore")]
    yield "let a failure end the run", [{"op": "remove", "path": path}]


def _loop_spins(located: _LocatedProblem) -> _Fixes:
    region = located.structure.regions.by_header.get(located.problem.node_id or "")
    if region is None or DELAY_TYPE not in located.facts.known_types:
        return
    again = region.again[0]
    delay = _free_id(located.graph, DELAY_TYPE)
    node = {"id": delay, "type": DELAY_TYPE, "config": {"duration": DELAY_BETWEEN_PASSES}}
    yield (
        f"wait {DELAY_BETWEEN_PASSES} before each pass",
        [
            {"op": "add", "path": "/nodes/-", "value": node},
            _replace(again.pointer + "/downstreamNodeID", delay),
            {"op": "add", "path": "/edges/-", "value": {"upstreamNodeID": delay, "downstreamNodeID": region.header}},
        ],
    )


def _loop_never_left(located: _LocatedProblem) -> _Fixes:
    region = located.structure.regions.by_header.get(located.problem.node_id or "")
    if region is not None and len(region.again) == 1:
        yield "remove the edge back", [{"op": "remove", "path": region.again[0].pointer}]


def _exit_runs_once(located: _LocatedProblem) -> _Fixes:
    """Lead there from a handle that ends the loop, if there is one; else the edge has to go."""
    found = (
        (region, edge)
        for region in located.structure.regions.by_header.values()
        for edge in region.run_once
        if edge.pointer == located.element
    )
    region, edge = next(found, (None, None))
    if region is None or edge is None:
        return
    staying = {each.pointer for each in region.run_once}
    wires = {(each.source, each.handle, each.target) for each in located.graph.edges}
    for last in region.exits:
        if last.pointer not in staying and (last.source, last.handle, edge.target) not in wires:
            patch = [
                _replace(edge.pointer + "/upstreamNodeID", last.source),
                {"op": "add", "path": edge.pointer + "/sourceHandle", "value": last.handle},
            ]
            yield f"lead there by {last.handle!r} of {last.source!r}, which ends the loop", patch
            break
    yield from _remove_edge(located)


def _free_id(graph: Graph, wanted: str) -> str:
    numbered = (f"{wanted}-{number}" for number in range(2, 10_000))
    return next(each for each in (wanted, *numbered) if each not in graph.nodes)


def _choice(words: tuple[str, ...]) -> Callable[[_LocatedProblem], _Fixes]:
    return lambda located: _nearest(located, list(words))


def _nearest(located: _LocatedProblem, known: list[str], count: int = CHOICES_MAX) -> _Fixes:
    """Replace the value: by the most similar known one, or else offer the first few."""
    written = located.value()
    near = get_close_matches(written, known, n=1, cutoff=CLOSE) if isinstance(written, str) else []
    for each in near or (known if len(known) <= count else []):
        yield f"use {each!r}", [_replace(located.problem.pointer, each)]


def _renamed(located: _LocatedProblem, known: frozenset[str]) -> _Fixes:
    """Rename the field to a similar known name that is not in use."""
    *above, name = located.steps
    near = get_close_matches(name.lower(), {each.lower(): each for each in sorted(known)}, n=1, cutoff=CLOSE)
    meant = next((each for each in sorted(known) if near and each.lower() == near[0]), None)
    if meant is not None and (not above or located.value(*above, meant) is None):
        yield f"call it {meant!r}", [_move(located.problem.pointer, pointer_to(*above, meant))]


def _owner(steps: list[str]) -> str:
    if len(steps) == 1:
        return "workflow"
    return {"nodes": "node", "edges": "edge"}.get(steps[0], "options")


_FIELDS = {"workflow": WORKFLOW_FIELDS, "node": NODE_FIELDS, "edge": EDGE_FIELDS, "options": OPTION_FIELDS}


def _replace(path: str, value: Any) -> dict[str, Any]:
    return {"op": "replace", "path": path, "value": value}


def _move(origin: str, path: str) -> dict[str, Any]:
    return {"op": "move", "from": origin, "path": path}


_FIXES: Mapping[str, Callable[[_LocatedProblem], _Fixes]] = {
    "UNKNOWN_HANDLE": _unknown_handle,
    "UNKNOWN_TYPE": _unknown_type,
    "UNKNOWN_FIELD": _unknown_field,
    "CONFIG_INVALID": _config_invalid,
    "EDGE_FROM_NOWHERE": _no_end,
    "EDGE_TO_NOWHERE": _no_end,
    "EDGE_INTO_START": _remove_edge,
    "EDGE_NEVER_LIVE": _remove_edge,
    "LOOP_BORDER": _remove_edge,
    "CYCLE": _remove_edge,
    "DUPLICATE_EDGE_ID": _remove,
    "START_DISABLED": _remove,
    "NOT_DRAWN": _remove,
    "NO_START": _no_start,
    "DUPLICATE_NODE_ID": _duplicate_node_id,
    "BAD_NAME": _bad_name,
    "TITLE_TOO_LONG": _title_too_long,
    "UNKNOWN_JOIN_MODE": _choice(JOIN_MODES),
    "UNKNOWN_ERROR_HANDLING": _choice(ERROR_HANDLINGS),
    "ERROR_EDGE_NEVER_TAKEN": _error_edge_never_taken,
    "CONTINUE_WITHOUT_ERROR_EDGE": _continue_without_edge,
    "LOOP_SPINS": _loop_spins,
    "LOOP_NEVER_LEFT": _loop_never_left,
    "EXIT_RUNS_ONCE": _exit_runs_once,
}
