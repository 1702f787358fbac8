"""All routes, in one table: what is not in it is not served."""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.rest import data_routes, run_routes, system_routes, trigger_routes, workflow_routes
from anabranch.rest.routes import Route

ROUTES: Sequence[Route] = (
    *workflow_routes.ROUTES,
    *run_routes.ROUTES,
    *data_routes.ROUTES,
    *trigger_routes.ROUTES,
    *system_routes.ROUTES,
)
