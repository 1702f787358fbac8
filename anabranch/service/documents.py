"""Check documents that are saved: their fields and names, and the error that lists all problems.

Pure. Called by the services of data, schedules and topics. The error lists all problems at once, each with a code, a
JSON pointer and a sentence.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from anabranch.engine.rules.values import is_storable
from anabranch.errors import InvalidRequest

# 64 characters, as for names of workflows.
NAME_CHARACTERS_MAX = 64

Problem: TypeAlias = tuple[str, str, str]
"""Code, pointer, sentence."""


def check_fields(document: Any, *, known: frozenset[str], texts: Sequence[str]) -> None:
    """Check that it is an object with these text fields and no unknown field. Raises InvalidRequest."""
    if not isinstance(document, Mapping):
        raise InvalidRequest("the document must be a JSON object")
    problems = [
        (
            "MISSING_FIELD" if field not in document else "WRONG_TYPE",
            f"/{field}",
            f"{field} must be text and is required",
        )
        for field in texts
        if not isinstance(document.get(field), str) or not document[field].strip()
    ]
    problems += [("UNKNOWN_FIELD", f"/{field}", f"unknown field {field}") for field in sorted(set(document) - known)]
    problems += [
        ("NOT_STORABLE", f"/{field}", f"{field} contains characters that the database cannot store")
        for field in texts
        if isinstance(document.get(field), str) and not is_storable(document[field])
    ]
    if problems:
        raise refused(problems)


def check_name(name: str) -> str:
    """The name, if it is valid and does not look like an id. Raises InvalidRequest."""
    if len(name) > NAME_CHARACTERS_MAX or not name.isprintable() or name != name.strip() or _is_uuid(name):
        text = f"a name must have 1 to {NAME_CHARACTERS_MAX} printable characters and must not look like an id"
        raise refused([("BAD_NAME", "/name", text)])
    return name


def refused(problems: Sequence[Problem], *, hint: str = "Correct it and save again.") -> InvalidRequest:
    """The error that lists all problems."""
    details = [{"code": code, "pointer": pointer, "message": message} for code, pointer, message in problems]
    return InvalidRequest("; ".join(message for _, _, message in problems), hint=hint, details=details)


def _is_uuid(text: str) -> bool:
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True
