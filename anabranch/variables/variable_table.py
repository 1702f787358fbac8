"""The rows of variables. Shares the threads of the store that it is built on.

What deletes a workflow deletes its variables (`engine.store.sql.definitions`).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, case, delete, func, insert, select, update

from anabranch.audit.audit_recording import record_audit_event
from anabranch.engine.store.sql import statements
from anabranch.engine.store.sql.component import SqlComponent
from anabranch.engine.store.sql.reading.reads import is_uuid
from anabranch.errors import LimitReached, NotFound, ValueTooLarge, VersionMismatch
from anabranch.variables.saved_variables import (
    LISTED_VALUE_BYTES_MAX,
    OF_TENANT,
    OWNER_BYTES_MAX,
    READ_BYTES_MAX,
    REMOVED_MAX,
    VARIABLES_MAX,
    WRITERS_MAX,
    Owner,
    SavedVariable,
    check_name,
    variable_text,
)
from anabranch.variables.variable_schema import variables

_COLUMNS = (variables.c.name, variables.c.value, variables.c.size, variables.c.version, variables.c.updated_at)
_LISTED_VALUE = case((variables.c.size <= LISTED_VALUE_BYTES_MAX, variables.c.value)).label("value")
_SUM = func.coalesce(func.sum(variables.c.size), 0)


class VariableTable:
    """`saved_variables.VariableRows`, and the port of the node types, on a SQL store."""

    def __init__(self, store: SqlComponent) -> None:
        self._store = store

    async def read(
        self, *, tenant_id: str, workflow_id: str | None = OF_TENANT, names: Collection[str] | None = None
    ) -> Mapping[str, Any]:
        """One statement, so all of them as they were at one moment. Raises ValueTooLarge before it reads too much."""
        if workflow_id is None:
            return {}
        which = _kept(Owner(tenant_id, workflow_id))
        if names is not None:
            which = (*which, variables.c.name.in_(sorted(names)))
        size = select(_SUM).where(*which)
        query = select(variables.c.name, variables.c.value).where(*which).order_by(variables.c.name)

        def read(connection: Connection) -> dict[str, Any]:
            bytes_read = connection.execute(size).scalar_one()
            if bytes_read > READ_BYTES_MAX:
                raise ValueTooLarge(
                    f"the variables have {bytes_read} bytes of JSON, the limit of what is read at once is "
                    f"{READ_BYTES_MAX}",
                    hint="Name fewer variables in `names`, and read the others with another node.",
                )
            return {name: json.loads(value) for name, value in connection.execute(query)}

        return await self._store.read(read)

    async def list_variables(self, owner: Owner, *, limit: int, after: str = "") -> Sequence[SavedVariable]:
        """In the order of code points of their names."""
        columns = [_LISTED_VALUE if each is variables.c.value else each for each in _COLUMNS]
        query = select(*columns).where(*_kept(owner), variables.c.name > after).order_by(variables.c.name).limit(limit)
        return await self._store.read(lambda connection: [_variable(row) for row in connection.execute(query)])

    async def get_variable(self, owner: Owner, name: str) -> SavedVariable | None:
        """One, whatever its size."""
        query = select(*_COLUMNS).where(*_kept(owner), variables.c.name == name)

        def get(connection: Connection) -> SavedVariable | None:
            found = connection.execute(query).first()
            return None if found is None else _variable(found)

        return await self._store.read(get)

    async def write(self, *, tenant_id: str, workflow_id: str | None, values: Mapping[str, Any], writer: str) -> None:
        """One transaction; writers of one workflow come one after the other, and the last one wins.

        For a workflow that is deleted, nothing is written. Raises LimitReached, InvalidRequest, ValueTooLarge.
        """
        if workflow_id is None:
            return
        owner = Owner(tenant_id, workflow_id)
        texts = {name: None if value is None else variable_text(value) for name, value in sorted(values.items())}
        for name in texts:
            check_name(name)

        def write(connection: Connection) -> None:
            if not _locks_owner(connection, owner):
                return
            now = self._store.dialect.now(connection)
            for name, text in texts.items():
                _put(connection, owner, name, text, writer=writer, now=now)
            _check_bounds(connection, owner)
            _forget_removed(connection, owner)

        await self._store.transact(write)

    async def set_variable(
        self, owner: Owner, name: str, value: Any, *, actor: str, expected_version: int | None = None
    ) -> SavedVariable:
        """The audit trail has its name and not its value."""
        check_name(name)
        text = variable_text(value)

        def put(connection: Connection) -> SavedVariable:
            """Write the value and its row of the audit trail, if the version is the expected one."""
            if not _locks_owner(connection, owner):
                raise NotFound(f"there is no workflow {owner.workflow_id}")
            if expected_version is not None:
                _check_version(name, _locked_version(connection, owner, name), expected_version)
            now = self._store.dialect.now(connection)
            version = _put(connection, owner, name, text, writer="", now=now)
            _check_bounds(connection, owner)
            _record(connection, owner, name, actor, "variable.set", now)
            return SavedVariable(name, json.loads(text), len(text.encode()), version, now)

        # If somebody wrote the first version since it was looked for, it is there to be locked.
        return await self._store.transact(put, repeat_duplicate=True)

    async def delete_variable(
        self, owner: Owner, name: str, *, actor: str, expected_version: int | None = None
    ) -> bool:
        """One transaction with its row of the audit trail."""

        def remove(connection: Connection) -> bool:
            """Remove the value, and write its row of the audit trail; False if there is none."""
            version = _locked_version(connection, owner, name)
            if version is None:
                return False
            _check_version(name, version, expected_version)
            now = self._store.dialect.now(connection)
            _put(connection, owner, name, None, writer="", now=now)
            _forget_removed(connection, owner)
            _record(connection, owner, name, actor, "variable.deleted", now)
            return True

        return await self._store.transact(remove)


def _of(owner: Owner) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return variables.c.tenant_id == owner.tenant_id, variables.c.workflow_id == owner.workflow_id


def _kept(owner: Owner) -> tuple[ColumnElement[bool], ...]:
    """Without those that are removed."""
    return (*_of(owner), variables.c.value.is_not(None))


def _locks_owner(connection: Connection, owner: Owner) -> bool:
    """Whether the workflow is there; it is not deleted then before the transaction ends."""
    if owner.workflow_id == OF_TENANT:
        return True
    if not is_uuid(owner.workflow_id):
        return False
    lock = statements.lock_workflow(tenant_id=owner.tenant_id, workflow_id=owner.workflow_id, against_new_runs=False)
    return connection.execute(lock).first() is not None


def _locked_version(connection: Connection, owner: Owner, name: str) -> int | None:
    query = select(variables.c.version).where(*_kept(owner), variables.c.name == name).with_for_update()
    return connection.execute(query).scalar()


def _check_version(name: str, version: int | None, expected: int | None) -> None:
    if expected not in (None, version):
        found = "is not there" if version is None else f"has version {version}"
        raise VersionMismatch(
            f"variable {name} {found}, not version {expected}",
            hint="Read the variable again, apply the change to it, and send its version.",
        )


def _put(connection: Connection, owner: Owner, name: str, text: str | None, *, writer: str, now: int) -> int:
    """Write or remove a variable, once for each writer; its version. What is removed leaves its writers, for an
    attempt that is executed again must not bring it back."""
    conditions = (*_of(owner), variables.c.name == name)
    found = connection.execute(
        select(variables.c.version, variables.c.writers).where(*conditions).with_for_update()
    ).first()
    version, writers = (0, []) if found is None else (found.version, json.loads(found.writers))
    if writer and writer in writers:
        return int(version)
    written = {
        "value": text,
        "size": 0 if text is None else len(text.encode()),
        "version": version + 1,
        "writers": json.dumps([*writers, writer][-WRITERS_MAX:] if writer else writers),
        "updated_at": now,
    }
    if found is None:
        key = {"tenant_id": owner.tenant_id, "workflow_id": owner.workflow_id, "name": name}
        connection.execute(insert(variables).values(**key, **written))
    else:
        connection.execute(update(variables).where(*conditions).values(**written))
    return int(version) + 1


def _check_bounds(connection: Connection, owner: Owner) -> None:
    count, size = connection.execute(select(func.count(variables.c.value), _SUM).where(*_of(owner))).one()
    whose = "the tenant" if owner.workflow_id == OF_TENANT else "the workflow"
    if count > VARIABLES_MAX:
        raise LimitReached(f"{whose} has {VARIABLES_MAX} variables, which is the limit")
    if size > OWNER_BYTES_MAX:
        raise LimitReached(
            f"the variables of {whose} would have {size} bytes of JSON together, the limit is {OWNER_BYTES_MAX}",
            hint="Delete some that are no longer needed, or keep large data in a database.",
        )


def _forget_removed(connection: Connection, owner: Owner) -> None:
    removed = (*_of(owner), variables.c.value.is_(None))
    columns = variables.c
    remembered = select(columns.name).where(*removed).order_by(columns.updated_at.desc(), columns.name)
    surplus = connection.execute(remembered.offset(REMOVED_MAX).limit(VARIABLES_MAX)).scalars().all()
    if surplus:
        connection.execute(delete(variables).where(*removed, columns.name.in_(surplus)))


def _record(connection: Connection, owner: Owner, name: str, actor: str, action: str, now: int) -> None:
    details = {} if owner.workflow_id == OF_TENANT else {"workflowID": owner.workflow_id}
    record_audit_event(connection, actor, action, tenant_id=owner.tenant_id, target=name, details=details, now=now)


def _variable(row: Any) -> SavedVariable:
    value = None if row.value is None else json.loads(row.value)
    return SavedVariable(row.name, value, row.size, row.version, row.updated_at)
