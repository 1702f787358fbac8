"""Check that the workflows, saved queries and secrets that a workflow names exist.

Called by the service when a workflow is validated or saved. References are looked up in the tenant that saves, as when
the node runs. A missing name is a warning, because it may be saved later (two workflows that start each other are
saved one after the other). A missing id is an error, because ids are generated and never appear later.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

from anabranch.dataclass import dataclass
from anabranch.engine.ports import Store
from anabranch.engine.rules.entry_points import WEBHOOK_TYPE
from anabranch.engine.rules.graph.node_types import DATA_QUERY_TYPE
from anabranch.engine.rules.graph.problems import Problem, pointer_to, quoted
from anabranch.engine.rules.graph.validate import Report
from anabranch.engine.rules.shared.child_ids import WORKFLOW_TYPE
from anabranch.queries.saved.saved_queries import SavedQueries
from anabranch.secrets.sealed_secrets import SecretRows

# The text of an expression is searched, not parsed: at worst a name inside a literal causes a warning.
_EXPRESSION = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_SECRET = re.compile(r"\bsecret\.([A-Za-z_][A-Za-z0-9_]{0,63})")

Kind = Literal["workflow", "data query", "secret"]


@dataclass(frozen=True, slots=True)
class Reference:
    """One reference to an object outside the workflow."""

    kind: Kind
    key: str
    """An id or a name."""
    node_id: str
    pointer: str


class References:
    """Looks up what workflows refer to."""

    def __init__(self, *, workflows: Store, queries: SavedQueries, secrets: SecretRows) -> None:
        self._workflows = workflows
        self._queries = queries
        self._secrets = secrets

    async def checked(self, document: Any, report: Report, *, tenant_id: str) -> Report:
        """The report with the problems of references added; a report with errors stays as it is."""
        if report.errors:
            return report
        errors: list[Problem] = []
        warnings: list[Problem] = []
        there: dict[tuple[Kind, str], bool] = {}
        for reference in references_in(document):
            key = (reference.kind, reference.key)
            if key not in there:
                there[key] = await self._is_there(reference, tenant_id)
            if not there[key] and reference.key != document.get("name"):
                (errors if _is_id(reference.key) else warnings).append(_problem(reference))
        return replace(report, errors=(*report.errors, *errors), warnings=(*report.warnings, *warnings))

    async def queries_since(self, keys: Iterable[str], *, tenant_id: str) -> dict[str, int | None]:
        """When (ms) each of these saved queries, or its source, was last changed; None if it does not exist. Every save
        counts as a change.
        """
        since: dict[str, int | None] = {}
        for key in keys:
            found = await self._queries.find_query(key, tenant_id=tenant_id)
            if found is None or found[1] is None:
                since[key] = None
            else:
                since[key] = max(found[0].updated_at, found[1].updated_at)
        return since

    async def _is_there(self, reference: Reference, tenant_id: str) -> bool:
        match reference.kind:
            case "workflow":
                found = await self._workflows.get_workflow(tenant_id=tenant_id, workflow=reference.key)
                return found is not None
            case "data query":
                return await self._queries.find_query(reference.key, tenant_id=tenant_id) is not None
            case "secret":
                return bool(await self._secrets.get_secrets(tenant_id=tenant_id, names=[reference.key]))


def references_in(document: Mapping[str, Any]) -> Iterator[Reference]:
    """All references in a valid document, in its order. Those that a template computes are only known at run time."""
    for number, node in enumerate(document["nodes"]):
        config = node.get("config") or {}
        node_id, pointer = node["id"], pointer_to("nodes", number, "config")
        for type_name, field, kind in _FIELDS:
            key = config.get(field)
            if node["type"] == type_name and isinstance(key, str) and "{{" not in key:
                yield Reference(kind, key, node_id, f"{pointer}/{field}")
        auth = config.get("auth") if node["type"] == WEBHOOK_TYPE else None
        if isinstance(auth, Mapping) and isinstance(auth.get("secret"), str):
            yield Reference("secret", auth["secret"], node_id, f"{pointer}/auth/secret")
        for text in _texts(config):
            for expression in _EXPRESSION.findall(text):
                for name in _SECRET.findall(expression):
                    yield Reference("secret", name, node_id, pointer)


_FIELDS: tuple[tuple[str, str, Kind], ...] = (
    (WORKFLOW_TYPE, "workflow", "workflow"),
    (DATA_QUERY_TYPE, "dataQueryID", "data query"),
)


def _texts(root: Any) -> Iterator[str]:
    stack = [root]
    while stack:
        value = stack.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping):
            stack.extend(value.values())
        elif isinstance(value, list):
            stack.extend(value)


def _is_id(key: str) -> bool:
    try:
        return str(uuid.UUID(key)) == key.lower()
    except ValueError:
        return False


def _problem(reference: Reference) -> Problem:
    message = f"there is no {reference.kind} {quoted(reference.key)}"
    if _is_id(reference.key):
        return Problem("REFERENCE_NOT_FOUND", message, reference.pointer, reference.node_id)
    hint = "The workflow is saved; the node fails while it does not exist."
    return Problem("REFERENCE_MISSING", message, reference.pointer, reference.node_id, hint=hint)
