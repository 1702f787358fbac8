"""`anabranch fmt`: one layout for workflow files. Needs no database and no server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anabranch.cli.options import AsJson, Imports
from anabranch.cli.output import document_text, print_document, print_line, write_document
from anabranch.cli.target import local_node_types
from anabranch.errors import InvalidRequest
from anabranch.json_input import read_json_file
from anabranch.service.definitions.document_layout import laid_out

EXIT_DIFFERENT = 1


def fmt(
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", help="Drawn workflows as JSON.")],
    *,
    check: Annotated[bool, typer.Option("--check", help="Change nothing; exit with 1 if a file would be.")] = False,
    imports: Imports = None,
    as_json: AsJson = False,
) -> None:
    """Put the fields of workflow files into a fixed order, so that diffs are small. Values stay as they are."""
    node_types = local_node_types(imports)
    changed: list[Path] = []
    for file in files:
        document = read_json_file(file)
        if not isinstance(document, dict):
            raise InvalidRequest(f"{file} is not a workflow", hint="A workflow is a JSON object with nodes.")
        ordered = laid_out(document, node_types)
        if file.read_text(encoding="utf-8") == document_text(ordered):
            continue
        changed.append(file)
        if not check:
            write_document(file, ordered)
    if as_json:
        print_document({"changed": [str(file) for file in changed], "checked": len(files)})
    else:
        for file in changed:
            print_line(f"{file} {'would be changed' if check else 'is changed'}")
    if check and changed:
        raise typer.Exit(EXIT_DIFFERENT)
