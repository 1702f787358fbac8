"""Definitions: workflows, their names and their immutable, numbered versions.

The part of a store that saves and finds workflows; `store.SqlStore` inherits it. Versions are never changed, so an
ended run stays readable with its definition. A deleted workflow only frees its name.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson
from sqlalchemy import Connection

from anabranch.audit.audit_recording import record_audit_event
from anabranch.engine.ports import NewVersion, WorkflowEntry, WorkflowVersion
from anabranch.engine.rules.coded.coded_plan import CODED_KIND, CODED_TENANT_ID
from anabranch.engine.rules.graph.source_texts import parse_document
from anabranch.engine.store.sql import statements
from anabranch.engine.store.sql.component import SqlComponent
from anabranch.engine.store.sql.database_errors import DuplicateRefused
from anabranch.engine.store.sql.reading.reads import is_uuid
from anabranch.errors import NameTaken, NotFound, VersionMismatch, WorkflowHasRuns
from anabranch.triggers.arming import ArmedVersion, arm, disarm


class Definitions(SqlComponent):
    """The part of `ports.Store` for definitions."""

    async def save_workflow(self, version: NewVersion, *, tenant_id: str, actor: str | None = None) -> WorkflowVersion:
        """Save a new workflow or the next version of one; if equal to the newest version, returns that one. Raises
        NameTaken, NotFound, VersionMismatch.

        Concurrent saves get different numbers.
        """
        if version.workflow_id is not None and not is_uuid(version.workflow_id):
            raise _absent(version.workflow_id)

        def save(connection: Connection) -> WorkflowVersion:
            now = self.dialect.now(connection)
            return save_version(connection, version, tenant_id=tenant_id, actor=actor, now=now)

        try:
            return await self.transact(save)
        except DuplicateRefused:
            raise NameTaken(f"another workflow is already named {version.name}") from None

    async def get_workflow(
        self, *, tenant_id: str, workflow: str, version: int | None = None, active: bool = False
    ) -> WorkflowVersion | None:
        """By id or name; unless a version is named the newest one, or with `active` the one that starts take."""

        def find(connection: Connection) -> WorkflowVersion | None:
            """By id first, then by name."""
            found = _find_visible(connection, asked, by_id=True, active=active) if is_uuid(workflow) else None
            return found or _find_visible(connection, asked, by_id=False, active=active)

        asked = {"tenant_id": tenant_id, "workflow": workflow} | ({} if version is None else {"version": version})
        return await self.read(find)

    async def activate_version(
        self, *, tenant_id: str, workflow_id: str, version: int, actor: str | None = None
    ) -> WorkflowVersion:
        """Make this the version that starts take, and arm its triggers. Raises NotFound, HookPathTaken,
        LimitReached."""
        if not is_uuid(workflow_id):
            raise _absent(workflow_id)

        def activate(connection: Connection) -> WorkflowVersion:
            """Make the version the active one, arm its triggers and record it, with the workflow locked."""
            newest = _lock(connection, tenant_id, workflow_id, against_new_runs=False)
            found = _find_live(connection, tenant_id=tenant_id, workflow_id=workflow_id, version=version)
            if found is None:
                raise NotFound(f"workflow {newest.name} has no version {version}")
            if newest.active_version != version:
                _activate(connection, newest, version)
                now = self.dialect.now(connection)
                _arm(connection, found, now=now)
                _record(connection, actor, "workflow.activated", replace(newest, version=version), now=now)
            return replace(newest, active_version=version)

        return await self.transact(activate)

    async def register_code(
        self, *, name: str, version: int, definition: Mapping[str, Any], active: bool = False
    ) -> WorkflowVersion:
        """Register a version of a coded workflow with its current options."""
        text = orjson.dumps(definition).decode()

        def register(connection: Connection) -> WorkflowVersion:
            """Write the version and its options, and on request make it the active one."""
            _register(connection, name, version, text, now=self.dialect.now(connection))
            newest = _find_live(connection, tenant_id=CODED_TENANT_ID, name=name)
            assert newest is not None, "it has just been written"
            if active and newest.active_version != version:
                _activate(connection, newest, version)
            registered = _find_live(connection, tenant_id=CODED_TENANT_ID, name=name, version=version)
            assert registered is not None, "so has this version"
            return registered

        return await self.transact(register, repeat_duplicate=True)  # another worker may register it at the same moment

    async def get_definition(self, workflow_id: str, version: int) -> WorkflowVersion | None:
        """The pinned version of an instance, also after the workflow was deleted while runs remain readable."""
        if not is_uuid(workflow_id):
            return None
        query = statements.pinned_version(workflow_id=workflow_id, version=version)
        values = await self.read(lambda connection: connection.execute(query).one_or_none())
        return None if values is None else _version(values)

    async def get_document(self, workflow_id: str, version: int) -> str | None:
        """The definition of a version as it is stored."""
        query = statements.pinned_version(workflow_id=workflow_id, version=version)
        found = await self.read(lambda connection: connection.execute(query).mappings().one_or_none())
        return None if found is None else str(found["definition"])

    async def list_workflows(
        self, *, tenant_id: str, limit: int, after: str | None = None, with_definitions: bool = False
    ) -> list[WorkflowEntry]:
        """The newest version of each, by name, strictly after that one."""
        query = statements.newest_versions(
            tenant_id=tenant_id, limit=limit, after=after, with_definitions=with_definitions
        )
        rows = await self.read(lambda connection: connection.execute(query).all())
        return [_entry(row) for row in rows]

    async def list_versions(
        self, *, tenant_id: str, workflow_id: str, limit: int, before: int | None = None
    ) -> list[WorkflowEntry]:
        """The versions of one that is not deleted, newest first, strictly before that one."""
        if not is_uuid(workflow_id):
            return []
        query = statements.versions_of(tenant_id=tenant_id, workflow_id=workflow_id, limit=limit, before=before)
        rows = await self.read(lambda connection: connection.execute(query).all())
        return [_entry(row) for row in rows]

    async def delete_workflow(
        self, *, tenant_id: str, workflow_id: str, force: bool = False, actor: str | None = None
    ) -> None:
        """Free the name; nothing is created any more. Raises NotFound; without `force` WorkflowHasRuns too."""
        if not is_uuid(workflow_id):
            raise _absent(workflow_id)

        def delete(connection: Connection) -> None:
            """Mark it deleted, disarm its triggers and remove its variables, while no run of it can be created."""
            newest = _lock(connection, tenant_id, workflow_id, against_new_runs=True)
            runs = {"workflow_id": workflow_id}
            if not force and connection.execute(statements.OPEN_RUN_OF_WORKFLOW, runs).first() is not None:
                raise WorkflowHasRuns(f"workflow {newest.name} has open runs")
            now = self.dialect.now(connection)
            connection.execute(statements.update_workflow(workflow_id=workflow_id, deleted_at=now))
            disarm(connection, workflow_id)
            connection.execute(statements.delete_variables_of(workflow_id, tenant_id=tenant_id))
            _record(connection, actor, "workflow.deleted", newest, now=now)

        await self.transact(delete)

    async def runs_of_deleted_workflows(self, *, limit: int, workflow_id: str | None = None) -> list[tuple[str, str]]:
        """(tenant_id, instance_id) of open runs of deleted workflows, or of this one if it is deleted."""
        query = statements.runs_of_deleted_workflows(of_one=workflow_id is not None)
        asked = {"limit": limit} if workflow_id is None else {"limit": limit, "workflow_id": workflow_id}
        rows = await self.read(lambda connection: connection.execute(query, asked).all())
        return [(tenant_id, instance_id) for tenant_id, instance_id in rows]


def save_version(
    connection: Connection, version: NewVersion, *, tenant_id: str, actor: str | None, now: int
) -> WorkflowVersion:
    """Inside the caller's transaction, with the triggers of an active version. Raises DuplicateRefused for a taken
    name, HookPathTaken, LimitReached."""
    # Through text and back, so that the result shares nothing with the argument.
    text = orjson.dumps(version.definition) if version.text is None else version.text.encode()
    wanted = WorkflowVersion(
        workflow_id=version.workflow_id or str(uuid.uuid4()),
        tenant_id=tenant_id,
        name=version.name,
        title=version.title,
        kind=version.kind,
        version=1,
        definition=_definition(version.kind, text),
        created_at=0,
        updated_at=0,
        active_version=1,
    )
    if version.workflow_id is None:
        return _create(connection, wanted, text, actor, now=now)
    return _advance(connection, wanted, text, version, actor, now=now)


def _create(
    connection: Connection, wanted: WorkflowVersion, text: bytes, actor: str | None, *, now: int
) -> WorkflowVersion:
    _refuse_name_of_code(connection, wanted)
    connection.execute(
        statements.insert_workflow(
            workflow_id=wanted.workflow_id,
            tenant_id=wanted.tenant_id,
            name=wanted.name,
            newest_version=1,
            created_at=now,
        )
    )
    saved = _write_version(connection, wanted, text, version=1, created_at=now, now=now)
    _arm(connection, saved, now=now)
    _record(connection, actor, "workflow.saved", saved, now=now)
    return saved


def _advance(
    connection: Connection,
    wanted: WorkflowVersion,
    text: bytes,
    asked: NewVersion,
    actor: str | None,
    *,
    now: int,
) -> WorkflowVersion:
    expected_version = asked.expected_version
    newest = _lock(connection, wanted.tenant_id, wanted.workflow_id, against_new_runs=False)
    if expected_version is not None and newest.version != expected_version:
        raise VersionMismatch(f"workflow {newest.name} is at version {newest.version}, not {expected_version}")
    same_head = (newest.name, newest.title, newest.kind) == (wanted.name, wanted.title, wanted.kind)
    if same_head and orjson.dumps(newest.definition) == orjson.dumps(wanted.definition):
        return newest
    if newest.name != wanted.name:
        _refuse_name_of_code(connection, wanted)
    version = newest.version + 1
    active = None if asked.activate else newest.active_version
    connection.execute(
        statements.update_workflow(
            workflow_id=wanted.workflow_id, name=wanted.name, newest_version=version, active_version=active
        )
    )
    wanted = replace(wanted, active_version=active or version)
    saved = _write_version(connection, wanted, text, version=version, created_at=newest.created_at, now=now)
    if saved.active_version == version:
        _arm(connection, saved, now=now)
    elif newest.name != saved.name:  # what is armed shows the name
        in_force = _find_live(
            connection, tenant_id=saved.tenant_id, workflow_id=saved.workflow_id, version=saved.active_version
        )
        assert in_force is not None, "a workflow has its active version"
        _arm(connection, replace(in_force, name=saved.name), now=now)
    _record(connection, actor, "workflow.saved", saved, now=now)
    return saved


def _write_version(
    connection: Connection, wanted: WorkflowVersion, text: bytes, *, version: int, created_at: int, now: int
) -> WorkflowVersion:
    connection.execute(
        statements.insert_version(
            workflow_id=wanted.workflow_id,
            version=version,
            name=wanted.name,
            kind=wanted.kind,
            title=wanted.title,
            definition=text.decode(),
            created_at=now,
        )
    )
    return replace(wanted, version=version, created_at=created_at, updated_at=now)


def _activate(connection: Connection, newest: WorkflowVersion, version: int) -> None:
    """Let starts of a locked workflow take this version; the newest is taken together with those that follow it."""
    active = None if version == newest.version else version
    connection.execute(statements.update_workflow(workflow_id=newest.workflow_id, active_version=active))


def _arm(connection: Connection, active: WorkflowVersion, *, now: int) -> None:
    """Arm the triggers of a drawn workflow's active version instead of those of the one before."""
    if active.kind != CODED_KIND:
        version = ArmedVersion(active.workflow_id, active.tenant_id, active.name, active.version, active.definition)
        arm(connection, version, now=now)


