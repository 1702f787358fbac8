"""`anabranch validate`: is a drawn workflow fit to be saved? Needs no database."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anabranch.app import build
from anabranch.cli.options import AsJson, Imports
from anabranch.cli.output import print_document, print_line, problem_line
from anabranch.cli.session import import_user_module
from anabranch.engine.rules.validate import Report
from anabranch.engine.rules.validate import validate as validate_document
from anabranch.intake import read_json_file
from anabranch.settings import Settings

EXIT_INVALID = 2


def validate(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A drawn workflow as JSON.")],
    *,
    imports: Imports = None,
    as_json: AsJson = False,
) -> None:
    """List everything wrong with a workflow, everything odd, and how far it can go. Exits 2 if it would be refused."""
    for name in imports or ():
        import_user_module(name)
    report = validate_document(read_json_file(file), build(Settings()).node_types)
    if as_json:
        print_document(report.as_json())
    else:
        _print_report(file, report)
    if not report.valid:
        raise typer.Exit(EXIT_INVALID)


def _print_report(file: Path, report: Report) -> None:
    for problem in report.errors:
        print_line(f"error {problem_line(problem.as_json())}")
    for problem in report.warnings:
        print_line(f"warning {problem_line(problem.as_json())}")
    if not report.valid:
        print_line(f"{file} is refused: {len(report.errors)} errors, {len(report.warnings)} warnings")
        return
    ends = "always ends" if report.terminates else f"may never end: {', '.join(report.unbounded)} without a bound"
    most = "" if report.activations_max is None else f", at most {report.activations_max} activations"
    print_line(f"{file} is valid; a run {ends}{most}")
