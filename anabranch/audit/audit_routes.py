"""Routes of the audit trail, with their request and response models."""

from __future__ import annotations

from typing import Any

from pydantic import AwareDatetime, Field

from anabranch.audit.audit_trail import audit_row_as_json
from anabranch.keys.access import Role
from anabranch.rest.lists import page_of
from anabranch.rest.models.base import ListModel, Page, ResponseModel
from anabranch.rest.routes.route import Reply, RouteCall, RouteTable
from anabranch.service.cursors import cut, make_cursor, read_cursor, read_number


class AuditEntryModel(ResponseModel):
    """A row of the audit trail."""

    position: int = Field(description="1, 2, 3… in the whole database; a tenant sees its own rows.")
    at: AwareDatetime
    tenant: str
    actor: str = Field(description="The id of a key, or `cli`; empty if unknown.")
    action: str
    target: str
    details: dict[str, Any]
    hash: str


class AuditPage(ListModel[AuditEntryModel]):
    """A page of the audit trail, newest first."""


ROUTES = RouteTable("access")


@ROUTES.get("/v1/audit", Role.ADMIN, {200: AuditPage}, query=Page)
async def list_audit(call: RouteCall) -> Reply:
    """Read the audit trail of the tenant, newest first.

    Who created and revoked keys, saved and deleted objects of this tenant; newest first.
    """
    page: Page = call.query
    before = None if page.cursor is None else read_number(read_cursor("audit", page.cursor, parts=1)[0])
    rows = await call.services.audit.list(call.tenant_id, limit=page.limit + 1, before=before)
    shown, next_cursor = cut(list(rows), page.limit, lambda row: make_cursor("audit", row.position))
    return Reply(page_of([audit_row_as_json(row) for row in shown], next_cursor))
