"""Routes of the gallery: templates of workflows, the same for every tenant."""

from __future__ import annotations

from typing import Any

from anabranch.errors import NotFound
from anabranch.gallery.gallery import WorkflowTemplate, all_templates, find_template
from anabranch.keys.access import Role
from anabranch.rest.models.template_models import TemplateList, TemplateView
from anabranch.rest.routes.route import Reply, Route, RouteCall


async def list_templates(call: RouteCall) -> Reply:
    """Workflows to start from, each with a picture of its graph. `anabranch new --template NAME` makes a project of
    one."""
    return Reply({"items": [_summary(template) for template in all_templates()], "nextCursor": None})


async def get_template(call: RouteCall) -> Reply:
    """One of them, with the text of its workflow, its Python, and an input to try it with."""
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
    return {
        "name": template.name,
        "title": template.title,
        "description": template.description,
        "topic": template.topic,
        "kind": template.kind,
        "picture": template.picture,
    }


ROUTES = (
    Route("GET", "/v1/templates", list_templates, "List the templates of workflows.", Role.VIEWER, {200: TemplateList},
          tag="workflows"),
    Route("GET", "/v1/templates/{template}", get_template, "Get a template.", Role.VIEWER, {200: TemplateView},
          errors=(NotFound,), tag="workflows"),
)  # fmt: skip
