"""All routes, in one table: what is not in it is not served."""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.rest.routes import data as data_routes
from anabranch.rest.routes import runs as run_routes
from anabranch.rest.routes import system as system_routes
from anabranch.rest.routes import triggers as trigger_routes
from anabranch.rest.routes import workflows as workflow_routes
from anabranch.rest.routes.route import Route

ROUTES: Sequence[Route] = (
    *workflow_routes.ROUTES,
    *run_routes.ROUTES,
    *data_routes.ROUTES,
    *trigger_routes.ROUTES,
    *system_routes.ROUTES,
)
