"""The options that commands share, and parsers for their values.

Options that many commands have together are the fields of a dataclass: `DatabaseOptions` here, `TargetOptions` in
`target`. A command takes one of it, and `lazy_commands` puts the options in its place.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer

from anabranch.dataclass import dataclass
from anabranch.engine.rules.duration import ACCEPTED_TEXT, parse_duration
from anabranch.engine.rules.instants import from_iso_or_date
from anabranch.errors import InvalidRequest
from anabranch.json_input import TEXT_BYTES_MAX, parse_json, read_json_file
from anabranch.run_requests import COMMAND_LINE

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")]
DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        "--database-url", metavar="URL", help="sqlite:///path or postgresql://…; else ANABRANCH_DATABASE_URL."
    ),
]
Url = Annotated[
    str | None,
    typer.Option(
        "--url", metavar="URL", help="A server, http(s)://host[:port]; else ANABRANCH_URL, else the database."
    ),
]
Token = Annotated[
    str | None,
    typer.Option(
        "--token", metavar="KEY", help="The API key for it; ANABRANCH_TOKEN and ANABRANCH_TOKEN_FILE are safer."
    ),
]
Tenant = Annotated[str, typer.Option("--tenant", metavar="TENANT", help="The tenant.")]
Imports = Annotated[
    list[str] | None,
    typer.Option(
        "--import",
        metavar="MODULE_OR_FILE",
        help="Where @workflow and @node_type declarations are; may be repeated.",
    ),
]
Input = Annotated[
    str | None,
    typer.Option(
        "--input",
        metavar="JSON|@FILE",
        help="The run's input, or @ and a file that holds it; @- reads it from standard input.",
    ),
]
Key = Annotated[str | None, typer.Option("--key", help="Idempotency key: a repeat returns the first run.")]

RunId = Annotated[str, typer.Argument(metavar="INSTANCE_ID", help="The run.")]
WorkflowName = Annotated[str, typer.Argument(metavar="WORKFLOW", help="Name or id of a workflow.")]

DEFAULT_TENANT = "default"

# The actor in the audit trail for commands on the database.
CLI_ACTOR = COMMAND_LINE


@dataclass(frozen=True, slots=True)
class DatabaseOptions:
    """Options for the database, the tenant and the output format."""

    database_url: DatabaseUrl = None
    tenant: Tenant = DEFAULT_TENANT
    as_json: AsJson = False

    @property
    def flags(self) -> list[str]:
        """The flags with which another command finds the same database."""
        flags = [] if self.tenant == DEFAULT_TENANT else ["--tenant", self.tenant]
        if self.database_url is not None:
            # A password is not repeated on the screen.
            flags += ["--database-url", "URL" if urlsplit(self.database_url).password else self.database_url]
        return flags


def read_value(text: str | None, *, what: str, default: Any) -> Any:
    """The JSON value that `text` is, or that the file after `@` holds. Raises as `json_input` does."""
    if text is None:
        return default
    if text == "@-":
        return parse_json(sys.stdin.buffer.read(TEXT_BYTES_MAX + 1), what=what)
    if text.startswith("@"):
        return read_json_file(Path(text[1:]))
    return parse_json(text, what=what)


def read_duration(text: str | None, *, option: str) -> int | None:
    """Milliseconds of a duration with its unit. Raises InvalidRequest."""
    if text is None:
        return None
    try:
        return parse_duration(text)
    except ValueError:
        raise InvalidRequest(
            f"{option}: {text!r:.80} is not a duration: write {ACCEPTED_TEXT}",
            hint="Write a duration with its unit, such as 30m or 2h.",
        ) from None


def read_instant(text: str | None, *, option: str) -> int | None:
    """Milliseconds since the epoch of an ISO 8601 time with an offset; a date begins in UTC. Raises InvalidRequest."""
    if text is None:
        return None
    try:
        return from_iso_or_date(text)
    except (ValueError, OverflowError):
        raise InvalidRequest(
            f"{option} {text!r} is not a point in time",
            hint="Write ISO 8601 with an offset, 2030-01-31T08:00:00+01:00, or a date, which begins in UTC.",
        ) from None
