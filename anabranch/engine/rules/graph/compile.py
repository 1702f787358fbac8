"""Compilation: turn a valid definition into the `Plan` that the rules walk.

Pure. Called once per workflow version in a process. It does not validate again, and does not need the node types that
existed when the workflow was saved: a missing type has the handles that its edges use, and its node fails when it is
reached.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from anabranch.engine.rules.callbacks import CALLBACK_TYPE, callbacks_in_reach
from anabranch.engine.rules.entry_points import START_TYPE, WEBHOOK_TYPE
from anabranch.engine.rules.event_payloads import NODE_DISABLED, NODE_PINNED
from anabranch.engine.rules.events import DEFAULT_HANDLE, DONE_HANDLE, ERROR_HANDLE
from anabranch.engine.rules.graph import pools
from anabranch.engine.rules.graph.control_flow.loop_entries import original_of
from anabranch.engine.rules.graph.control_flow.structure import Structure, structure_of
from anabranch.engine.rules.graph.document import Graph, GraphEdge, GraphNode, parse
from anabranch.engine.rules.graph.loop_config import CURSOR_TYPE, LOOP_TYPE, concurrency, is_while, iterations_max
from anabranch.engine.rules.graph.node_checks import handles_of
from anabranch.engine.rules.graph.node_types import BUILTIN_TYPES, NodeTypes
from anabranch.engine.rules.graph.plan import (
    AGAIN,
    START_OUTPUT_BYTES_MAX,
    Body,
    Evaluator,
    GivenResult,
    LeavingEdge,
    LoopSpec,
    Plan,
    PlanEdge,
    PlanNode,
    PlanRegion,
    RegionExit,
)
from anabranch.engine.rules.graph.pools import DEFAULT_POOL
from anabranch.engine.rules.graph.priorities import NORMAL
from anabranch.engine.rules.graph.validate import refusal_of
from anabranch.engine.rules.templates.template import Template, compile_template
from anabranch.engine.rules.test_runs import WHOLE, Pin, TestRunPlan
from anabranch.engine.rules.values import NULL, WEBHOOK_INPUT_BYTES_MAX, Payload

# 30 seconds, the timeout of every type that sets no other.
DEFAULT_TIMEOUT_MS = 30_000

# 10 minutes: a test run waits for a request that somebody is about to send.
LISTENS_MS = 600_000

# For these types `config.timeout` replaces the node's timeout. It counts from the start of the code, without the wait
# for a free process.
CODE_TYPES = frozenset({"javascript", "python"})


def compile_plan(
    document: Mapping[str, Any], node_types: NodeTypes, test_run: TestRunPlan = WHOLE, *, evaluates: bool = True
) -> Plan:
    """The plan of a definition that was valid when it was saved, with the pins of a test run.

    With `evaluates`, decisions evaluate its pure nodes; without, they are executed as jobs. Raises InvalidWorkflow if
    its form or structure is invalid.
    """
    graph = parse(document)
    structure = structure_of(graph)
    if graph.errors or not structure.is_sound:
        raise refusal_of((*graph.errors, *structure.problems))
    if test_run.until is not None:
        structure = structure.up_to(test_run.until)
    graph = _listening(graph, test_run.listens)
    plan = _PlanCompiler(graph, structure, node_types, test_run.pins, evaluates=evaluates).compile()
    if test_run.listens in plan.nodes:
        plan.nodes[test_run.listens].is_input = True
    return plan


def _listening(graph: Graph, node_id: str | None) -> Graph:
    """The graph with a webhook that waits for a request, which becomes the input; None: the graph."""
    node = None if node_id is None else graph.nodes.get(node_id)
    if node_id is None or node is None:
        return graph
    waiting = replace(node, type=CALLBACK_TYPE, config={"timeout": LISTENS_MS})
    return replace(graph, nodes={**graph.nodes, node_id: waiting})


class _PlanCompiler:
    """Builds one plan: bodies first, then the nodes in topological order, then the edges."""

    def __init__(
        self,
        graph: Graph,
        structure: Structure,
        node_types: NodeTypes,
        pins: Mapping[str, Pin],
        *,
        evaluates: bool,
    ) -> None:
        self._graph = graph
        self._structure = structure
        self._node_types = node_types
        self._pins = pins
        self._evaluates = evaluates
        self._nodes: dict[str, PlanNode] = {}
        self._bodies: dict[str | None, Body] = {None: Body(loop=None)}
        self._regions: dict[str, PlanRegion] = {}
        """By the id of the header."""
        self._outgoing: defaultdict[str, list[GraphEdge]] = defaultdict(list)
        for edge in graph.edges:
            self._outgoing[edge.source].append(edge)

    def compile(self) -> Plan:
        """The plan: nodes in the order of their loops, edges with their exits, configs with compiled templates."""
        graph = self._graph
        # An outer loop comes before the nodes of its body, so the body of a node exists when the node is created. So
        # does the header of a region.
        for node_id in self._structure.order:
            self._nodes[node_id] = self._node(graph.nodes[node_id])
        self._connect()
        self._connect_regions()
        self._fill_bodies()
        kept = [node for node in graph.entry_points if node.id in self._nodes]
        self._give_callbacks()
        plan = Plan(
            nodes=self._nodes,
            entry_points=tuple(self._nodes[node.id] for node in kept),
            root=self._bodies[None],
            deadline_ms=graph.deadline_ms,
            retention_ms=graph.retention_ms,
            input_schema=graph.input_schema,
            trigger_schemas={node.id: schema for node in kept if (schema := self._schema_of(node)) is not None},
        )
        plan.needs = (*sorted(plan.types - BUILTIN_TYPES), *pools.needed(plan.pools))
        return plan

    def _schema_of(self, entry_point: GraphNode) -> Mapping[str, Any] | None:
        return self._graph.input_schema if entry_point.type == START_TYPE else entry_point.input_schema

    def _node(self, written: GraphNode) -> PlanNode:
        home = self._bodies[self._structure.homes[written.id]]
        around = self._structure.regions.around(written.id)
        if around and around[0] != written.id:
            home = self._regions[around[0]].body
        node = self._made(written, home) if written.mapping is None else self._mapped(written, written.mapping, home)
        if around and around[0] == written.id:
            outer = self._regions[around[1]].body if len(around) > 1 else home
            node.home = Body(loop=None, header=node, outer=outer)
            node.region = self._regions[written.id] = PlanRegion(node.home, written.max_passes)
        node.given = self._given(written, node)
        if node.given is not None:
            node.evaluate = None
        return node

    def _mapped(self, written: GraphNode, mapping: Mapping[str, Any], home: Body) -> PlanNode:
        """A loop over the list of the node, and the node as it runs for one item."""
        loop = replace(written, type=LOOP_TYPE, config=mapping, timeout_ms=None, heartbeat_ms=None)
        node = self._made(loop, home)
        node.handles, node.exits = frozenset({DEFAULT_HANDLE, ERROR_HANDLE}), frozenset({DEFAULT_HANDLE})
        body = Body(loop=node)
        once = replace(written, mapping=None, output_variable=None, join_any=False, error_handling="continue")
        item = self._made(once, body)
        item.has_error_edge = False  # the edges of the node leave its loop
        item.in_count, item.is_sink = 1, True
        body.nodes, body.entries, body.first = (item,), ((item, 1),), (item,)
        node.item, node.loop = item, _loop_spec(mapping, body, done_handle=DEFAULT_HANDLE)
        return node

    def _made(self, written: GraphNode, home: Body) -> PlanNode:
        used = {edge.handle for edge in self._outgoing[written.id]}
        handles, default_timeout_ms, knows_exits = self._facts(written, used)
        node = PlanNode(
            id=written.id,
            type=written.type,
            config=written.config,
            output_variable=written.output_variable,
            join_any=written.join_any,
            error_handling=written.error_handling,
            retry=written.retry,
            timeout_ms=_timeout_ms(written, default_timeout_ms),
            heartbeat_ms=written.heartbeat_ms,
            pool=self._pool(written),
            priority=written.priority or self._graph.priority or NORMAL,
            handles=handles,
            exits=handles - {ERROR_HANDLE},
            home=home,
            knows_exits=knows_exits,
            has_error_edge=ERROR_HANDLE in used,
            evaluate=self._evaluator(written) if self._evaluates else None,
        )
        if written.type == START_TYPE:
            node.output_bytes_max = START_OUTPUT_BYTES_MAX
        elif written.type == WEBHOOK_TYPE:
            node.output_bytes_max = WEBHOOK_INPUT_BYTES_MAX
        if written.type == LOOP_TYPE and written.mapping is None:
            body = self._bodies[written.id] = Body(loop=node)
            node.loop = _loop_spec(written.config, body)
        elif written.type == CURSOR_TYPE:
            node.is_cursor = True
        elif written.type == "end":
            node.is_end = True
            node.terminate = written.config.get("terminate") is True
            name = written.config.get("name")
            node.end_name = name if isinstance(name, str) else None
        return node

    def _given(self, written: GraphNode, node: PlanNode) -> GivenResult | None:
        """The result of a disabled or pinned node, which is not executed. A disabled End collects nothing and ends
        nothing."""
        handle = node.ignored_handle if node.exits else None
        if written.disabled:
            node.is_end = node.terminate = False
            return GivenResult(NULL, handle, NODE_DISABLED)
        pin = self._pins.get(written.id) or self._pins.get(original_of(written.id))
        if pin is None:
            return None
        return GivenResult(Payload.of(pin.output), handle if pin.handle is None else pin.handle, NODE_PINNED)

    def _facts(self, written: GraphNode, used: set[str]) -> tuple[frozenset[str], int | None, bool]:
        """The handles and the default timeout that the current node type defines; last whether it is known."""
        node_type = self._node_types.get(written.type)
        if node_type is None:
            return frozenset(used | {ERROR_HANDLE}), DEFAULT_TIMEOUT_MS, False
        try:
            return handles_of(written, node_type), node_type.default_timeout_ms, True
        except Exception:  # noqa: BLE001 - other people's code
            # A custom type no longer accepts a config that it once accepted: treated like a missing type.
            return frozenset(used | {ERROR_HANDLE}), node_type.default_timeout_ms, False

    def _pool(self, written: GraphNode) -> str:
        node_type = self._node_types.get(written.type)
        of_type = None if node_type is None else node_type.pool
        return written.pool or of_type or self._graph.pool or DEFAULT_POOL

    def _evaluator(self, written: GraphNode) -> Evaluator | None:
        node_type = self._node_types.get(written.type)
        if node_type is None:
            return None
        try:
            return node_type.evaluator(written.config)
        except Exception:  # noqa: BLE001 -- whatever is wrong with the config, its attempt will say so
            return None

    def _connect(self) -> None:
        structure, nodes = self._structure, self._nodes
        edges: defaultdict[str, list[PlanEdge]] = defaultdict(list)
        back_handles: defaultdict[str, set[str]] = defaultdict(set)
        regions = structure.regions
        staying = {id(edge) for edge in structure.forward if not self._left_by(edge)}
        # In document order, so that equal definitions make equal plans.
        for edge in self._graph.edges:
            if id(edge) in staying:
                edges[edge.source].append(PlanEdge(edge.handle, nodes[edge.target]))
        for edge in structure.forward + structure.entering:
            nodes[edge.target].in_count += 1
        for edge in structure.returning:
            if not regions.around(edge.source):
                back_handles[edge.source].add(edge.handle)
        for node_id, node in nodes.items():
            node.edges = tuple(edges[node_id])
            node.back_handles = frozenset(back_handles[node_id])
            # The `loop` edges of a loop stay inside it: its list is what it hands on, so it may be a sink.
            node.is_sink = not node.edges and not node.back_handles

    def _connect_regions(self) -> None:
        """Record for each edge that leaves a pass which exit of which region it is."""
        if not self._regions:
            return
        leaving: defaultdict[str, list[LeavingEdge]] = defaultdict(list)
        exits: defaultdict[str, list[RegionExit]] = defaultdict(list)
        structure = self._structure
        again = {id(edge) for edge in structure.again}
        returning = {id(edge) for edge in structure.returning}
        inner = {id(edge) for edge in (*structure.forward, *structure.again, *structure.returning)}
        for edge in self._graph.edges:
            if id(edge) not in inner:
                continue
            left = self._left_by(edge)
            source, number = self._nodes[edge.source], AGAIN
            for header in reversed(left):  # outermost first: each exit refers to the exit of the enclosing region
                if header == left[-1]:
                    found = RegionExit(
                        source,
                        edge.handle,
                        target=self._nodes[edge.target] if id(edge) not in again | returning else None,
                        returns=id(edge) in returning,
                    )
                else:
                    found = RegionExit(source, edge.handle, outer=number)
                number = len(exits[header])
                exits[header].append(found)
            if left or id(edge) in again:
                leaving[edge.source].append(LeavingEdge(edge.handle, number))
        for node_id, edges in leaving.items():
            self._nodes[node_id].leaving = tuple(edges)
            self._nodes[node_id].is_sink = False
        for header, region in self._regions.items():
            region.exits = tuple(exits[header])

    def _left_by(self, edge: GraphEdge) -> list[str]:
        """The headers of the regions that an edge leads out of, innermost first."""
        nodes = self._structure.regions.by_header
        return [
            header for header in self._structure.regions.around(edge.source) if edge.target not in nodes[header].nodes
        ]

    def _fill_bodies(self) -> None:
        members: defaultdict[int, list[PlanNode]] = defaultdict(list)
        for node_id in self._structure.order:
            node = self._nodes[node_id]
            members[id(node.home)].append(node)
            if node.region is not None:
                members[id(node.home.outer)].append(node)
        entries: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for edge in self._structure.entering:
            entries[edge.source][edge.target] += 1
        for region in self._regions.values():
            region.body.nodes = tuple(members[id(region.body)])
        for home, body in self._bodies.items():
            body.nodes = tuple(members[id(body)])
            if home is not None:
                body.entries = tuple((self._nodes[node_id], count) for node_id, count in entries[home].items())
                body.first = tuple(node for node, count in body.entries if node.join_any or node.in_count == count)

    def _give_callbacks(self) -> None:
        """Addresses are signed with a key, which only handlers are near: who reads one is no longer evaluated."""
        if all(node.type != CALLBACK_TYPE for node in self._nodes.values()):
            return
        for node in self._nodes.values():
            for each in (node,) if node.item is None else (node, node.item):
                each.callbacks = callbacks_in_reach(each)
                if each.callbacks:
                    each.evaluate = None


def _loop_spec(config: Mapping[str, Any], body: Body, *, done_handle: str = DONE_HANDLE) -> LoopSpec:
    repeats = is_while(config)
    return LoopSpec(
        mode="while" if repeats else "forEach",
        concurrency=concurrency(config),
        on_item_error=config.get("onItemError") or "fail",
        iterations_max=iterations_max(config),
        condition=_template(config.get("while")) if repeats else None,
        yields=_template(config.get("yield")),
        body=body,
        done_handle=done_handle,
    )


def _template(text: Any) -> Template | None:
    return compile_template(text) if isinstance(text, str) else None


def _timeout_ms(node: GraphNode, default_ms: int | None) -> int | None:
    if node.type in CODE_TYPES and node.config.get("timeout") is not None:
        return None  # enforced by the handler: only the time of the code counts, and it ends with its own error
    return default_ms if node.timeout_ms is None else node.timeout_ms
