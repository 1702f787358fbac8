"""Documents of drawn workflows as they are stored: which fields are kept, and how a save merges them.

Pure. Called by `definition_verbs` before a save and by `testing_verbs`. Unknown fields are stored and returned
unchanged, with their key order; fields that only the server sets are never stored.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import orjson

from anabranch.engine.rules.graph.known_fields import (
    IDENTITY_FIELDS,
    SERVER_FIELDS,
    WORKFLOW_FIELDS,
    did_you_mean,
    is_extension,
)
from anabranch.engine.rules.graph.source_texts import plain
from anabranch.errors import InvalidRequest

INPUT_FIELD = "input"
"""A field beside the graph of a test run: the run's input."""


def without_server_fields(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document without the fields that the server adds to its responses."""
    return {field: value for field, value in document.items() if field not in SERVER_FIELDS}


def wants_activation(document: Mapping[str, Any]) -> bool:
    """Whether starts should use the saved version. Raises InvalidRequest."""
    activate = document.get("activate")
    if activate not in (None, True, False):
        problem = {"code": "WRONG_TYPE", "pointer": "/activate", "message": f"activate is {activate!r:.80}"}
        raise InvalidRequest(
            "activate is true or false", hint="False: starts keep using the previous version.", details=[problem]
        )
    return activate is not False


def check_identity(document: Mapping[str, Any], *, workflow_id: str, kind: str) -> None:
    """Reject a document that was read from another workflow. Raises InvalidRequest."""
    expected = {"workflowID": workflow_id, "kind": kind}
    problems = [
        {
            "code": "DIFFERENT_WORKFLOW",
            "pointer": f"/{field}",
            "message": f"{field} of this workflow is {expected[field]!r}, not {document[field]!r:.80}",
        }
        for field in sorted(IDENTITY_FIELDS & document.keys())
        if document[field] not in (None, expected[field])
    ]
    if problems:
        raise InvalidRequest(
            "; ".join(problem["message"] for problem in problems),
            hint="Save it under the workflow that it was read from, or leave these fields out.",
            details=problems,
        )


def updated(stored: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The stored document with the given top-level fields: absent ones keep their value, null ones are removed.

    Where every stored field is given, the order is that of `given`; otherwise that of `stored`.
    """
    order = [*given] if stored.keys() <= given.keys() else [*stored, *(field for field in given if field not in stored)]
    merged = {**stored, **given}
    # A stored null is a value, and stays.
    return {field: merged[field] for field in order if merged[field] is not None or stored.get(field, ...) is None}


def is_same(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether two documents are equal. The order of top-level fields does not matter, and null equals absent.

        Absent edges are an empty list, as answers have them. Below the top level values are compared exactly
    (`1` is not `1.0`), but not their formatting.
    """
    return _texts(stored) == _texts(wanted)


def check_test_fields(document: Mapping[str, Any], options: Collection[str]) -> None:
    """Reject unknown options of a test run. Raises InvalidRequest, naming each."""
    known = WORKFLOW_FIELDS | {INPUT_FIELD, *options}
    problems = [
        {
            "code": "EXTRA_FORBIDDEN",
            "pointer": f"/{field.replace('~', '~0').replace('/', '~1')}",
            "message": " ".join(
                part for part in (f"a test run has no option {field[:64]!r}.", did_you_mean(field, known)) if part
            ),
        }
        for field in document
        if field not in known and not is_extension(field)
    ]
    if problems:
        raise InvalidRequest(
            "; ".join(problem["message"] for problem in problems[:3]),
            hint=f"A test run takes nodes, edges, workflowOptions, input, {', '.join(sorted(options))}.",
            details=problems,
        )


def _texts(document: Mapping[str, Any]) -> dict[str, bytes]:
    fields = {**without_server_fields(plain(document)), "edges": document.get("edges") or []}
    return {field: orjson.dumps(value) for field, value in fields.items() if value is not None}
