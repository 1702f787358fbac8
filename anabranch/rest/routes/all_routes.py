"""The table of all routes."""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.audit import audit_routes
from anabranch.dead_letters import dead_letter_routes
from anabranch.drafts import draft_routes
from anabranch.imports import import_routes
from anabranch.keys import key_routes
from anabranch.queries.saved import query_routes
from anabranch.rest.routes import pause_routes as pause_routes
from anabranch.rest.routes import repair_routes as repair_routes
from anabranch.rest.routes import run_detail_routes as run_detail_routes
from anabranch.rest.routes import run_routes as run_routes
from anabranch.rest.routes import system_routes as system_routes
from anabranch.rest.routes import template_routes as template_routes
from anabranch.rest.routes import workflow_routes as workflow_routes
from anabranch.rest.routes.route import Route
from anabranch.secrets import job_config_routes, secret_routes
from anabranch.triggers import trigger_routes
from anabranch.triggers.schedules import schedule_routes
from anabranch.triggers.topics import topic_routes
from anabranch.triggers.webhooks import webhook_routes
from anabranch.variables import variable_routes

ROUTES: Sequence[Route] = (
    *workflow_routes.ROUTES,
    *pause_routes.ROUTES,
    *template_routes.ROUTES,
    *draft_routes.ROUTES,
    *import_routes.ROUTES,
    *run_routes.ROUTES,
    *run_detail_routes.ROUTES,
    *repair_routes.ROUTES,
    *query_routes.ROUTES,
    *secret_routes.ROUTES,
    *variable_routes.ROUTES,
    *job_config_routes.ROUTES,
    *key_routes.ROUTES,
    *audit_routes.ROUTES,
    *trigger_routes.ROUTES,
    *dead_letter_routes.ROUTES,
    *schedule_routes.ROUTES,
    *topic_routes.ROUTES,
    *webhook_routes.ROUTES,
    *system_routes.HEALTH,
    *system_routes.ROUTES,
)
