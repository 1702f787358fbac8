"""Validation: all errors and warnings of a drawn workflow, and whether its runs end.

Pure. Called when a workflow is saved, by `anabranch validate`, and by the editor while a user draws. It combines the
results of other modules: `document` (form), `node_checks` (types and configs), `structure` (cycles, borders),
`warnings`. It never executes anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from anabranch.dataclass import dataclass
from anabranch.engine.rules.entry_points import START_TYPE, WEBHOOK_TYPE
from anabranch.engine.rules.graph.analysis import analysis_of
from anabranch.engine.rules.graph.control_flow.structure import Structure, structure_of
from anabranch.engine.rules.graph.document import DOCUMENT_BYTES_MAX, TITLE_LENGTH_MAX, Graph, parse
from anabranch.engine.rules.graph.fixes import fixes_of
from anabranch.engine.rules.graph.loop_config import FOR_EACH, NEVER_MAPPED, is_list_or_template
from anabranch.engine.rules.graph.node_checks import NodeFacts, facts_of
from anabranch.engine.rules.graph.node_types import NodeTypes
from anabranch.engine.rules.graph.problems import Problem, quoted
from anabranch.engine.rules.graph.warnings import activations_max, warnings_of
from anabranch.engine.rules.templates.template import count_expressions
from anabranch.engine.rules.templates.text import (
    WORKFLOW_EXPRESSION_CHARACTERS_MAX,
    WORKFLOW_EXPRESSIONS_MAX,
    ExpressionCount,
)
from anabranch.errors import InvalidWorkflow

# At most 3 problems in the message of the exception; all of them are in its details.
PROBLEMS_SHOWN = 3

_N8N_TYPE = re.compile(r"(?:@[\w-]+/)?n8n-nodes-[\w-]+\.")
_N8N_EXPORT = Problem(
    "N8N_WORKFLOW",
    "this is a workflow of n8n, which has to be imported",
    hint="`anabranch import n8n FILE`, or POST /v1/import/n8n, makes a draft of it; docs/n8n.md.",
)


@dataclass(frozen=True, slots=True)
class Report:
    """The validator's answer."""

    errors: tuple[Problem, ...]
    """What the workflow is refused for."""
    warnings: tuple[Problem, ...]
    """What is odd; it is saved all the same."""
    terminates: bool
    """Every wait, child, node and loop has a bound, or the workflow a deadline. False if unknown."""
    unbounded: tuple[str, ...]
    """Reachable nodes without a bound, in document order."""
    activations_max: int | None
    """The maximum number of activations of a run; None if too large or unknown."""

    @property
    def valid(self) -> bool:
        """True if the workflow can be saved and run."""
        return not self.errors

    def as_json(self) -> dict[str, Any]:
        """The public form."""
        return {
            "valid": self.valid,
            "errors": [problem.as_json() for problem in self.errors],
            "warnings": [problem.as_json() for problem in self.warnings],
            "terminates": self.terminates,
            "unbounded": list(self.unbounded),
            "activationsMax": self.activations_max,
        }


def validate(document: Any, node_types: NodeTypes) -> Report:
    """Check a definition against the rules and the registered node types.

    Accepts any value and raises nothing. All problems are reported at once, unless one makes the others meaningless
    (not an object, too large, too many nodes).
    """
    return _validated(document, node_types)[0]


def analyze(document: Any, node_types: NodeTypes, aspects: Collection[str]) -> tuple[Report, Analysis]:
    """The same, with the analysis that an editor needs."""
    report, found = _validated(document, node_types)
    if found is None:
        return report, Analysis({}, lambda problem: [])
    graph, facts, structure = found
    return report, Analysis(
        analysis_of(graph, facts, structure, aspects),
        lambda problem: fixes_of(problem, document, graph, facts, structure),
    )


@dataclass(frozen=True, slots=True)
class Analysis:
    """The analysis of a graph for an editor, beside its problems."""

    aspects: Mapping[str, Any]
    """`nodes` and `structure`, as far as they were asked for."""
    fixes_of: Callable[[Problem], list[dict[str, Any]]]


def _validated(document: Any, node_types: NodeTypes) -> tuple[Report, tuple[Graph, NodeFacts, Structure] | None]:
    """The report and the data that it is based on; None if the graph was not analysed."""
    if is_n8n_export(document):
        return Report((_N8N_EXPORT,), (), False, (), None), None
    graph = parse(document, node_types, bytes_max=DOCUMENT_BYTES_MAX)
    excess = _excess_of_expressions(graph)
    if excess is not None:  # checking each of them would take the time that the limit prevents
        return Report((*graph.errors, excess), tuple(graph.warnings), False, (), None), None
    facts = facts_of(graph, node_types)
    structure = structure_of(graph)
    errors = (
        *_document_problems(document),
        *graph.errors,
        *facts.problems,
        *_disabled_problems(graph),
        *_mapping_problems(graph),
        *_path_problems(graph),
        *_handle_problems(graph, facts),
        *structure.problems,
    )
    found = (graph, facts, structure)
    if not structure.is_sound:
        return Report(errors, tuple(graph.warnings), False, (), None), found
    reachable = set(structure.order)
    waiting = {node_id for node_id in facts.unbounded & reachable if not graph.nodes[node_id].disabled}
    unbounded = tuple(node_id for node_id in graph.nodes if node_id in waiting)
    report = Report(
        errors=errors,
        warnings=(*graph.warnings, *warnings_of(graph, structure)),
        terminates=not unbounded or graph.deadline_ms is not None,
        unbounded=unbounded,
        activations_max=activations_max(graph, structure),
    )
    return report, found


