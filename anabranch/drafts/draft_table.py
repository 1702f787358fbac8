"""The rows of drafts, with their pins.

Used by the draft service; shares the connections of its store. Publishing writes the version with the same functions as
any save (`sql/definitions`), in one transaction with the draft.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import orjson
from sqlalchemy import ColumnElement, Connection, and_, delete, func, insert, select, update

from anabranch.audit.audit_recording import record_audit_event
from anabranch.drafts.draft_schema import drafts
from anabranch.drafts.saved_drafts import Draft, DraftMoved, Pins
from anabranch.engine.ports import NewVersion, WorkflowVersion
from anabranch.engine.store.sql.component import SqlComponent
from anabranch.engine.store.sql.database_errors import DuplicateRefused
from anabranch.engine.store.sql.definitions import save_version
from anabranch.engine.store.sql.reading.reads import is_uuid
from anabranch.errors import DraftExists, LimitReached, NameTaken, NotFound

_HEAD = (
    drafts.c.draft_id,
    drafts.c.tenant_id,
    drafts.c.workflow_id,
    drafts.c.base_version,
    drafts.c.revision,
    drafts.c.title,
    drafts.c.created_at,
    drafts.c.updated_at,
    drafts.c.updated_by,
)
_WHOLE = (*_HEAD, drafts.c.document)


class DraftTable:
    """`drafts.SavedDrafts` on a SQL store."""

    def __init__(self, store: SqlComponent) -> None:
        self._store = store

    async def create_draft(self, draft: Draft, *, count_max: int, actor: str) -> Draft:
        """The draft as revision 1, with the store's times. Raises DraftExists; LimitReached at `count_max` drafts."""

        def create(connection: Connection) -> Draft:
            """Check the limit and insert, in one transaction."""
            now = self._store.dialect.now(connection)
            if draft.workflow_id is not None:
                existing = _find(connection, _of_workflow(draft.tenant_id, draft.workflow_id))
                if existing is not None:
                    raise _exists(existing.draft_id)
            of_tenant = select(func.count()).select_from(drafts).where(drafts.c.tenant_id == draft.tenant_id)
            if connection.execute(of_tenant).scalar_one() >= count_max:
                raise LimitReached(f"there are {count_max} drafts already")
            values = {
                "draft_id": draft.draft_id,
                "tenant_id": draft.tenant_id,
                "workflow_id": draft.workflow_id,
                "base_version": draft.base_version,
                "revision": 1,
                "title": draft.title,
                "document": draft.document,
                "pins": "{}",
                "pins_revision": 0,
                "created_at": now,
                "updated_at": now,
                "updated_by": actor,
            }
            connection.execute(insert(drafts).values(values))
            _record(connection, actor, "draft.created", draft, now=now)
            return _found(connection, draft)

        # If the workflow's draft was created at the same moment, it is found.
        return await self._store.transact(create, repeat_duplicate=True)

    async def find_draft(self, draft_id: str, *, tenant_id: str) -> Draft | None:
        """By primary key."""
        if not is_uuid(draft_id):
            return None
        return await self._store.read(lambda connection: _find(connection, _of_id(tenant_id, draft_id)))

    async def find_draft_of(self, workflow_id: str, *, tenant_id: str) -> Draft | None:
        """Uses ux_draft_workflow."""
        return await self._store.read(lambda connection: _find(connection, _of_workflow(tenant_id, workflow_id)))

    async def list_drafts(self, *, tenant_id: str) -> Sequence[Draft]:
        """Uses ux_draft_workflow; a tenant has a thousand at most."""
        query = select(*_HEAD).where(drafts.c.tenant_id == tenant_id)
        return await self._store.read(lambda connection: [_draft(row) for row in connection.execute(query)])

    async def save_draft(self, draft: Draft, *, expected_revision: int | None, actor: str) -> Draft:
        """Holds the row's lock from the comparison to the commit."""

        def save(connection: Connection) -> Draft:
            """Compare the revision and write, with the row locked; an unchanged document keeps its revision."""
            current = _locked(connection, draft.tenant_id, draft.draft_id)
            base_version = current.base_version if draft.base_version is None else draft.base_version
            if (draft.document, base_version) == (current.document, current.base_version):
                return current
            if expected_revision not in (None, current.revision):
                raise DraftMoved(current)
            values = {
                "document": draft.document,
                "title": draft.title,
                "base_version": base_version,
                "revision": current.revision + 1,
                "updated_at": self._store.dialect.now(connection),
                "updated_by": actor,
            }
            connection.execute(update(drafts).where(_of_id(draft.tenant_id, draft.draft_id)).values(values))
            return _found(connection, draft)

        return await self._store.transact(save)

    async def delete_draft(self, draft_id: str, *, tenant_id: str, actor: str) -> bool:
        """Remove a draft with its pins, and record it; False if the tenant has none with this id."""
        if not is_uuid(draft_id):
            return False

        def remove(connection: Connection) -> bool:
            """Delete the row and record it, in one transaction."""
            current = _find(connection, _of_id(tenant_id, draft_id))
            if current is None or not connection.execute(delete(drafts).where(_of_id(tenant_id, draft_id))).rowcount:
                return False
            _record(connection, actor, "draft.deleted", current, now=self._store.dialect.now(connection))
            return True

        return await self._store.transact(remove)

    async def publish_draft(self, draft: Draft, version: NewVersion, *, actor: str) -> tuple[WorkflowVersion, Draft]:
        """Locks the draft first, then the workflow; saves lock only the latter."""

        def publish(connection: Connection) -> tuple[WorkflowVersion, Draft]:
            """Save the version and move the draft to it, in one transaction."""
            current = _locked(connection, draft.tenant_id, draft.draft_id)
            was = (draft.revision, draft.workflow_id, draft.base_version)
            if (current.revision, current.workflow_id, current.base_version) != was:
                raise DraftMoved(current)
            now = self._store.dialect.now(connection)
            saved = save_version(connection, version, tenant_id=draft.tenant_id, actor=actor, now=now)
            values = {"workflow_id": saved.workflow_id, "base_version": saved.version}
            connection.execute(update(drafts).where(_of_id(draft.tenant_id, draft.draft_id)).values(values))
            return saved, _found(connection, draft)

        try:
            return await self._store.transact(publish)
        except DuplicateRefused:
            raise NameTaken(f"another workflow is already named {version.name}") from None

    async def read_pins(self, draft_id: str, *, tenant_id: str) -> Pins | None:
        """The pins of a draft with their revision; None if there is no such draft."""
        query = select(drafts.c.pins, drafts.c.pins_revision).where(_of_id(tenant_id, draft_id))
        found = await self._store.read(lambda connection: connection.execute(query).one_or_none())
        return None if found is None else Pins(*found)

    async def save_pins(
        self, draft_id: str, text: str, *, tenant_id: str, expected_revision: int | None
    ) -> Pins | None:
        """One statement: the comparison is in it."""
        which = _of_id(tenant_id, draft_id)
        if expected_revision is not None:
            which = and_(which, drafts.c.pins_revision == expected_revision)
        statement = (
            update(drafts)
            .where(which)
            .values(pins=text, pins_revision=drafts.c.pins_revision + 1)
            .returning(drafts.c.pins, drafts.c.pins_revision)
        )
        found = await self._store.transact(lambda connection: connection.execute(statement).one_or_none())
        return None if found is None else Pins(*found)

    async def read_listening(self, draft_id: str, *, tenant_id: str) -> dict[str, str] | None:
        """The newest test run that listens, by the node that it begins at; None if there is no such draft."""
        if not is_uuid(draft_id):
            return None
        query = select(drafts.c.listening).where(_of_id(tenant_id, draft_id))
        found = await self._store.read(lambda connection: connection.execute(query).one_or_none())
        return None if found is None else _listening(found.listening)

    async def save_listening(
        self, draft_id: str, node_id: str, instance_id: str, *, tenant_id: str, kept: Collection[str]
    ) -> None:
        """Holds the row's lock from the reading to the commit."""
        which = _of_id(tenant_id, draft_id)

        def save(connection: Connection) -> None:
            found = connection.execute(select(drafts.c.listening).where(which).with_for_update()).one_or_none()
            if found is None:
                raise _no_draft(draft_id)
            known = {each: run for each, run in _listening(found.listening).items() if each in kept}
            listening = orjson.dumps({**known, node_id: instance_id}).decode()
            connection.execute(update(drafts).where(which).values(listening=listening))

        await self._store.transact(save)


