"""Read the fields of a definition, and report those that are invalid.

Pure. `document` reads every object of a workflow with it. Handles kinds of fields (text, list, choice, duration), not
their meaning.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from anabranch.engine.rules.duration import parse_duration
from anabranch.engine.rules.graph.known_fields import advice_on, is_extension
from anabranch.engine.rules.graph.problems import Problem, pointer_to, quoted
from anabranch.engine.rules.values import kind_of


class FieldReader:
    """Reads fields and collects problems. `pointer` is always that of the object with the field."""

    def __init__(self, errors: list[Problem], warnings: list[Problem]) -> None:
        self._errors = errors
        self._warnings = warnings
        self._unknown: set[tuple[str, str]] = set()

    def text(
        self,
        value: dict[str, Any],
        name: str,
        pointer: str,
        *,
        required: bool = False,
        node_id: str | None = None,
        edge_id: str | None = None,
    ) -> str | None:
        """The text of a field; None if there is none, which is reported for a required field."""
        text = value.get(name)
        field_pointer = pointer + pointer_to(name)
        if isinstance(text, str):
            return text
        if text is not None:
            self.wrong_type(field_pointer, "a string", text, node_id=node_id, edge_id=edge_id)
        elif required:
            self.error("MISSING_FIELD", f"{name} is required", field_pointer, node_id=node_id, edge_id=edge_id)
        return None

    def items(self, value: dict[str, Any], name: str, pointer: str, *, required: bool) -> list[Any]:
        """The list of a field; an empty one if there is none."""
        items = value.get(name)
        field_pointer = pointer + pointer_to(name)
        if isinstance(items, list):
            return items
        if items is not None:
            self.wrong_type(field_pointer, "a list", items)
        elif required:
            self.error("MISSING_FIELD", f"{name} is required", field_pointer)
        return []

    def choice(
        self,
        value: dict[str, Any],
        name: str,
        pointer: str,
        *,
        among: Sequence[str],
        code: str,
        node_id: str | None = None,
    ) -> str | None:
        """The value of a choice; None if absent, or not `among` the allowed values (reported)."""
        chosen = value.get(name)
        if chosen is None:
            return None
        if isinstance(chosen, str) and chosen in among:
            return chosen
        message = f"{name} is {quoted(chosen)}; it must be one of {', '.join(among)}"
        self.error(code, message, pointer + pointer_to(name), node_id=node_id)
        return None

    def duration_ms(
        self, value: dict[str, Any], name: str, pointer: str, *, code: str, node_id: str | None = None
    ) -> int | None:
        """A positive duration in milliseconds; None if absent or invalid (reported)."""
        written = value.get(name)
        if written is None:
            return None
        field_pointer = pointer + pointer_to(name)
        try:
            milliseconds = parse_duration(written)
        except ValueError as refusal:
            self.error(code, f"{name}: {refusal}", field_pointer, node_id=node_id)
            return None
        if milliseconds == 0:
            self.error(code, f"{name} must be longer than 0", field_pointer, node_id=node_id)
            return None
        return milliseconds

    def wrong_type(
        self, pointer: str, wanted: str, value: object, *, node_id: str | None = None, edge_id: str | None = None
    ) -> None:
        """Report a value of the wrong kind at `pointer`."""
        message = f"{pointer or '/'} must be {wanted}, not {kind_of(value)}"
        self.error("WRONG_TYPE", message, pointer, node_id=node_id, edge_id=edge_id)

    def error(
        self,
        code: str,
        message: str,
        pointer: str,
        *,
        node_id: str | None = None,
        edge_id: str | None = None,
        hint: str | None = None,
    ) -> None:
        """Report an error; the definition is refused."""
        self._errors.append(Problem(code, message, pointer, node_id, edge_id, hint))

    def note_unknown(
        self,
        value: dict[str, Any],
        owner: str,
        pointer: str,
        *,
        known: frozenset[str],
        passed_over: frozenset[str] = frozenset(),
        config_fields: Collection[str] = (),
        node_id: str | None = None,
    ) -> None:
        """Warn about fields without effect, once per kind of object, because a tool that adds one adds it everywhere.
        Fields in `passed_over` and extensions are left out.
        """
        for name in sorted(value.keys() - known - passed_over):
            if (owner, name) in self._unknown or is_extension(name):
                continue
            field_pointer = pointer + pointer_to(name)
            self._unknown.add((owner, name))
            hint = advice_on(name, known, config_fields=config_fields) or _KEPT
            message = f"unknown {owner} field {quoted(name)}"
            self._warnings.append(Problem("UNKNOWN_FIELD", message, field_pointer, node_id, hint=hint))


_KEPT = "It is stored and has no effect. Fields of other tools begin with `x-`; those are not warned about."
