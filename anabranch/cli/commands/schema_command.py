"""`anabranch schema`: the JSON Schema of workflow files, for editors. Needs no database and no server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anabranch.cli.options import AsJson, Imports
from anabranch.cli.output import print_answer, print_document, write_document
from anabranch.cli.target import local_node_types
from anabranch.service.definitions.document_schema import document_schema


def schema(
    *,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it here.")] = None,
    imports: Imports = None,
    as_json: AsJson = False,
) -> None:
    """The JSON Schema of workflow files: editors complete a file that names it in `$schema`."""
    document = document_schema(local_node_types(imports))
    if output is None:
        print_document(document)
        return
    write_document(output, document)
    print_answer({"file": str(output)}, f"the schema of workflow files is in {output}", as_json=as_json)
