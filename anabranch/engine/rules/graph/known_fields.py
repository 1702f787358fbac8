"""The known fields of workflow documents, and the advice for an unknown one.

Pure. Used by `document` and `node_checks` for warnings, and by the service for the documents that it stores. Add a new
field here first; without an entry it is warned about.
"""

from __future__ import annotations

from collections.abc import Collection, Set
from difflib import get_close_matches

WORKFLOW_FIELDS = frozenset({"title", "name", "nodes", "edges", "workflowOptions", "viewport", "notes", "$schema"})
NODE_FIELDS = frozenset(
    {
        "id",
        "type",
        "name",
        "config",
        "outputVariable",
        "joinMode",
        "errorHandling",
        "retry",
        "timeout",
        "heartbeatTimeout",
        "pool",
        "priority",
        "maxPasses",
        "forEach",
        "concurrency",
        "onItemError",
        "batchSize",
        "position",
        "disabled",
    }
)
EDGE_FIELDS = frozenset({"id", "upstreamNodeID", "downstreamNodeID", "sourceHandle"})
OPTION_FIELDS = frozenset({"inputSchema", "retention", "deadline", "pool", "priority"})

IDENTITY_FIELDS = frozenset({"workflowID", "kind"})
"""Given by the server with a workflow; a document that is sent back with another value means another workflow."""

SERVER_FIELDS = IDENTITY_FIELDS | {
    "version",
    "activate",
    "activeVersion",
    "paused",
    "runCounts",
    "createdAt",
    "updatedAt",
}
"""Fields of responses that do not belong to a document: clients need not remove them before a save."""

EXTENSION_PREFIX = "x-"
"""The prefix of fields of editors and other tools, at every level; the engine ignores them."""

# Ratios of `difflib`: 0.6 finds the intended name if it must be one of the known ones. At 0.8 a name of five letters
# differs in one letter, and `firstName` is not a misspelt `lastName`.
CLOSE = 0.6
A_SLIP = 0.8

# Names of other tools for the ends of an edge.
_EDGE_SPELLINGS = {
    **dict.fromkeys(("source", "sourceNodeID", "from"), "upstreamNodeID"),
    **dict.fromkeys(("target", "targetNodeID", "to"), "downstreamNodeID"),
}

_OWNERS = (
    (frozenset({"maxAttempts", "attempts", "backoff"}), "the `retry` of a node"),
    (OPTION_FIELDS, "workflowOptions"),
    (NODE_FIELDS - {"id", "name"}, "a node"),
    (EDGE_FIELDS - {"id"}, "an edge"),
    (WORKFLOW_FIELDS - {"title", "name", "notes"}, "the top level of the workflow"),
)


def is_extension(name: str) -> bool:
    """Whether the field belongs to another tool."""
    return name.startswith(EXTENSION_PREFIX)


def advice_on(name: str, known: Set[str], *, config_fields: Collection[str] = ()) -> str | None:
    """A hint about an unknown field: where it belongs, or its correct spelling.

    `known` are the fields of its object, `config_fields` those of the node's config.
    """
    if name in config_fields:
        return f"{name!r} belongs in the node's config."
    for fields, owner in _OWNERS:
        if name in fields:
            return f"{name!r} belongs in {owner}."
    if known >= EDGE_FIELDS and name in _EDGE_SPELLINGS:
        return f"Did you mean {_EDGE_SPELLINGS[name]!r}?"
    return did_you_mean(name, known)


def did_you_mean(name: str, known: Collection[str], *, closeness: float = CLOSE) -> str | None:
    """`Did you mean 'x'?` with the most similar known name, ignoring case; None if none is similar."""
    by_lower_case = {each.lower(): each for each in sorted(known, reverse=True)}
    near = get_close_matches(name.lower(), by_lower_case, n=1, cutoff=closeness)
    return f"Did you mean {by_lower_case[near[0]]!r}?" if near else None


def slip_of(name: str, known: Collection[str]) -> str | None:
    """The same, only if one or two letters and no digit are wrong: `emial`, but neither `lastName` nor `line2`."""
    digits = _without_letters(name)
    return did_you_mean(name, [each for each in known if _without_letters(each) == digits], closeness=A_SLIP)


def _without_letters(name: str) -> str:
    return "".join(filter(str.isdigit, name))
