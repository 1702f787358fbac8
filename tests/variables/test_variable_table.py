"""Variables of tenants and workflows, on both databases: written once a writer, bounded, gone with their workflow."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest
from sqlalchemy import func, select

from anabranch.engine.ports import NewVersion
from anabranch.engine.store.sql.store import SqlStore
from anabranch.errors import (
    InvalidRequest,
    LimitReached,
    NotFound,
    ValueNotStorable,
    ValueTooLarge,
    VersionMismatch,
    WorkflowIsCoded,
)
from anabranch.variables import variable_table
from anabranch.variables.saved_variables import LISTED_VALUE_BYTES_MAX, VALUE_BYTES_MAX, Owner, owner_of_workflow
from anabranch.variables.variable_schema import variables as variables_in_store
from anabranch.variables.variable_table import VariableTable

TENANT = "a"
OF_TENANT = Owner(TENANT)


@pytest.fixture
def variables(store: SqlStore) -> VariableTable:
    return VariableTable(store)


@pytest.fixture
async def workflow(store: SqlStore) -> str:
    saved = await store.save_workflow(
        NewVersion(name="keeper", definition={"nodes": [], "edges": []}), tenant_id=TENANT
    )
    return saved.workflow_id


async def test_what_people_set_is_read_by_name_and_listed(variables: VariableTable) -> None:
    await variables.set_variable(OF_TENANT, "REGION", "EU", actor="key")
    again = await variables.set_variable(OF_TENANT, "REGION", {"name": "ü"}, actor="key")
    await variables.set_variable(OF_TENANT, "LIMIT", 5, actor="key")
    assert again.version == 2
    assert await variables.read(tenant_id=TENANT, names=["REGION", "ABSENT"]) == {"REGION": {"name": "ü"}}
    assert await variables.read(tenant_id=TENANT) == {"LIMIT": 5, "REGION": {"name": "ü"}}
    assert [each.name for each in await variables.list_variables(OF_TENANT, limit=10)] == ["LIMIT", "REGION"]
    assert await variables.read(tenant_id="b") == {}
    assert await variables.delete_variable(OF_TENANT, "LIMIT", actor="key")
    assert not await variables.delete_variable(OF_TENANT, "LIMIT", actor="key")


async def test_an_attempt_that_is_executed_again_does_not_take_back_what_another_run_wrote(
    variables: VariableTable, workflow: str
) -> None:
    async def write(value: int, writer: str) -> None:
        await variables.write(tenant_id=TENANT, workflow_id=workflow, values={"last": value}, writer=writer)

    await write(1, "first")
    await write(2, "second")
    await write(1, "first")
    assert await variables.read(tenant_id=TENANT, workflow_id=workflow) == {"last": 2}
    assert await variables.read(tenant_id=TENANT) == {}


async def test_what_was_removed_stays_removed_when_an_attempt_is_executed_again(
    variables: VariableTable, workflow: str
) -> None:
    async def write(value: int | None, writer: str) -> None:
        await variables.write(tenant_id=TENANT, workflow_id=workflow, values={"last": value}, writer=writer)

    async def kept() -> Mapping[str, object]:
        return await variables.read(tenant_id=TENANT, workflow_id=workflow)

    owner = Owner(TENANT, workflow)
    await write(None, "early")
    await write(1, "first")
    await write(None, "early")
    assert await kept() == {"last": 1}
    await write(None, "second")
    await write(1, "first")
    assert await kept() == {}
    assert (await variables.list_variables(owner, limit=10), await variables.get_variable(owner, "last")) == ([], None)
    await write(3, "third")
    await write(None, "second")
    assert await kept() == {"last": 3}
    assert await variables.delete_variable(owner, "last", actor="key")
    assert not await variables.delete_variable(owner, "last", actor="key")
    await write(3, "third")
    assert await kept() == {}
    assert (await variables.set_variable(owner, "last", 6, actor="key")).version == 6


async def test_removed_variables_are_remembered_in_a_bounded_number_and_count_for_no_limit(
    variables: VariableTable, store: SqlStore, workflow: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(variable_table, "REMOVED_MAX", 2)
    monkeypatch.setattr(variable_table, "VARIABLES_MAX", 1)
    for name in ("a", "b", "c", "d"):
        for number, value in enumerate((1, None)):
            values = {name: value}
            await variables.write(tenant_id=TENANT, workflow_id=workflow, values=values, writer=f"{name}{number}")
    count = select(func.count()).select_from(variables_in_store)
    assert await store.read(lambda connection: connection.execute(count).scalar_one()) == 2


async def test_null_removes_and_all_are_written_or_none(variables: VariableTable, workflow: str) -> None:
    await variables.write(tenant_id=TENANT, workflow_id=workflow, values={"a": 1, "b": 2}, writer="1")
    await variables.write(tenant_id=TENANT, workflow_id=workflow, values={"a": None, "absent": None}, writer="2")
    with pytest.raises(InvalidRequest, match="not a valid name"):
        await variables.write(tenant_id=TENANT, workflow_id=workflow, values={"b": 3, "1/x": 1}, writer="3")
    assert await variables.read(tenant_id=TENANT, workflow_id=workflow) == {"b": 2}


async def test_of_a_test_run_or_a_deleted_workflow_nothing_is_kept(
    variables: VariableTable, store: SqlStore, workflow: str
) -> None:
    await variables.write(tenant_id=TENANT, workflow_id=None, values={"a": 1}, writer="1")
    await variables.write(tenant_id=TENANT, workflow_id=workflow, values={"a": 1}, writer="2")
    assert await variables.read(tenant_id=TENANT, workflow_id=None) == {}
    await store.delete_workflow(tenant_id=TENANT, workflow_id=workflow)
    assert await variables.read(tenant_id=TENANT, workflow_id=workflow) == {}
    await variables.write(tenant_id=TENANT, workflow_id=workflow, values={"a": 1}, writer="3")
    assert await variables.read(tenant_id=TENANT, workflow_id=workflow) == {}
    with pytest.raises(NotFound):
        await variables.set_variable(Owner(TENANT, workflow), "a", 1, actor="key")


async def test_another_tenant_writes_no_variable_of_a_workflow(variables: VariableTable, workflow: str) -> None:
    await variables.write(tenant_id="b", workflow_id=workflow, values={"a": 1}, writer="1")
    assert await variables.read(tenant_id="b", workflow_id=workflow) == {}
    assert await variables.read(tenant_id=TENANT, workflow_id=workflow) == {}


async def test_values_and_their_number_are_bounded(
    variables: VariableTable, workflow: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(variable_table, "VARIABLES_MAX", 2)
    with pytest.raises(ValueTooLarge):
        await variables.set_variable(OF_TENANT, "big", "x" * VALUE_BYTES_MAX, actor="key")
    with pytest.raises(ValueNotStorable):
        await variables.set_variable(OF_TENANT, "nul", "\x00", actor="key")
    with pytest.raises(LimitReached, match="the workflow has 2 variables"):
        await variables.write(tenant_id=TENANT, workflow_id=workflow, values={"a": 1, "b": 2, "c": 3}, writer="1")
    assert await variables.read(tenant_id=TENANT, workflow_id=workflow) == {}
    for name in ("a", "b", "b"):
        await variables.set_variable(OF_TENANT, name, 1, actor="key")
    with pytest.raises(LimitReached, match="the tenant has 2 variables"):
        await variables.set_variable(OF_TENANT, "c", 1, actor="key")


async def test_a_list_has_pages_in_the_order_of_code_points_and_large_values_by_their_size(
    variables: VariableTable,
) -> None:
    for name, value in (("b", 1), ("B", "x" * LISTED_VALUE_BYTES_MAX), ("a", 2), ("_", 3)):
        await variables.set_variable(OF_TENANT, name, value, actor="key")
    first = await variables.list_variables(OF_TENANT, limit=2)
    rest = await variables.list_variables(OF_TENANT, limit=2, after=first[-1].name)
    assert [(each.name, each.value, each.size) for each in (*first, *rest)] == [
        ("B", None, LISTED_VALUE_BYTES_MAX + 2), ("_", 3, 1), ("a", 2, 1), ("b", 1, 1)]  # fmt: skip
    one = await variables.get_variable(OF_TENANT, "B")
    assert one is not None and one.value == "x" * LISTED_VALUE_BYTES_MAX
    assert await variables.get_variable(OF_TENANT, "absent") is None


async def test_what_is_kept_and_what_is_read_at_once_is_bounded(
    variables: VariableTable, workflow: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(variable_table, "OWNER_BYTES_MAX", 30)
    monkeypatch.setattr(variable_table, "READ_BYTES_MAX", 20)
    for owner in (OF_TENANT, Owner(TENANT, workflow)):
        for name in ("a", "b"):
            await variables.set_variable(owner, name, "12345678901", actor="key")  # 13 bytes of JSON
        with pytest.raises(LimitReached, match="would have 39 bytes of JSON together, the limit is 30"):
            await variables.set_variable(owner, "c", "12345678901", actor="key")
        await variables.set_variable(owner, "c", "ü", actor="key")
    with pytest.raises(LimitReached, match="the variables of the workflow would have 44 bytes"):
        await variables.write(tenant_id=TENANT, workflow_id=workflow, values={"c": "1234567890123456"}, writer="1")
    assert await variables.read(tenant_id=TENANT, names=["a", "c"]) == {"a": "12345678901", "c": "ü"}
    for names in (None, ["a", "b"]):
        with pytest.raises(ValueTooLarge, match="the limit of what is read at once is 20"):
            await variables.read(tenant_id=TENANT, names=names)


async def test_who_expects_another_version_changes_nothing(variables: VariableTable) -> None:
    with pytest.raises(VersionMismatch, match="REGION is not there, not version 1"):
        await variables.set_variable(OF_TENANT, "REGION", "EU", actor="key", expected_version=1)
    await variables.set_variable(OF_TENANT, "REGION", "EU", actor="key")
    await variables.set_variable(OF_TENANT, "REGION", "US", actor="key", expected_version=1)
    with pytest.raises(VersionMismatch, match="REGION has version 2, not version 1"):
        await variables.set_variable(OF_TENANT, "REGION", "ASIA", actor="key", expected_version=1)
    with pytest.raises(VersionMismatch):
        await variables.delete_variable(OF_TENANT, "REGION", actor="key", expected_version=1)
    assert await variables.read(tenant_id=TENANT) == {"REGION": "US"}
    assert await variables.delete_variable(OF_TENANT, "REGION", actor="key", expected_version=2)


async def test_a_coded_workflow_has_no_variables(store: SqlStore) -> None:
    coded = await store.register_code(name="variables of code", version=1, definition={})
    with pytest.raises(WorkflowIsCoded, match="keeps no variables"):
        owner_of_workflow(coded)


async def test_two_who_set_a_new_variable_at_once_write_two_versions(variables: VariableTable) -> None:
    both = [variables.set_variable(OF_TENANT, "NEW", value, actor="key") for value in (1, 2)]
    assert sorted(each.version for each in await asyncio.gather(*both)) == [1, 2]