def _record(connection: Connection, actor: str | None, action: str, workflow: WorkflowVersion, *, now: int) -> None:
    record_audit_event(
        connection,
        actor,
        action,
        tenant_id=workflow.tenant_id,
        target=workflow.workflow_id,
        details={"name": workflow.name, "version": workflow.version},
        now=now,
    )


def _lock(connection: Connection, tenant_id: str, workflow_id: str, *, against_new_runs: bool) -> WorkflowVersion:
    """The newest version of a live workflow, locked until the transaction ends."""
    lock = statements.lock_workflow(tenant_id=tenant_id, workflow_id=workflow_id, against_new_runs=against_new_runs)
    if connection.execute(lock).one_or_none() is None:
        raise _absent(workflow_id)
    # Read after the lock: a save that we waited for has changed the number.
    newest = _find_live(connection, tenant_id=tenant_id, workflow_id=workflow_id)
    assert newest is not None, "a locked workflow has its newest version"
    return newest


def _find_live(
    connection: Connection,
    *,
    tenant_id: str,
    workflow_id: str | None = None,
    name: str | None = None,
    version: int | None = None,
) -> WorkflowVersion | None:
    query = statements.live_version(tenant_id=tenant_id, workflow_id=workflow_id, name=name, version=version)
    values = connection.execute(query).one_or_none()
    return None if values is None else _version(values)


