"""What the service sends to a driver process: the database to connect to, and queries to execute.

Pure. Written by the service (`driver_process`), read by the driver process (`serve`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from anabranch.dataclass import dataclass
from anabranch.queries.parameters import Bound, Document


@dataclass(frozen=True, slots=True)
class DatabaseTarget:
    """A database to connect to: a SQLite file (`path`), or a server."""

    path: str = ""
    host: str = ""
    addresses: Sequence[str] = ()
    port: int = 0
    user: str = ""
    password: str = ""
    database: str = ""
    socket_directory: str | None = None
    tls: str = ""
    connect_timeout_ms: int = 0


@dataclass(frozen=True, slots=True)
class QueryRequest:
    """One execution of one query."""

    pieces: Sequence[str | Sequence[str]]
    """The SQL, cut at its parameters: text, or `[name]`."""
    verb: str
    values: Mapping[str, Bound]
    writes: bool
    timeout_ms: int
    rows_max: int
    bytes_max: int
    memory_max: int
    as_in_node: bool = False
    """PostgreSQL's values are those that the driver of Node.js gives to JSON."""

    @property
    def names(self) -> Sequence[str]:
        """The parameters, each once, in the order of first occurrence."""
        return list(dict.fromkeys(piece[0] for piece in self.pieces if not isinstance(piece, str)))

    def render(self, placeholder: Callable[[str], str]) -> str:
        """The SQL with each parameter as the driver wants it written, given its name.

        With spaces around it, or `e:name` would become the name `e$1`, or a literal with a prefix.
        """
        return "".join(piece if isinstance(piece, str) else f" {placeholder(piece[0])} " for piece in self.pieces)


def value_as_json(value: Bound) -> Any:
    """A bound value as JSON, tagged where JSON has no such type."""
    if isinstance(value, datetime):
        return {"datetime": value.isoformat()}
    if isinstance(value, Document):
        return {"document": value.value}
    return value


def value_of_json(sent: Any) -> Bound:
    """The bound value in this JSON."""
    match sent:
        case {"datetime": str(text)}:
            return datetime.fromisoformat(text)
        case {"document": value}:
            return Document(value)
    bound: Bound = sent
    return bound
