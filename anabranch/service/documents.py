"""What people send to be saved: fields and names, read once for every kind of thing, and how it is refused.

Pure. Called by the façades of data, schedules and topics. What is wrong is said all at once, each
problem with a code, a JSON pointer and a sentence.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from anabranch.errors import InvalidRequest
from anabranch.service.runs.input_checks import is_storable

# 64 characters, as for the names of workflows.
NAME_CHARACTERS_MAX = 64

Problem: TypeAlias = tuple[str, str, str]
"""Code, pointer, sentence."""


def check_fields(document: Any, *, known: frozenset[str], texts: Sequence[str]) -> None:
    """Return if it is an object with these texts, and no field that is not known. Raises InvalidRequest."""
    if not isinstance(document, Mapping):
        raise InvalidRequest("the document is a JSON object")
    problems = [
        (
            "MISSING_FIELD" if field not in document else "WRONG_TYPE",
            f"/{field}",
            f"{field} is text, and has to be given",
        )
        for field in texts
        if not isinstance(document.get(field), str) or not document[field].strip()
    ]
    problems += [
        ("UNKNOWN_FIELD", f"/{field}", f"there is no field {field}") for field in sorted(set(document) - known)
    ]
    problems += [
        ("NOT_STORABLE", f"/{field}", f"{field} holds characters that no database stores")
        for field in texts
        if isinstance(document.get(field), str) and not is_storable(document[field])
    ]
    if problems:
        raise refused(problems)


def check_name(name: str) -> str:
    """The name, if it is one that can be told apart from an id. Raises InvalidRequest."""
    if len(name) > NAME_CHARACTERS_MAX or not name.isprintable() or name != name.strip() or _is_uuid(name):
        text = f"a name has 1 to {NAME_CHARACTERS_MAX} printable characters, and is not in the form of an id"
        raise refused([("BAD_NAME", "/name", text)])
    return name


def refused(problems: Sequence[Problem], *, hint: str = "Correct it and save again.") -> InvalidRequest:
    """The refusal that says all of it."""
    details = [{"code": code, "pointer": pointer, "message": message} for code, pointer, message in problems]
    return InvalidRequest("; ".join(message for _, _, message in problems), hint=hint, details=details)


def _is_uuid(text: str) -> bool:
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True