def is_n8n_export(document: Any) -> bool:
    """Whether it is an n8n export, or a list of them.

    Those have edges in an object `connections`, and nodes with `parameters` and types such as `n8n-nodes-base.set`.
    """
    if isinstance(document, list):
        return bool(document) and all(isinstance(each, dict) and is_n8n_export(each) for each in document)
    nodes = document.get("nodes") if isinstance(document, dict) else None
    if not isinstance(nodes, list):
        return False
    has_connections = isinstance(document.get("connections"), dict) and "edges" not in document
    return any(
        isinstance(node, dict)
        and (
            (isinstance(node.get("type"), str) and _N8N_TYPE.match(node["type"]) is not None)
            or (has_connections and "parameters" in node)
        )
        for node in nodes
    )


def refusal_of(errors: tuple[Problem, ...]) -> InvalidWorkflow:
    """The exception that lists these problems."""
    shown = "; ".join(problem.message for problem in errors[:PROBLEMS_SHOWN])
    more = f"; and {len(errors) - PROBLEMS_SHOWN} more" if len(errors) > PROBLEMS_SHOWN else ""
    return InvalidWorkflow(
        f"the workflow has {len(errors)} problem{'s' if len(errors) > 1 else ''}: {shown}{more}",
        details=[problem.as_json() for problem in errors],
    )


def _document_problems(document: Any) -> Iterator[Problem]:
    """Problems of the document as a whole.

    Checked at save only, since documents saved before these limits still compile.
    """
    if not isinstance(document, dict):
        return
    title, kind = document.get("title"), document.get("kind")
    if isinstance(title, str) and len(title) > TITLE_LENGTH_MAX:
        message = f"the title has {len(title)} characters; the limit is {TITLE_LENGTH_MAX}"
        yield Problem("TITLE_TOO_LONG", message, "/title", hint="Put longer text into `notes`.")
    if kind not in (None, "drawn"):
        hint = "Change its code and start a worker with it; or remove `kind` to save the graph as a drawn workflow."
        yield Problem("NOT_DRAWN", f"`kind` is {quoted(kind)}: only drawn workflows are saved", "/kind", hint=hint)


def _disabled_problems(graph: Graph) -> Iterator[Problem]:
    """Problems of `disabled`. Checked at save only, since older saved versions still compile."""
    for node in graph.nodes.values():
        written, pointer = node.disabled_written, node.pointer + "/disabled"
        if written not in (None, True, False):
            yield Problem("WRONG_TYPE", f"{pointer} must be true or false, not {quoted(written)}", pointer, node.id)
        elif written is True and node.type == START_TYPE:
            hint = "Remove `disabled`; to begin elsewhere, lead from the start to that node."
            yield Problem("START_DISABLED", "the start node cannot be disabled", pointer, node.id, hint=hint)


def _mapping_problems(graph: Graph) -> Iterator[Problem]:
    """Problems of `forEach` that are found when a workflow is saved."""
    for node in graph.nodes.values():
        written, pointer = node.for_each, f"{node.pointer}/{FOR_EACH}"
        if written is None:
            continue
        if node.type in NEVER_MAPPED:
            message = (
                f"{quoted(node.id)} cannot run for each item: a node of the type {quoted(node.type)} has no `forEach`"
            )
            hint = "Put it into the body of a loop node."
            yield Problem("FOR_EACH_NOT_ALLOWED", message, pointer, node.id, hint=hint)
        elif not is_list_or_template(written):
            message = (
                f"`forEach` of {quoted(node.id)} must be a list, or a template that gives one, not {quoted(written)}"
            )
            yield Problem("BAD_FOR_EACH", message, pointer, node.id, hint="Write it as `{{ctx.rows}}`.")


def _path_problems(graph: Graph) -> Iterator[Problem]:
    """Webhooks of one workflow with one path. Asked at save alone, too."""
    owners: dict[str, str] = {}
    for node in graph.entry_points:
        path = node.config.get("path") if node.type == WEBHOOK_TYPE and not node.disabled else None
        if not isinstance(path, str):
            continue
        owner = owners.setdefault(path, node.id)
        if owner != node.id:
            message = f"{quoted(node.id)} has the path {quoted(path)}, which {quoted(owner)} has, too"
            pointer = f"{node.pointer}/config/path"
            yield Problem("DUPLICATE_HOOK_PATH", message, pointer, node.id, hint="Give each webhook a path of its own.")


def _excess_of_expressions(graph: Graph) -> Problem | None:
    count = ExpressionCount()
    for node in graph.nodes.values():
        count_expressions(node.config, count)
        count_expressions(node.mapping or {}, count)
        if count.is_too_much:
            message = (
                f"the templates hold more than {WORKFLOW_EXPRESSIONS_MAX} expressions,"
                f" or more than {WORKFLOW_EXPRESSION_CHARACTERS_MAX} characters in them"
            )
            hint = "Compute a value once in a `set` node and read it from there, or split the workflow."
            return Problem("TOO_MANY_EXPRESSIONS", message, node.pointer + "/config", node.id, hint=hint)
    return None


def _handle_problems(graph: Graph, facts: NodeFacts) -> Iterator[Problem]:
    for edge in graph.edges:
        handles = facts.handles.get(edge.source)
        if handles is None or edge.handle in handles:
            continue
        node_type = quoted(graph.nodes[edge.source].type)
        message = f"{edge.shown}: a {node_type} node like {quoted(edge.source)} has no handle {quoted(edge.handle)}"
        hint = f"It has {', '.join(map(quoted, sorted(handles)))}." if handles else "No edge can leave it."
        yield Problem("UNKNOWN_HANDLE", message, edge.pointer + "/sourceHandle", edge.source, edge.id, hint)
