"""`anabranch validate`: check a drawn workflow, without a database or on a server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from anabranch.cli.options import AsJson, Imports, Token, Url
from anabranch.cli.output import counted, import_hints, print_document, print_line, problem_line
from anabranch.cli.target import find_validator
from anabranch.json_input import read_json_file

EXIT_INVALID = 2


def validate(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A drawn workflow as JSON.")],
    *,
    imports: Imports = None,
    url: Url = None,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """List everything wrong with a workflow, everything odd, and how far it can go. Exits 2 if it would be refused."""
    validate = find_validator(url=url, token=token, imports=imports)
    report = validate(read_json_file(file))
    if as_json:
        print_document(report)
    else:
        _print_report(file, report)
    if not report["valid"]:
        raise typer.Exit(EXIT_INVALID)


def _print_report(file: Path, report: dict[str, Any]) -> None:
    errors, warnings = report["errors"], report["warnings"]
    for problem in errors:
        print_line(f"error {problem_line(problem)}")
    for problem in warnings:
        print_line(f"warning {problem_line(problem)}")
    if not report["valid"]:
        print_line(f"{file} is refused: {counted(len(errors), 'error')}, {counted(len(warnings), 'warning')}")
        for hint in import_hints(errors):
            print_line(hint)
        return
    unbounded, most = report["unbounded"], report["activationsMax"]
    ends = "always ends" if report["terminates"] else f"may never end: {', '.join(unbounded)} without a bound"
    bound = "" if most is None else f", at most {counted(most, 'activation')}"
    print_line(f"{file} is valid; a run {ends}{bound}")
