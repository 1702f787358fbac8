"""Check each node against its type: unknown types, configs and handles. Exceptions of a type are contained.

Pure, apart from the code of registered types, which is user code. `validate` asks about everything, `compile` only
about handles. If a type raises, that is a problem of the node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from anabranch.dataclass import dataclass
from anabranch.deferred import deferred
from anabranch.engine.rules.events import DEFAULT_HANDLE, ELSE_HANDLE, ERROR_HANDLE
from anabranch.engine.rules.graph.document import Graph, GraphNode
from anabranch.engine.rules.graph.known_fields import NODE_FIELDS, did_you_mean
from anabranch.engine.rules.graph.loop_config import FOR_EACH, LOOP_TYPE
from anabranch.engine.rules.graph.node_types import ConfigProblem, NodeType, NodeTypes, config_fields
from anabranch.engine.rules.graph.problems import Problem, pointer_to, quoted
from anabranch.engine.rules.schema.plain_values import is_certainly_valid

if TYPE_CHECKING:
    from anabranch.engine.rules.schema import json_schema
else:
    json_schema = deferred("anabranch.engine.rules.schema.json_schema")

RESERVED_BRANCHES = frozenset({DEFAULT_HANDLE, ELSE_HANDLE, ERROR_HANDLE})


_Schemas: TypeAlias = "dict[str, json_schema.ValueSchema]"
"""The prepared schemas of configs, by node type."""


@dataclass(slots=True)
class NodeFacts:
    """What is known about the nodes of a graph, by node id."""

    types: dict[str, NodeType] = field(default_factory=dict)
    """Only nodes whose type is registered."""
    handles: dict[str, frozenset[str]] = field(default_factory=dict)
    """With `error` where the type has it; only nodes whose type could tell."""
    unbounded: set[str] = field(default_factory=set)
    """Nodes that may wait for ever, and those of unknown types."""
    problems: list[Problem] = field(default_factory=list)
    known_types: Sequence[str] = ()
    """All that are registered."""


def facts_of(graph: Graph, node_types: NodeTypes) -> NodeFacts:
    """Ask the types about every node of a graph. Invalid configs are reported in `problems`."""
    facts = NodeFacts(known_types=node_types.names())
    schemas: _Schemas = {}
    for node in graph.nodes.values():
        node_type = node_types.get(node.type)
        if node_type is None:
            if node.type:
                facts.problems.append(_unknown_type(node, node_types))
            facts.unbounded.add(node.id)
            continue
        facts.types[node.id] = node_type
        if not node.config_readable:
            continue
        problems = list(_config_problems(node, node_type, schemas))
        loop_type = None if node.mapping is None else node_types.get(LOOP_TYPE)
        if node.mapping is not None and loop_type is not None:
            problems += _mapping_problems(node, node.mapping, loop_type, schemas)
        facts.problems.extend(problems)
        if any(problem.code in ("CONFIG_INVALID", "NODE_TYPE_BROKEN") for problem in problems):
            continue  # a type need not handle a config that violates its own schema
        _ask_about(node, node_type, facts)
    return facts


def handles_of(node: GraphNode, node_type: NodeType) -> frozenset[str]:
    """All handles of the node, with `error` if the type has it. Passes on exceptions of the type.

    A mapped node has none of the handles that it leaves by for one item.
    """
    if node.mapping is not None:
        return frozenset({DEFAULT_HANDLE, ERROR_HANDLE})
    handles = frozenset(node_type.handles(node.config))
    return handles | {ERROR_HANDLE} if node_type.has_error_handle else handles


def _unknown_type(node: GraphNode, node_types: NodeTypes) -> Problem:
    names = list(node_types.names())
    hint = did_you_mean(node.type, names) or f"None of the {len(names)} registered types is similar: import this one."
    message = f"{quoted(node.id)} has the node type {quoted(node.type)}, which is not registered"
    return Problem("UNKNOWN_TYPE", message, node.pointer + "/type", node.id, hint=hint)


def _config_problems(node: GraphNode, node_type: NodeType, schemas: _Schemas) -> Iterator[Problem]:
    config_pointer = node.pointer + "/config"
    known = config_fields(node_type)
    takes_others = node_type.config_schema.get("additionalProperties") is not False
    unknown = set() if takes_others else node.config.keys() - known
    for name in sorted(unknown):
        message = f"the config of {quoted(node.id)}: a {quoted(node.type)} node has no field {quoted(name)}"
        if name in NODE_FIELDS:
            hint: str | None = f"{name!r} belongs to the node, beside `config`."
        else:
            hint = did_you_mean(name, known) or f"It has {', '.join(sorted(known)) or 'no fields'}."
        yield Problem("CONFIG_INVALID", message, config_pointer + pointer_to(name), node.id, hint=hint)
    misfits = _misfits(node_type, {name: node.config[name] for name in node.config if name not in unknown}, schemas)
    for pointer, message in misfits:
        yield Problem(
            "CONFIG_INVALID", f"the config of {quoted(node.id)}: {message}", config_pointer + pointer, node.id
        )
    if misfits or unknown:
        return
    answers: list[ConfigProblem] = []
    broken = _attempt(node, lambda: answers.extend(node_type.check(node.config)))
    if broken is not None:
        yield broken
    for code, pointer, message, *range_ in answers:
        yield Problem(code, message, config_pointer + pointer, node.id, range=range_[0] if range_ else None)
    if node.type == "condition":
        yield from _branch_problems(node, known={config_pointer + answer[1] for answer in answers})


def _misfits(node_type: NodeType, config: Mapping[str, Any], schemas: _Schemas) -> list[tuple[str, str]]:
    """Violations of the schema of its type in a config. Preparing a schema takes longer than to check most
    configs, so it is kept."""
    if is_certainly_valid(node_type.config_schema, config):
        return []
    if node_type.type not in schemas:
        schemas[node_type.type] = json_schema.ValueSchema(node_type.config_schema)
    return schemas[node_type.type].problems(config)


def _mapping_problems(
    node: GraphNode, mapping: Mapping[str, Any], loop_type: NodeType, schemas: _Schemas
) -> Iterator[Problem]:
    """Problems that the type `loop` finds in the fields of a mapped node, which are the config of its loop."""
    loop, config_pointer = replace(node, type=LOOP_TYPE, config=mapping), node.pointer + "/config"
    for problem in _config_problems(loop, loop_type, schemas):
        pointer = problem.pointer.removeprefix(config_pointer).replace("/source", f"/{FOR_EACH}", 1)
        message = problem.message.replace("the config of", "the items of", 1)
        yield replace(problem, pointer=node.pointer + pointer, message=message)


def _branch_problems(node: GraphNode, *, known: set[str]) -> Iterator[Problem]:
    branches = node.config.get("branches")
    seen: set[str] = set()
    for index, branch in enumerate(branches if isinstance(branches, list) else []):
        branch_id = branch.get("id") if isinstance(branch, Mapping) else None
        id_pointer = node.pointer + pointer_to("config", "branches", index, "id")
        if not isinstance(branch_id, str) or id_pointer in known:
            continue
        if branch_id in RESERVED_BRANCHES:
            message = f"{quoted(branch_id)} cannot be the id of a branch: it names another handle"
            yield Problem("RESERVED_BRANCH_ID", message, id_pointer, node.id)
        elif branch_id in seen:
            message = f"two branches of {quoted(node.id)} have the id {quoted(branch_id)}"
            yield Problem("DUPLICATE_BRANCH_ID", message, id_pointer, node.id)
        seen.add(branch_id)


def _ask_about(node: GraphNode, node_type: NodeType, facts: NodeFacts) -> None:
    def ask() -> None:
        facts.handles[node.id] = handles_of(node, node_type)
        if node_type.unbounded(node.config):
            facts.unbounded.add(node.id)

    broken = _attempt(node, ask)
    if broken is not None:
        facts.problems.append(broken)


def _attempt(node: GraphNode, question: Callable[[], None]) -> Problem | None:
    """Call the type. Its exception becomes a problem, so that one faulty type does not hide all other problems."""
    try:
        question()
    except Exception as error:  # noqa: BLE001 - other people's code
        message = f"the type {quoted(node.type)} raised {type(error).__name__} when asked about {quoted(node.id)}"
        return Problem("NODE_TYPE_BROKEN", message, node.pointer, node.id, hint="This is a fault of the node type.")
    return None
