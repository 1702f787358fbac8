"""Problems of workflow documents: every code of the validator, and what it means.

Pure. Parser, structure check and validator create problems; `docs/errors.md` is compared with the two tables. Node
types add codes of their own through `NodeType.check` (`EXPRESSION_EXPECTED`, `TEMPLATE_ERROR`, …). Codes are public and
stable; messages may change.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anabranch.dataclass import dataclass
from anabranch.engine.rules.values import kind_of

REFUSALS: Mapping[str, str] = {
    "WRONG_TYPE": "The value of a field has the wrong JSON type.",
    "MISSING_FIELD": "A required field is absent.",
    "NOT_STORABLE": "The document is not plain JSON, is nested too deep or is too large.",
    "DOCUMENT_TOO_LARGE": "The document has more than 4 MB of JSON.",
    "TITLE_TOO_LONG": "The title has more than 255 characters.",
    "NOT_DRAWN": "The document's `kind` is not `drawn`; coded workflows are registered by workers.",
    "N8N_WORKFLOW": "The document is an export of n8n, which has another format.",
    "FORBIDDEN_KEY": "An object key (`__proto__`, `constructor`, `prototype`) could change objects in a browser.",
    "TOO_MANY_NODES": "The graph has more nodes than the limit.",
    "TOO_MANY_EDGES": "The graph has more edges than the limit.",
    "TOO_MANY_EXPRESSIONS": "The templates of the workflow hold more expressions, or longer ones, than the limit.",
    "BAD_NAME": "The workflow's name does not have the form of a name.",
    "NO_START": "No node of type `start`, and no trigger.",
    "SEVERAL_STARTS": "More than one node of type `start`.",
    "SEVERAL_WORKFLOW_CALLS": "More than one node of type `workflowCall`.",
    "DUPLICATE_HOOK_PATH": "Two webhooks of one workflow have the same path.",
    "START_DISABLED": "The start node is disabled.",
    "BAD_NODE_ID": "A node id is empty, too long, or holds a character that paths are made of.",
    "DUPLICATE_NODE_ID": "Two nodes have one id.",
    "DUPLICATE_EDGE_ID": "Two edges have one id.",
    "EDGE_FROM_NOWHERE": "An edge leaves a node that does not exist.",
    "EDGE_TO_NOWHERE": "An edge leads to a node that does not exist.",
    "EDGE_INTO_START": "An edge leads into the start node, or into a trigger.",
    "UNKNOWN_HANDLE": "An edge leaves by a handle that its node does not have.",
    "UNKNOWN_TYPE": "This node type is not registered.",
    "REFERENCE_NOT_FOUND": "A node names, by id, a workflow or saved query that is not there.",
    "CONFIG_INVALID": "A node's config does not fit the schema of its type.",
    "NODE_TYPE_BROKEN": "A node type's own check raised instead of answering.",
    "CYCLE": "Nodes lead back to themselves, and edges from outside lead to more than one of them.",
    "LOOPS_TOO_DEEP": "More than 50 loops without a loop node are inside each other.",
    "BAD_MAX_PASSES": "A `maxPasses` that is not a whole number from 1 to 100,000.",
    "BAD_FOR_EACH": "A `forEach` that is neither a list nor a template.",
    "FOR_EACH_NOT_ALLOWED": "A `forEach` of a start, an end, a condition, a switch, a cursor or a loop.",
    "LOOP_BORDER": "An edge enters or leaves the body of a loop other than through the loop node.",
    "BAD_OUTPUT_VARIABLE": "An output variable is not an identifier, or a reserved one.",
    "RESERVED_BRANCH_ID": "A branch is called `default`, `else` or `error`, which name other handles.",
    "DUPLICATE_BRANCH_ID": "Two branches of a condition have one id.",
    "UNKNOWN_JOIN_MODE": "A join mode other than `all` and `any`.",
    "UNKNOWN_ERROR_HANDLING": "An error handling other than `continue`, `ignore` and `fail_workflow`.",
    "BAD_RETRY": "A retry policy that cannot be read.",
    "BAD_TIMEOUT": "A `timeout` or `heartbeatTimeout` that is not a duration, or zero.",
    "BAD_POOL": "A pool that is not named with lower-case letters, digits, `_` and `-`.",
    "BAD_PRIORITY": "A priority that is neither `normal` nor `high`.",
    "BAD_RETENTION": "A retention that is not a duration, or zero.",
    "BAD_DEADLINE": "A deadline that is not a duration, or zero.",
    "BAD_INPUT_SCHEMA": "The input schema is not a JSON Schema, or refers to other documents.",
}
"""What a definition is refused for at save: code → sentence."""

WARNINGS: Mapping[str, str] = {
    "REFERENCE_MISSING": "A node names a workflow, saved query or secret that is not there yet.",
    "UNKNOWN_FIELD": "A field that has no meaning where it stands; it is stored, and has no effect.",
    "FIELD_WITHOUT_EFFECT": "A field that has no effect without the one that it belongs to.",
    "INPUT_NOT_IN_SCHEMA": "A template reads a field of the input that the `inputSchema` does not have.",
    "UNREACHABLE_NODE": "No way leads from start to the node; it will not run.",
    "PARALLEL_WRITERS": "Nodes that may run at the same time write one variable; the later one wins.",
    "VARIABLE_NEVER_WRITTEN": "A template reads a variable that no node before it writes.",
    "CONTINUE_WITHOUT_ERROR_EDGE": "`continue` is asked for, but no `error` edge takes a failure.",
    "TIMEOUT_NOT_WIRED": "A wait has a timeout, but no edge leaves by `timeout`.",
    "ERROR_EDGE_NEVER_TAKEN": "An `error` edge of a node whose failures are ignored or fail the workflow.",
    "EDGE_NEVER_LIVE": "No run can ever take the edge.",
    "LOOP_NEVER_LEFT": "An edge leads back, and nothing in the loop decides to leave it.",
    "LOOP_SPINS": "An edge leads back, and nothing on the way back waits.",
    "ENTERED_BEFORE_CURSOR": "An edge leads into the loop of a cursor elsewhere: that way runs once before the loop.",
    "CURSOR_WITHOUT_LOOP": "No edge leads back to the cursor: it hands out its first batch and no other.",
    "EXIT_RUNS_ONCE": "An edge leads out of a loop that may go on: what it leads to runs once, after the loop.",
    "RESPOND_NEVER_AWAITED": "A `respond` node that no webhook before it waits for.",
    "NO_RESPOND_NODE": "A webhook waits for a `respond` node, and leads to none.",
    "WEBHOOK_OPEN": "A webhook without authentication.",
}
"""What a definition is warned about at save: code → sentence."""

INFORMATION = frozenset({"WEBHOOK_OPEN"})
"""Warnings about what is often meant so; their `level` is `info`."""

# 120 characters of a user's text are enough to recognize it in a message.
QUOTED_MAX = 120


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with (or odd about) a definition, and where.

    `pointer` is a JSON pointer into the document ("" is the whole of it); `node_id` and
    `edge_id` name the place as the author does, where the author gave a name.
    """

    code: str
    message: str
    pointer: str = ""
    node_id: str | None = None
    edge_id: str | None = None
    hint: str | None = None
    range: tuple[int, int] | None = None
    """In a text of several lines: line and column, from 1."""

    def as_json(self) -> dict[str, Any]:
        """The public form, without unknown fields."""
        fields = {
            "code": self.code,
            "level": "info" if self.code in INFORMATION else None,
            "message": self.message,
            "nodeID": self.node_id,
            "edgeID": self.edge_id,
            "pointer": self.pointer,
            "hint": self.hint,
            "range": None if self.range is None else {"line": self.range[0], "column": self.range[1]},
        }
        return {name: value for name, value in fields.items() if value is not None}


def pointer_to(*steps: str | int) -> str:
    """The JSON pointer of these steps (RFC 6901)."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)


def quoted(value: object) -> str:
    """A user's value for a message: recognizable, on one line, shortened."""
    text = repr(value) if isinstance(value, (str, int, float, bool, type(None))) else kind_of(value)
    return text if len(text) <= QUOTED_MAX else text[:QUOTED_MAX] + "…"