def _find_visible(
    connection: Connection, asked: Mapping[str, Any], *, by_id: bool, active: bool
) -> WorkflowVersion | None:
    query = statements.visible_version(by_id=by_id, numbered="version" in asked, active=active)
    values = connection.execute(query, asked).one_or_none()
    return None if values is None else _version(values)


def _refuse_name_of_code(connection: Connection, wanted: WorkflowVersion) -> None:
    """Refuse the name of a coded workflow, whichever worker runs it."""
    if _find_live(connection, tenant_id=CODED_TENANT_ID, name=wanted.name) is not None:
        raise NameTaken(f"{wanted.name} is the name of a coded workflow, which every tenant sees")


def _register(connection: Connection, name: str, version: int, text: str, *, now: int) -> None:
    newest = _find_live(connection, tenant_id=CODED_TENANT_ID, name=name)
    workflow_id = str(uuid.uuid4()) if newest is None else newest.workflow_id
    known = None
    if newest is None:
        connection.execute(
            statements.insert_workflow(
                workflow_id=workflow_id, tenant_id=CODED_TENANT_ID, name=name, newest_version=version, created_at=now
            )
        )
    else:
        newest = _lock(connection, CODED_TENANT_ID, workflow_id, against_new_runs=False)
        known = _find_live(connection, tenant_id=CODED_TENANT_ID, workflow_id=workflow_id, version=version)
    if known is None:
        connection.execute(
            statements.insert_version(
                workflow_id=workflow_id,
                version=version,
                name=name,
                kind=CODED_KIND,
                title=None,
                definition=text,
                created_at=now,
            )
        )
    elif orjson.dumps(known.definition).decode() != text:
        connection.execute(statements.update_version(workflow_id=workflow_id, version=version, definition=text))
    if newest is not None and newest.version < version:
        statement = statements.update_workflow(workflow_id=workflow_id, newest_version=version, active_version=None)
        connection.execute(statement)


def _version(values: Sequence[Any]) -> WorkflowVersion:
    workflow_id, tenant_id, name, title, kind, version, definition, created_at, updated_at, active = values
    graph = _definition(kind, definition)
    return WorkflowVersion(workflow_id, tenant_id, name, title, kind, version, graph, created_at, updated_at, active)


def _entry(values: Sequence[Any]) -> WorkflowEntry:
    workflow_id, _, name, title, kind, version, definition, created_at, updated_at, active = values
    graph = None if definition is None else _definition(kind, definition)
    return WorkflowEntry(workflow_id, name, title, kind, version, created_at, updated_at, active, graph)


def _definition(kind: str, text: str | bytes) -> Any:
    """The stored form of a version: the document of a drawn workflow, or the options of a coded one."""
    return orjson.loads(text) if kind == CODED_KIND else parse_document(text)


def _absent(workflow_id: str) -> NotFound:
    return NotFound(f"there is no workflow {workflow_id}")
