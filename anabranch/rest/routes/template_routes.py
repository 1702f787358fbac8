"""Routes of the gallery: templates of workflows, the same for every tenant."""

from __future__ import annotations

from typing import Any

from anabranch.errors import NotFound
from anabranch.gallery.gallery import WorkflowTemplate, all_templates, find_template
from anabranch.keys.access import Role
from anabranch.rest.models.template_models import TemplateList, TemplateView
from anabranch.rest.routes.route import Reply, RouteCall, RouteTable

ROUTES = RouteTable("workflows")


@ROUTES.get("/v1/templates", Role.VIEWER, {200: TemplateList})
async def list_templates(call: RouteCall) -> Reply:
    """List the templates of workflows.

    Workflows to start from, each with a picture of its graph. `anabranch new --template NAME` makes a project of
    one.
    """
    return Reply({"items": [_summary(template) for template in all_templates()], "nextCursor": None})


@ROUTES.get("/v1/templates/{template}", Role.VIEWER, {200: TemplateView}, errors=(NotFound,))
async def get_template(call: RouteCall) -> Reply:
    """Get a template.

    One of them, with the text of its workflow, its Python, and an input to try it with.
    """
    template = find_template(call.path["template"])
    return Reply(
        {
            **_summary(template),
            "change": template.change,
            "workflow": template.workflow,
            "input": template.input,
            "document": template.text,
            "code": template.code,
        }
    )


def _summary(template: WorkflowTemplate) -> dict[str, Any]:
    return {**template.summary(), "picture": template.picture}
