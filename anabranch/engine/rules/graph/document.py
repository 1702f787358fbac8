"""Parse a workflow document, and collect every problem of form.

Pure. `parse` is the first step of `validate` and of `compile_plan`. It knows the fields of the document, their defaults
and limits. It knows neither node types nor the shape of the graph (`structure` does). What cannot be read is left out
of the graph and reported as a problem.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from anabranch.dataclass import dataclass
from anabranch.deferred import deferred
from anabranch.engine.rules.entry_points import ENTRY_POINT_TYPES, INPUT_SCHEMA, SINGLE_TYPES, START_TYPE, TRIGGER_TYPES
from anabranch.engine.rules.events import DEFAULT_HANDLE
from anabranch.engine.rules.graph.fields import FieldReader
from anabranch.engine.rules.graph.known_fields import (
    EDGE_FIELDS,
    NODE_FIELDS,
    OPTION_FIELDS,
    SERVER_FIELDS,
    WORKFLOW_FIELDS,
)
from anabranch.engine.rules.graph.loop_config import FOR_EACH, MAPPING_FIELDS, NEVER_MAPPED, is_list_or_template
from anabranch.engine.rules.graph.node_types import NodeTypes, config_fields
from anabranch.engine.rules.graph.pools import POOL_NAME_PATTERN, is_pool_name
from anabranch.engine.rules.graph.priorities import PRIORITIES
from anabranch.engine.rules.graph.problems import Problem, pointer_to, quoted
from anabranch.engine.rules.graph.source_texts import plain, refuse_large_texts
from anabranch.engine.rules.shared.retry import DEFAULT_RETRY, RetryPolicy
from anabranch.engine.rules.values import Payload, kind_of
from anabranch.errors import AnabranchError, ValueTooLarge

if TYPE_CHECKING:
    from anabranch.engine.rules.schema import json_schema
else:
    json_schema = deferred("anabranch.engine.rules.schema.json_schema")

# 2,000 nodes and 10,000 edges are more than a person can draw or read. Programs that generate graphs should use loops
# or child runs instead.
NODES_MAX = 2_000
EDGES_MAX = 10_000

# 4 MB: the limit of one commit, because the definition of a test run is in its log. A typical graph of 2,000 nodes has
# a quarter of that.
DOCUMENT_BYTES_MAX = 4 * 1_048_576

# 16 MB: documents saved before there was a limit still run; no request could be larger.
STORED_BYTES_MAX = 16 * 1_048_576

# 255 characters: a title is one line of a list.
TITLE_LENGTH_MAX = 255

# 64 and 128 characters: they appear in paths, in log rows and on the canvas.
NAME_LENGTH_MAX = 64
NODE_ID_LENGTH_MAX = 128

# 255 characters, as for every other indexed key.
VARIABLE_LENGTH_MAX = 255

JOIN_MODES = ("all", "any")
ERROR_HANDLINGS = ("continue", "ignore", "fail_workflow")

# 1,000 passes, as for `while`: the usual mistake is a condition that never turns false. At most 100,000, as iterations:
# each pass leaves rows.
PASSES_MAX_DEFAULT = 1_000
PASSES_MAX = 100_000

RESERVED_VARIABLES = frozenset({"input", "output", "item", "index", "count", "results", "secret"})
"""Names of the context that the engine gives; `__` anywhere in a name is reserved too."""

FORBIDDEN_KEYS = frozenset({"__proto__", "constructor", "prototype"})

_NAME = re.compile(rf"[a-z0-9][a-z0-9_-]{{0,{NAME_LENGTH_MAX - 1}}}")
_NODE_ID_FORBIDDEN = re.compile(r"[/\[\]#@\x00-\x1f\x7f-\x9f]")


@dataclass(slots=True, eq=False)
class GraphNode:
    """A node as written, with defaults filled in where they do not depend on its type."""

    id: str
    type: str
    """"" where the document names none."""
    pointer: str
    config: Mapping[str, Any] = field(default_factory=dict)
    config_readable: bool = True
    """False if the document's config is not an object: then nothing more is asked about it."""
    output_variable: str | None = None
    join_any: bool = False
    error_handling: str = "continue"
    error_handling_written: bool = False
    """True if the author chose the error handling, even if what they chose is the default."""
    retry: RetryPolicy = DEFAULT_RETRY
    timeout_ms: int | None = None
    """None: not written; the type's default holds."""
    heartbeat_ms: int | None = None
    """How long an attempt may be silent; None: for ever."""
    pool: str | None = None
    """The pool whose workers execute it; None: not written."""
    priority: str | None = None
    """Its priority among jobs of executors; None: not written."""
    max_passes: int = PASSES_MAX_DEFAULT
    """How often a loop that begins at the node runs at most."""
    max_passes_written: bool = False
    for_each: Any = None
    """What the document says of that, right or wrong."""
    mapping: Mapping[str, Any] | None = None
    """Of a mapped node: the config of the loop that it is the body of. None: it runs once."""
    disabled: bool = False
    """It completes at once, unexecuted; a trigger never begins a run. Never of `start`."""
    disabled_written: Any = None
    """What the document says of that."""
    input_schema: Mapping[str, Any] | None = None
    """Of a trigger: the JSON Schema of its payload."""