def _of_id(tenant_id: str, draft_id: str) -> ColumnElement[bool]:
    return and_(drafts.c.draft_id == draft_id, drafts.c.tenant_id == tenant_id)


def _of_workflow(tenant_id: str, workflow_id: str) -> ColumnElement[bool]:
    return and_(drafts.c.workflow_id == workflow_id, drafts.c.tenant_id == tenant_id)


def _find(connection: Connection, which: ColumnElement[bool]) -> Draft | None:
    row = connection.execute(select(*_WHOLE).where(which)).one_or_none()
    return None if row is None else _draft(row)


def _found(connection: Connection, draft: Draft) -> Draft:
    found = _find(connection, _of_id(draft.tenant_id, draft.draft_id))
    assert found is not None, "it has just been written"
    return found


def _locked(connection: Connection, tenant_id: str, draft_id: str) -> Draft:
    row = connection.execute(select(*_WHOLE).where(_of_id(tenant_id, draft_id)).with_for_update()).one_or_none()
    if row is None:
        raise _no_draft(draft_id)
    return _draft(row)


def _draft(row: Sequence[Any]) -> Draft:
    return Draft(*row)


def _listening(text: str | None) -> dict[str, str]:
    listening: dict[str, str] = {} if text is None else orjson.loads(text)
    return listening


def _no_draft(draft_id: str) -> NotFound:
    return NotFound(f"there is no draft {draft_id}")


def _exists(draft_id: str) -> DraftExists:
    return DraftExists(f"the workflow has the draft {draft_id} already", details={"draftID": draft_id})


def _record(connection: Connection, actor: str, action: str, draft: Draft, *, now: int) -> None:
    record_audit_event(
        connection,
        actor,
        action,
        tenant_id=draft.tenant_id,
        target=draft.draft_id,
        details={"workflow": draft.workflow_id, "revision": draft.revision},
        now=now,
    )
