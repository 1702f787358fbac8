"""`anabranch openapi`: the REST API, described for programs. Needs no database and no server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anabranch.cli.options import AsJson
from anabranch.cli.output import print_answer, print_document, write_document
from anabranch.deferred import deferred

if TYPE_CHECKING:
    from anabranch.rest import openapi as rest_openapi
    from anabranch.rest.routes import all_routes
else:
    rest_openapi = deferred("anabranch.rest.openapi")
    all_routes = deferred("anabranch.rest.routes.all_routes")


def openapi(
    *,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it here.")] = None,
    as_json: AsJson = False,
) -> None:
    """The OpenAPI 3.1 document of the server, as `/openapi.json` has it; printed unless --output names a file."""
    document = rest_openapi.openapi_document(all_routes.ROUTES)
    if output is None:
        print_document(document)
        return
    write_document(output, document)
    print_answer(
        {"file": str(output)}, f"the description of {len(document['paths'])} paths is in {output}", as_json=as_json
    )
