"""Warnings about a valid workflow, and the maximum size of its runs. Pure.

Called by `validate` once the structure is sound. A warning holds for every possible run; in case of doubt there is
none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import Any

from anabranch.engine.rules.callbacks import CALLBACK_TYPE, CALLBACKS_NAME
from anabranch.engine.rules.entry_points import ENTRY_POINT_TYPES, START_TYPE, WEBHOOK_TYPE
from anabranch.engine.rules.events import (
    DEFAULT_HANDLE,
    DONE_HANDLE,
    ELSE_HANDLE,
    ERROR_HANDLE,
    LOOP_HANDLE,
    TIMEOUT_HANDLE,
)
from anabranch.engine.rules.graph.control_flow.flow import Flow, NodeSet
from anabranch.engine.rules.graph.control_flow.loop_entries import is_copy
from anabranch.engine.rules.graph.control_flow.regions import Region
from anabranch.engine.rules.graph.control_flow.structure import Structure, loops_around
from anabranch.engine.rules.graph.document import Graph, GraphEdge, GraphNode
from anabranch.engine.rules.graph.known_fields import did_you_mean, slip_of
from anabranch.engine.rules.graph.loop_config import CURSOR_TYPE, FOR_EACH, LOOP_TYPE, is_while, iterations_max
from anabranch.engine.rules.graph.plan import NODE_OUTPUT_PREFIX, ignored_handle
from anabranch.engine.rules.graph.problems import Problem, quoted
from anabranch.engine.rules.responses import RESPOND_TYPE
from anabranch.engine.rules.templates.path import Path
from anabranch.engine.rules.templates.template import compile_template, config_templates
from anabranch.errors import TemplateError

# Above 2^53 - 1 JavaScript rounds integers silently, so no number is given.
ACTIVATIONS_MAX = 2**53 - 1

# 5 names in a message: enough to see which variable is meant.
NODES_SHOWN = 5

ALWAYS_GIVEN = frozenset({"input", "secret"})
LOOP_VARIABLES = frozenset({"item", "index", "count"})
WHILE_VARIABLES = frozenset({"results"})

# The code of these types is not a template, even if it contains braces.
CODE_FIELD = "code"
CODE_TYPES = frozenset({"javascript", "python"})

# Types that wait for a time, a signal or another run: a loop through one of these does not spin.
WAITING_TYPES = frozenset({"delay", "waitForEvent", CALLBACK_TYPE, "workflow"})

# A node that only leaves by these handles makes no choice.
_ONLY_HANDLES = frozenset({DEFAULT_HANDLE, DONE_HANDLE, LOOP_HANDLE})

# Every type but these has an `error` handle; an error edge is impossible there.
TYPES_WITHOUT_ERROR = ENTRY_POINT_TYPES | {"end"}


def warnings_of(graph: Graph, structure: Structure) -> list[Problem]:
    """Everything worth a warning in a sound graph."""
    flow = Flow(graph, structure)
    found = [
        *_unreachable(graph, structure),
        *_error_edges(graph, structure),
        *_timeouts(graph, structure),
        *_never_live(graph, flow),
        *_parallel_writers(graph, structure, flow),
        *_never_written(graph, structure, flow),
        *_input_not_in_schema(graph, structure),
        *_regions(graph, structure),
        *_passes_without_region(graph, structure),
        *_cursors_without_region(graph, structure),
        *_responses(graph, flow),
        *_open_webhooks(graph),
    ]
    # What is odd about a copy is odd about the node.
    return [*_side_entries(structure), *(problem for problem in found if not is_copy(problem.node_id))]


def activations_max(graph: Graph, structure: Structure) -> int | None:
    """The maximum number of activations of a run; None if it is too large."""
    # A loop and the header of a region come before what is inside them.
    times: dict[str, int] = {}
    for node_id in structure.order:
        home = structure.homes[node_id]
        bound = 1 if home is None else times[home] * _iterations_max(graph.nodes[home])
        for header in structure.regions.around(node_id):
            bound *= graph.nodes[header].max_passes
        times[node_id] = bound
    mapped = (node_id for node_id in times if graph.nodes[node_id].mapping is not None)
    items = sum(times[node_id] * _iterations_max(graph.nodes[node_id]) for node_id in mapped)
    total = sum(times.values()) + items
    return total if total <= ACTIVATIONS_MAX else None


def _iterations_max(loop: GraphNode) -> int:
    """How many iterations a loop or a mapped node may have."""
    return 0 if loop.disabled else iterations_max(loop.config if loop.mapping is None else loop.mapping)


def _unreachable(graph: Graph, structure: Structure) -> Iterator[Problem]:
    for node_id in structure.unreachable:
        message = f"no way leads from {_ways_in(graph)} to {quoted(node_id)}: it will not run"
        yield Problem("UNREACHABLE_NODE", message, graph.nodes[node_id].pointer, node_id)


def _ways_in(graph: Graph) -> str:
    return "the start" if [node.type for node in graph.entry_points] == [START_TYPE] else "any entry point"


def _error_edges(graph: Graph, structure: Structure) -> Iterator[Problem]:
    edges = (*structure.forward, *structure.again, *structure.returning)
    error_edges = {edge.source: edge for edge in edges if edge.handle == ERROR_HANDLE}
    for node_id in structure.order:
        node = graph.nodes[node_id]
        if node.disabled:
            continue  # it cannot fail
        edge = error_edges.get(node_id)
        if node.error_handling != "continue":
            if edge is not None:
                message = f"{edge.shown} is never taken: the error handling is {node.error_handling!r}"
                hint = "Use `continue` to take the edge on a failure, or remove the edge."
                yield Problem("ERROR_EDGE_NEVER_TAKEN", message, edge.pointer, node_id, edge.id, hint)
        elif edge is None and node.error_handling_written and node.type not in TYPES_WITHOUT_ERROR:
            message = f"{quoted(node_id)} asks to continue on a failure, but no `error` edge says where"
            hint = "Draw an edge from its `error` handle, or use `ignore`; without either a failure ends the run."
            yield Problem("CONTINUE_WITHOUT_ERROR_EDGE", message, node.pointer, node_id, hint=hint)


def _timeouts(graph: Graph, structure: Structure) -> Iterator[Problem]:
    wired = {edge.source for edge in structure.forward + structure.returning if edge.handle == TIMEOUT_HANDLE}
    for node_id in structure.order:
        node = graph.nodes[node_id]
        is_timed = node.type == CALLBACK_TYPE or (
            node.type == "waitForEvent" and node.config.get("timeout") is not None
        )
        if is_timed and not node.disabled and node.mapping is None and node_id not in wired:
            message = (
                f"no edge says what follows when {quoted(node_id)} has waited in vain: the run goes no further there"
            )
            hint = "Draw an edge from its `timeout` handle, or leave the timeout out."
            if node.type == CALLBACK_TYPE:
                hint = "Draw an edge from its `timeout` handle."
            yield Problem("TIMEOUT_NOT_WIRED", message, node.pointer, node_id, hint=hint)


def _responses(graph: Graph, flow: Flow) -> Iterator[Problem]:
    """`respond` nodes that no webhook waits for, and webhooks that wait for one in vain."""
    webhooks = [node for node in graph.entry_points if node.type == WEBHOOK_TYPE and not node.disabled]
    awaiting = [node for node in webhooks if node.config.get("respond") == "respondNode"]
    responding = [
        node_id for node_id in flow.behind if graph.nodes[node_id].type == RESPOND_TYPE and not is_copy(node_id)
    ]
    awaited = flow.node_set(node.id for node in awaiting)
    answered: NodeSet = 0
    for node_id in responding:
        node = graph.nodes[node_id]
        if node.disabled:
            continue
        answered |= flow.behind[node_id]
        if not flow.behind[node_id] & awaited:
            message = f"no webhook that leads to {quoted(node_id)} waits for its response: it answers nobody"
            hint = "Set `respond` of the webhook to `respondNode`."
            yield Problem("RESPOND_NEVER_AWAITED", message, node.pointer, node_id, hint=hint)
    for node in awaiting:
        if not flow.node_set([node.id]) & answered:
            message = f"{quoted(node.id)} waits for a respond node, and leads to none: its callers get NO_RESPONSE"
            hint = "Put a `respond` node behind it, or let it answer at once or at the end."
            yield Problem("NO_RESPOND_NODE", message, f"{node.pointer}/config/respond", node.id, hint=hint)


def _open_webhooks(graph: Graph) -> Iterator[Problem]:
    """Webhooks without authentication."""
    for node in graph.entry_points:
        if node.type == WEBHOOK_TYPE and not node.disabled and _auth_kind(node) == "none":
            message = f"everybody who knows the path of {quoted(node.id)} can start runs: it has no authentication"
            hint = "Set `auth`, or choose a long random path."
            yield Problem("WEBHOOK_OPEN", message, f"{node.pointer}/config", node.id, hint=hint)


def _auth_kind(webhook: GraphNode) -> Any:
    auth = webhook.config.get("auth")
    return auth.get("kind") if isinstance(auth, dict) else "none"


def never_live(graph: Graph, flow: Flow) -> list[GraphEdge]:
    """The edges that no run can ever take."""
    used: defaultdict[str, set[str]] = defaultdict(set)
    for edge in graph.edges:
        used[edge.source].add(edge.handle)
    impossible = {node_id: _impossible_handles(node, used[node_id]) for node_id, node in graph.nodes.items()}
    return flow.edges_never_live(lambda node_id, handle: handle not in impossible[node_id])


def _never_live(graph: Graph, flow: Flow) -> Iterator[Problem]:
    for edge in never_live(graph, flow):
        source = graph.nodes[edge.source]
        if edge.handle == ERROR_HANDLE and source.error_handling != "continue" and not source.disabled:
            continue  # reported as ERROR_EDGE_NEVER_TAKEN
        yield Problem("EDGE_NEVER_LIVE", f"{edge.shown} is never taken", edge.pointer, edge.source, edge.id)


def _impossible_handles(node: GraphNode, used: set[str]) -> set[str]:
    """Handles that a node with this config never completes by."""
    if node.disabled:
        return used - {ignored_handle(node.type)}
    handles = set() if node.error_handling == "continue" else {ERROR_HANDLE}
    if node.type == "condition":
        handles |= _impossible_branches(node)
    elif node.type == "waitForEvent" and node.config.get("timeout") is None:
        handles.add(TIMEOUT_HANDLE)
    elif node.type == LOOP_TYPE and node.config.get("source") == [] and not is_while(node.config):
        handles.add(LOOP_HANDLE)
    return handles


def _impossible_branches(node: GraphNode) -> set[str]:
    """Branches that are literally false, or come after a literally true one."""
    branches = node.config.get("branches")
    possible: set[str] = set()
    seen: set[str] = set()
    decided = may_fail = False
    for branch in branches if isinstance(branches, list) else []:
        if not isinstance(branch, dict) or not isinstance(branch.get("id"), str):
            return set()
        truth = _literal_truth(branch.get("expression"))
        seen.add(branch["id"])
        if not decided and truth is not False:
            possible.add(branch["id"])
        may_fail = may_fail or (truth is None and not decided)
        decided = decided or truth is True
    # An ignored failure makes `else` live, whatever the branches say.
    if decided and not (may_fail and node.error_handling == "ignore"):
        seen.add(ELSE_HANDLE)
    return seen - possible


def _literal_truth(expression: Any) -> bool | None:
    """The constant boolean value of an expression; None if it is not constant or not boolean."""
    value = expression
    if isinstance(expression, str):
        try:
            template = compile_template(expression)
            value = template.resolve({}) if template.is_expression and template.is_constant else None
        except TemplateError:
            return None
    return value if isinstance(value, bool) else None


def _parallel_writers(graph: Graph, structure: Structure, flow: Flow) -> Iterator[Problem]:
    writers: defaultdict[tuple[str | None, str], list[str]] = defaultdict(list)
    for node_id in structure.order:
        variable = graph.nodes[node_id].output_variable
        if variable is not None:
            writers[structure.homes[node_id], variable].append(node_id)
    for (_, variable), node_ids in writers.items():
        if len(node_ids) < 2:
            continue
        everyone = flow.node_set(node_ids)
        for node_id in node_ids:
            together = flow.may_run_together(node_id, everyone)
            if together:
                some = list(islice(flow.members(together), NODES_SHOWN))
                yield _parallel_writer(graph.nodes[node_id], variable, some, count=together.bit_count())


def _parallel_writer(node: GraphNode, variable: str, others: list[str], *, count: int) -> Problem:
    shown = ", ".join(quoted(other) for other in others)
    if count > len(others):
        shown += f" and {count - len(others)} more"
    message = f"{quoted(node.id)} may run at the same time as {shown}, and both write {quoted(variable)}"
    hint = "The one that ends later wins. Give them different variables, or let one wait for the other."
    return Problem("PARALLEL_WRITERS", message, node.pointer + "/outputVariable", node.id, hint=hint)


def _never_written(graph: Graph, structure: Structure, flow: Flow) -> Iterator[Problem]:
    writers: defaultdict[str, NodeSet] = defaultdict(int)
    bodies: defaultdict[str | None, NodeSet] = defaultdict(int)
    for node_id in structure.order:
        node_set = flow.node_set([node_id])
        bodies[structure.homes[node_id]] |= node_set
        for variable in (graph.nodes[node_id].output_variable, NODE_OUTPUT_PREFIX + node_id):
            if variable is not None:
                writers[variable] |= node_set
    waits = any(node.type == CALLBACK_TYPE for node in graph.nodes.values())
    for node_id in structure.order:
        node = graph.nodes[node_id]
        loops = [graph.nodes[loop] for loop in loops_around(node_id, structure.homes)]
        warned: set[str] = {CALLBACKS_NAME} if waits else set()
        for pointer, variable in _reads(node):
            before, around = flow.behind[node_id], loops
            if node.type == LOOP_TYPE and pointer in ("/config/while", "/config/yield"):
                # A loop evaluates these within its iterations; `yield` when the body has ended.
                around = [node, *loops]
                before |= bodies[node_id] if pointer == "/config/yield" else 0
            elif node.mapping is not None and not pointer.startswith(f"/{FOR_EACH}"):
                around = [node, *loops]
            if variable in warned or variable in _given(around) or writers.get(variable, 0) & before:
                continue
            warned.add(variable)
            message = f"{quoted(node_id)} reads {quoted('ctx.' + variable)}, which no node before it writes"
            hint = f"Set it as the outputVariable of a node that leads to {quoted(node_id)}."
            yield Problem("VARIABLE_NEVER_WRITTEN", message, node.pointer + pointer, node_id, hint=hint)


def _regions(graph: Graph, structure: Structure) -> Iterator[Problem]:
    """Warnings about loops that are drawn without a loop node."""
    outgoing: defaultdict[str, list[GraphEdge]] = defaultdict(list)
    for edge in graph.edges:
        outgoing[edge.source].append(edge)
    for header, region in structure.regions.by_header.items():
        pointer, again = graph.nodes[header].pointer, region.again[0]
        has_choice = any(edge.handle not in _ONLY_HANDLES for node_id in region.nodes for edge in outgoing[node_id])
        if (not region.exits or not has_choice) and _leads_back(graph, region, outgoing):
            message = f"{again.shown} leads back, and nothing in the loop at {quoted(header)} decides to leave it"
            if has_choice:
                message = f"{again.shown} leads back, and no edge leads out of the loop at {quoted(header)}"
            hint = "Let a condition lead out of the loop by one of its handles."
            yield Problem("LOOP_NEVER_LEFT", message, pointer, header, again.id, hint)
        if _spins(graph, region, outgoing):
            message = f"the loop at {quoted(header)} can run again at once: nothing on the way back waits"
            hint = f"Put a delay before {again.shown}; the loop ends at {graph.nodes[header].max_passes} passes."
            yield Problem("LOOP_SPINS", message, pointer, header, again.id, hint)
        for edge in region.run_once:
            message = f"{edge.shown} leads out of the loop at {quoted(header)} while that may go on"
            hint = f"{quoted(edge.target)} runs once, after the loop; in each pass, if only the loop leads there."
            yield Problem("EXIT_RUNS_ONCE", message, edge.pointer, edge.source, edge.id, hint)


def _spins(graph: Graph, region: Region, outgoing: Mapping[str, list[GraphEdge]]) -> bool:
    """Whether a way leads from the header back to it without a node that waits for something."""
    waiting = {
        node_id
        for node_id in region.nodes
        if graph.nodes[node_id].type in WAITING_TYPES and not graph.nodes[node_id].disabled
    }
    return _leads_back(graph, region, outgoing, past=waiting)


def _leads_back(
    graph: Graph, region: Region, outgoing: Mapping[str, list[GraphEdge]], *, past: Collection[str] = ()
) -> bool:
    """Whether a way leads from the header back to it that passes none of these nodes, and takes no batch of a cursor.

    A cursor has no more of them at the end of its list.
    """
    allowed = region.nodes.difference(past)
    found, stack = {region.header}, [region.header] if region.header in allowed else []
    while stack:
        for edge in outgoing[stack.pop()]:
            if edge.handle == LOOP_HANDLE and graph.nodes[edge.source].type == CURSOR_TYPE:
                continue
            if edge.target == region.header:
                return True
            if edge.target in allowed and edge.target not in found:
                found.add(edge.target)
                stack.append(edge.target)
    return False


def _side_entries(structure: Structure) -> Iterator[Problem]:
    for edge in structure.side_entries:
        message = f"{edge.shown} leads into a loop elsewhere than at its cursor"
        hint = f"What follows from {quoted(edge.target)}, up to the cursor, runs once before the loop as well."
        yield Problem("ENTERED_BEFORE_CURSOR", message, edge.pointer, edge.source, edge.id, hint)


def _cursors_without_region(graph: Graph, structure: Structure) -> Iterator[Problem]:
    for node_id in structure.order:
        node = graph.nodes[node_id]
        if node.type == CURSOR_TYPE and not node.disabled and not structure.regions.around(node_id):
            message = f"no edge leads back to {quoted(node_id)}: it hands out the first batch and no other"
            hint = f"Lead from what its {LOOP_HANDLE!r} handle leads to back to it, or use a loop node."
            yield Problem("CURSOR_WITHOUT_LOOP", message, node.pointer, node_id, hint=hint)


def _passes_without_region(graph: Graph, structure: Structure) -> Iterator[Problem]:
    for node_id in structure.order:
        node = graph.nodes[node_id]
        if node.max_passes_written and node_id not in structure.regions.by_header:
            message = f"`maxPasses` has no effect: no edge leads back to {quoted(node_id)}"
            yield Problem("FIELD_WITHOUT_EFFECT", message, node.pointer + "/maxPasses", node_id)


def _input_not_in_schema(graph: Graph, structure: Structure) -> Iterator[Problem]:
    """Warnings about templates that read an input field that the input schema does not allow, or spells differently."""
    schema = graph.input_schema
    if schema is None:
        return
    for node_id in structure.order:
        node = graph.nodes[node_id]
        warned: set[Path] = set()
        for pointer, path in _paths(node):
            found = _outside(schema, path[1:]) if path[0] == "input" else None
            if found is None or found[0] in warned:
                continue
            steps, hint = found
            warned.add(steps)
            shown = ".".join(("ctx.input", *steps))
            message = f"{quoted(node_id)} reads {quoted(shown)}, which the inputSchema does not have"
            yield Problem("INPUT_NOT_IN_SCHEMA", message, node.pointer + pointer, node_id, hint=hint)


def _outside(schema: Any, path: Path) -> tuple[Path, str] | None:
    """The place where a path leaves the fields of a schema, and a suggestion; None if it may be valid.

    It is invalid if the schema allows no other fields, and probably invalid if the name is a misspelling of one of its
    fields.
    """
    for count, step in enumerate(path, start=1):
        if not isinstance(schema, Mapping):
            return None
        fields = schema.get("properties")
        fields = fields if isinstance(fields, Mapping) else {}
        if step in fields:
            schema = fields[step]
            continue
        if "patternProperties" in schema:
            return None
        if schema.get("additionalProperties") is False:
            has = f"It has {', '.join(map(quoted, sorted(fields)[:NODES_SHOWN])) or 'no fields'}."
            return path[:count], did_you_mean(step, fields) or has
        slip = None if _MORE_FIELDS & schema.keys() else slip_of(step, fields)
        return None if slip is None else (path[:count], slip)
    return None


# Keywords that may allow fields beyond `properties`.
_MORE_FIELDS = frozenset(
    {"$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "then", "else", "dependentSchemas", "additionalProperties"}
)


def _given(loops: list[GraphNode]) -> frozenset[str]:
    """Names that the engine provides inside these loops."""
    if not loops:
        return ALWAYS_GIVEN
    in_while = any(is_while(loop.config) for loop in loops)
    return ALWAYS_GIVEN | LOOP_VARIABLES | (WHILE_VARIABLES if in_while else frozenset())


def _reads(node: GraphNode) -> Iterator[tuple[str, str]]:
    """(pointer inside the node, name in ctx) of every template that needs a name of the context."""
    for pointer, path in _paths(node):
        yield pointer, path[0]


def _paths(node: GraphNode) -> Iterator[tuple[str, Path]]:
    """(pointer inside the node, path in ctx) of everything that the node's templates read from the context."""
    if node.disabled:
        return  # it is not evaluated
    config = node.config
    if node.type in CODE_TYPES:
        config = {name: value for name, value in config.items() if name != CODE_FIELD}
    written = {"config": config} if node.mapping is None else {FOR_EACH: node.mapping["source"], "config": config}
    for pointer, template in config_templates(written):
        for path in sorted(template.needs):
            if path:
                yield pointer, path