@dataclass(slots=True, eq=False)
class GraphEdge:
    """An edge between two existing nodes that does not lead to an entry point."""

    source: str
    handle: str
    target: str
    pointer: str
    id: str | None = None

    @property
    def shown(self) -> str:
        """The name of the edge in messages."""
        by = "" if self.handle == DEFAULT_HANDLE else f" by {quoted(self.handle)}"
        return f"edge {quoted(self.source)} → {quoted(self.target)}{by}"


@dataclass(slots=True, eq=False)
class Graph:
    """The readable parts of a definition."""

    title: str | None = None
    name: str | None = None
    nodes: dict[str, GraphNode] = field(default_factory=dict)
    """By id; of several nodes with one id the first."""
    edges: list[GraphEdge] = field(default_factory=list)
    entry_points: list[GraphNode] = field(default_factory=list)
    """Where runs may begin, in document order."""
    input_schema: Mapping[str, Any] | None = None
    retention_ms: int | None = None
    deadline_ms: int | None = None
    pool: str | None = None
    """The pool of nodes that name none."""
    priority: str | None = None
    """The priority of nodes that name none."""
    errors: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)


def parse(document: Any, node_types: NodeTypes | None = None, *, bytes_max: int = STORED_BYTES_MAX) -> Graph:
    """The graph of a definition, with the problems of its form in `errors` and `warnings`.

    Accepts any value and raises nothing. If a limit of size or depth is exceeded, only that is reported. With
    `node_types`, a warning says which unknown fields belong in the node's config.
    """
    graph = Graph()
    try:
        # Check and copy in one: the code below may recurse, and may rely on keys and texts.
        values = Payload.of(plain(document), bytes_max=bytes_max).value
        refuse_large_texts(document, bytes_max)
        document = values
    except ValueTooLarge as refusal:
        graph.errors.append(Problem("DOCUMENT_TOO_LARGE", f"the document: {refusal.message}", hint=refusal.advice))
        return graph
    except AnabranchError as refusal:
        graph.errors.append(Problem("NOT_STORABLE", refusal.message, hint=refusal.advice))
        return graph
    if not isinstance(document, dict):
        graph.errors.append(Problem("WRONG_TYPE", f"a workflow is an object, not {kind_of(document)}"))
        return graph
    graph.errors.extend(_forbidden_keys(document))
    _DocumentReader(graph, node_types).read(document)
    return graph


def derive_name(title: str) -> str:
    """A legal workflow name made from a title: `Order triage` → `order-triage`; `workflow` if nothing is left."""
    plain = unicodedata.normalize("NFKD", title[:STORED_BYTES_MAX]).encode("ascii", "ignore").decode().lower()
    words = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")
    return words[:NAME_LENGTH_MAX].rstrip("-") or "workflow"


def is_name(text: str) -> bool:
    """Whether the text has the form of a workflow name."""
    return _NAME.fullmatch(text) is not None


