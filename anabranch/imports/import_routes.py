"""The route of imports from n8n."""

from __future__ import annotations

from anabranch.errors import InvalidRequest, LimitReached, TooLarge
from anabranch.keys.access import Role
from anabranch.rest.models.import_models import ImportedWorkflows, ImportQuery
from anabranch.rest.routes.route import AnyJson, Reply, RouteCall, RouteTable

ROUTES = RouteTable("drafts")


@ROUTES.post(
    "/v1/import/n8n",
    Role.EDITOR,
    {201: ImportedWorkflows, 200: ImportedWorkflows},
    query=ImportQuery,
    body=AnyJson(),
    errors=(InvalidRequest, LimitReached, TooLarge),
)
async def import_workflows(call: RouteCall) -> Reply:
    """Import workflows of n8n as drafts.

    Each workflow of an export becomes a draft, with the report on what is the same and what is not.
    """
    made = await call.services.imports.import_n8n(
        [call.body],
        tenant_id=call.tenant_id,
        timezone=call.query.timezone,
        save=call.query.save,
        actor=call.actor,
    )
    return Reply({"items": [each.as_json() for each in made]}, 201 if call.query.save else 200)