class _DocumentReader(FieldReader):
    """Reads one document into one graph: a method per kind of object."""

    def __init__(self, graph: Graph, node_types: NodeTypes | None) -> None:
        super().__init__(graph.errors, graph.warnings)
        self._graph = graph
        self._node_types = node_types
        self._edge_ids: set[str] = set()

    def read(self, document: dict[str, Any]) -> None:
        """Read the whole document."""
        graph = self._graph
        self.note_unknown(document, "workflow", "", known=WORKFLOW_FIELDS, passed_over=SERVER_FIELDS)
        graph.title = self.text(document, "title", "")
        graph.name = self._name(document)
        self._options(document)
        nodes = self.items(document, "nodes", "", required=True)
        edges = self.items(document, "edges", "", required=False)
        if len(nodes) > NODES_MAX:
            self.error("TOO_MANY_NODES", f"{len(nodes)} nodes; the limit is {NODES_MAX}", "/nodes")
            return
        if len(edges) > EDGES_MAX:
            self.error("TOO_MANY_EDGES", f"{len(edges)} edges; the limit is {EDGES_MAX}", "/edges")
            return
        for index, node in enumerate(nodes):
            self._node(node, pointer_to("nodes", index))
        self._check_entry_points()
        for index, edge in enumerate(edges):
            self._edge(edge, pointer_to("edges", index))

    # -- the workflow ---------------------------------------------------------------------
    def _name(self, document: dict[str, Any]) -> str | None:
        name = self.text(document, "name", "")
        if name is None or is_name(name):
            return name
        message = f"the name {quoted(name)} must match [a-z0-9][a-z0-9_-]{{0,{NAME_LENGTH_MAX - 1}}}"
        self.error("BAD_NAME", message, "/name", hint=f"{derive_name(name)!r} would do.")
        return None

    def _options(self, document: dict[str, Any]) -> None:
        options = document.get("workflowOptions")
        pointer = "/workflowOptions"
        if options is None:
            return
        if not isinstance(options, dict):
            self.wrong_type(pointer, "an object", options)
            return
        self.note_unknown(options, "workflowOptions", pointer, known=OPTION_FIELDS)
        graph = self._graph
        graph.retention_ms = self.duration_ms(options, "retention", pointer, code="BAD_RETENTION")
        graph.deadline_ms = self.duration_ms(options, "deadline", pointer, code="BAD_DEADLINE")
        graph.pool = self._pool(options, pointer)
        graph.priority = self.choice(options, "priority", pointer, among=PRIORITIES, code="BAD_PRIORITY")
        graph.input_schema = self._input_schema(options, pointer)

    def _pool(self, holder: dict[str, Any], pointer: str, *, node_id: str | None = None) -> str | None:
        name = self.text(holder, "pool", pointer, node_id=node_id)
        if name is None or is_pool_name(name):
            return name
        message = f"the pool {quoted(name)} must match {POOL_NAME_PATTERN}"
        hint = "A worker names the same pool: `anabranch worker --pools gpu,default`."
        self.error("BAD_POOL", message, pointer + "/pool", node_id=node_id, hint=hint)
        return None

    def _input_schema(
        self, holder: Mapping[str, Any], pointer: str, *, node_id: str | None = None
    ) -> Mapping[str, Any] | None:
        schema = holder.get(INPUT_SCHEMA)
        if schema is None:
            return None
        problems = json_schema.schema_problems(schema) if isinstance(schema, dict) else [("", "it must be an object")]
        for inner, message in problems:
            whole = f"{pointer}/{INPUT_SCHEMA}{inner}"
            self.error("BAD_INPUT_SCHEMA", f"the input schema: {message}", whole, node_id=node_id)
        return None if problems else schema

    def _check_entry_points(self) -> None:
        entry_points = [node for node in self._graph.nodes.values() if node.type in ENTRY_POINT_TYPES]
        self._graph.entry_points = entry_points
        if not entry_points:
            hint = "Add a start node or a trigger; runs begin there."
            self.error("NO_START", "no node of type 'start' and no trigger", "/nodes", hint=hint)
        for type_name in SINGLE_TYPES:
            of_type = [node for node in entry_points if node.type == type_name]
            code = "SEVERAL_STARTS" if type_name == START_TYPE else "SEVERAL_WORKFLOW_CALLS"
            for node in of_type[1:]:
                message = f"{quoted(node.id)} is a second {type_name} node beside {quoted(of_type[0].id)}"
                hint = "Keep one; several edges may leave it."
                self.error(code, message, node.pointer, node_id=node.id, hint=hint)
        for node in entry_points:
            if node.type in TRIGGER_TYPES:
                node.input_schema = self._input_schema(node.config, f"{node.pointer}/config", node_id=node.id)

    # -- nodes ----------------------------------------------------------------------------
    def _node(self, value: Any, pointer: str) -> None:
        if not isinstance(value, dict):
            self.wrong_type(pointer, "an object", value)
            return
        node_id = self._node_id(value, pointer)
        if node_id is None:
            return
        if node_id in self._graph.nodes:
            message = f"{quoted(node_id)} is also the id of {self._graph.nodes[node_id].pointer}"
            self.error("DUPLICATE_NODE_ID", message, pointer + "/id", node_id=node_id)
            return
        self.note_unknown(
            value,
            "node",
            pointer,
            known=NODE_FIELDS,
            config_fields=self._config_fields(value.get("type")),
            node_id=node_id,
        )
        node = GraphNode(node_id, self.text(value, "type", pointer, required=True, node_id=node_id) or "", pointer)
        self._graph.nodes[node_id] = node
        self.text(value, "name", pointer, node_id=node_id)
        position = value.get("position")
        if position is not None and not isinstance(position, dict):
            self.wrong_type(pointer + "/position", "an object", position, node_id=node_id)
        self._behaviour(value, node)

    def _config_fields(self, type_name: Any) -> Collection[str]:
        """The known config fields of a node type."""
        node_type = self._node_types.get(type_name) if self._node_types and isinstance(type_name, str) else None
        return () if node_type is None else config_fields(node_type)

    def _node_id(self, value: dict[str, Any], pointer: str) -> str | None:
        node_id = self.text(value, "id", pointer, required=True)
        if node_id is None:
            return None
        if not 1 <= len(node_id) <= NODE_ID_LENGTH_MAX:
            problem = f"has {len(node_id)} characters; an id has 1 to {NODE_ID_LENGTH_MAX}"
        elif _NODE_ID_FORBIDDEN.search(node_id):
            problem = "holds one of / [ ] # @ or a control character; scopes are written with them"
        else:
            return node_id
        self.error("BAD_NODE_ID", f"the node id {quoted(node_id)} {problem}", pointer + "/id", node_id=node_id)
        # The node stays in the graph: without it each of its edges would be a problem of its own.
        return node_id

    def _behaviour(self, value: dict[str, Any], node: GraphNode) -> None:
        config = value.get("config")
        if isinstance(config, dict):
            node.config = config
        elif config is not None:
            node.config_readable = False
            self.wrong_type(node.pointer + "/config", "an object", config, node_id=node.id)
        node.disabled_written = value.get("disabled")
        node.disabled = node.disabled_written is True and node.type != START_TYPE
        node.output_variable = self._output_variable(value, node)
        join_mode = self.choice(
            value, "joinMode", node.pointer, among=JOIN_MODES, code="UNKNOWN_JOIN_MODE", node_id=node.id
        )
        node.join_any = join_mode == "any"
        chosen = self.choice(
            value, "errorHandling", node.pointer, among=ERROR_HANDLINGS, code="UNKNOWN_ERROR_HANDLING", node_id=node.id
        )
        node.error_handling_written = chosen is not None
        node.error_handling = chosen or "continue"
        node.timeout_ms = self.duration_ms(value, "timeout", node.pointer, code="BAD_TIMEOUT", node_id=node.id)
        node.heartbeat_ms = self.duration_ms(
            value, "heartbeatTimeout", node.pointer, code="BAD_TIMEOUT", node_id=node.id
        )
        node.pool = self._pool(value, node.pointer, node_id=node.id)
        node.priority = self.choice(
            value, "priority", node.pointer, among=PRIORITIES, code="BAD_PRIORITY", node_id=node.id
        )
        self._max_passes(value, node)
        self._mapping(value, node)
        try:
            node.retry = RetryPolicy.parse(value.get("retry"))
        except ValueError as refusal:
            self.error("BAD_RETRY", str(refusal), node.pointer + "/retry", node_id=node.id)

    def _max_passes(self, value: dict[str, Any], node: GraphNode) -> None:
        given = value.get("maxPasses")
        if given is None:
            return
        node.max_passes_written = True
        if isinstance(given, int) and not isinstance(given, bool) and 1 <= given <= PASSES_MAX:
            node.max_passes = given
            return
        message = f"maxPasses must be a whole number from 1 to {PASSES_MAX}, not {quoted(given)}"
        self.error("BAD_MAX_PASSES", message, node.pointer + "/maxPasses", node_id=node.id)

    def _mapping(self, value: dict[str, Any], node: GraphNode) -> None:
        """`forEach` and what belongs to it; the type `loop` checks these as its own config."""
        source = node.for_each = value.get(FOR_EACH)
        fields = {name: value[name] for name in MAPPING_FIELDS if value.get(name) is not None}
        if source is None:
            for name in fields:
                in_config = name in self._config_fields(node.type)
                hint = f"{name!r} belongs in the node's config." if in_config else "Add `forEach`, or remove it."
                message = f"`{name}` of {quoted(node.id)} has no effect without `forEach`"
                problem = Problem("FIELD_WITHOUT_EFFECT", message, f"{node.pointer}/{name}", node.id, hint=hint)
                self._graph.warnings.append(problem)
        elif node.type not in NEVER_MAPPED and is_list_or_template(source):
            node.mapping = {"source": source, **fields}

    def _output_variable(self, value: dict[str, Any], node: GraphNode) -> str | None:
        name = self.text(value, "outputVariable", node.pointer, node_id=node.id)
        if name is None:
            return None
        if not name.isidentifier() or len(name) > VARIABLE_LENGTH_MAX:
            problem = f"is not an identifier of at most {VARIABLE_LENGTH_MAX} characters"
        elif name in RESERVED_VARIABLES or "__" in name:
            problem = f"is reserved, like {', '.join(sorted(RESERVED_VARIABLES))} and every name with '__'"
        else:
            return name
        message = f"the output variable {quoted(name)} {problem}"
        self.error("BAD_OUTPUT_VARIABLE", message, node.pointer + "/outputVariable", node_id=node.id)
        return None

    # -- edges ----------------------------------------------------------------------------
    def _edge(self, value: Any, pointer: str) -> None:
        if not isinstance(value, dict):
            self.wrong_type(pointer, "an object", value)
            return
        self.note_unknown(value, "edge", pointer, known=EDGE_FIELDS)
        edge_id = self.text(value, "id", pointer)
        if edge_id is not None and edge_id in self._edge_ids:
            message = f"another edge has the id {quoted(edge_id)}"
            self.error("DUPLICATE_EDGE_ID", message, pointer + "/id", edge_id=edge_id)
        self._edge_ids.add(edge_id or "")
        source = self._end(value, "upstreamNodeID", pointer, edge_id, "EDGE_FROM_NOWHERE")
        target = self._end(value, "downstreamNodeID", pointer, edge_id, "EDGE_TO_NOWHERE")
        handle = self.text(value, "sourceHandle", pointer, edge_id=edge_id)
        if source is None or target is None:
            return
        if target.type in ENTRY_POINT_TYPES:
            message = f"the edge leads from {quoted(source.id)} into the {target.type} node {quoted(target.id)}"
            hint = "To repeat work, put it into the body of a loop node."
            target_pointer = pointer + "/downstreamNodeID"
            self.error("EDGE_INTO_START", message, target_pointer, node_id=target.id, edge_id=edge_id, hint=hint)
            return
        handle = DEFAULT_HANDLE if handle is None else handle
        self._graph.edges.append(GraphEdge(source.id, handle, target.id, pointer, edge_id))

    def _end(self, value: dict[str, Any], name: str, pointer: str, edge_id: str | None, code: str) -> GraphNode | None:
        node_id = self.text(value, name, pointer, required=True, edge_id=edge_id)
        node = None if node_id is None else self._graph.nodes.get(node_id)
        if node is None and node_id is not None:
            message = f"{name} names {quoted(node_id)}, which does not exist"
            self.error(code, message, pointer + pointer_to(name), edge_id=edge_id)
        return node


def _forbidden_keys(document: dict[str, Any]) -> Iterator[Problem]:
    stack: list[tuple[Any, str]] = [(document, "")]
    while stack:
        value, pointer = stack.pop()
        children = value.items() if isinstance(value, dict) else enumerate(value)
        for key, child in children:
            if key in FORBIDDEN_KEYS:
                key_pointer = pointer + pointer_to(key)
                yield Problem("FORBIDDEN_KEY", f"the key {key!r} is not allowed in a definition", key_pointer)
            if isinstance(child, (dict, list)):
                stack.append((child, pointer + pointer_to(key)))
