"""Sources and queries as people keep them: per tenant, by name, checked when they are saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from anabranch.errors import DataSourceInUse, InvalidRequest, NameTaken, NodeFailure, NotFound
from tests.handlers.queries.conftest import TENANT, Bench, make_shop_file

QUERY = {"name": "by-id", "dataSourceID": "shop", "sql": "SELECT * FROM orders WHERE id = :id", "params": {"id": "int"}}


@pytest.fixture
async def shop(bench: Bench, shop_file: Path) -> Bench:
    await bench.source(f"sqlite:///{shop_file}")
    return bench


async def test_a_query_is_found_by_id_and_by_name(shop: Bench) -> None:
    query = await shop.data.create_query(QUERY, tenant_id=TENANT)
    for key in (query.data_query_id, "by-id"):
        answer = await shop.data.run_query(key, {"id": 2}, tenant_id=TENANT)
        assert answer == {"rows": [{"id": 2, "customer": "Grace", "cents": 900}], "rowCount": 1}
    assert [each.name for each in await shop.data.list_queries(tenant_id=TENANT)] == ["by-id"]
    assert query.params == {"id": {"type": "int"}}


async def test_names_are_taken_once_per_tenant(shop: Bench, shop_file: Path) -> None:
    await shop.data.create_query(QUERY, tenant_id=TENANT)
    with pytest.raises(NameTaken):
        await shop.data.create_query(QUERY, tenant_id=TENANT)
    with pytest.raises(NameTaken):
        await shop.source(f"sqlite:///{shop_file}")
    await shop.source(f"sqlite:///{shop_file}", tenant="globex")


async def test_another_tenants_things_are_absent(shop: Bench) -> None:
    query = await shop.data.create_query(QUERY, tenant_id=TENANT)
    source = await shop.data.get_source("shop", tenant_id=TENANT)
    data = shop.data
    for key in (query.data_query_id, "by-id"):
        with pytest.raises(NotFound):
            await data.get_query(key, tenant_id="globex")
        with pytest.raises(NotFound):
            await data.delete_query(key, tenant_id="globex")
        with pytest.raises(NodeFailure) as caught:
            await data.queries.run_query(tenant_id="globex", data_query_id=key, args={"id": 1})
        assert caught.value.code == "QUERY_NOT_FOUND"
    with pytest.raises(NotFound):
        await data.get_source(source.data_source_id, tenant_id="globex")
    with pytest.raises(InvalidRequest, match="no data source"):
        await data.create_query({**QUERY, "dataSourceID": source.data_source_id}, tenant_id="globex")
    assert await data.list_sources(tenant_id="globex") == []


async def test_an_update_replaces_the_whole(shop: Bench, tmp_path: Path) -> None:
    first = await shop.data.create_query(QUERY, tenant_id=TENANT)
    changed = {"name": "all", "dataSourceID": "shop", "sql": "SELECT count(*) AS n FROM orders"}
    second = await shop.data.update_query("by-id", changed, tenant_id=TENANT)
    assert (second.data_query_id, second.name, dict(second.params)) == (first.data_query_id, "all", {})
    assert second.created_at == first.created_at
    make_shop_file(tmp_path / "other.db")
    await shop.data.update_source("shop", {"name": "shop", "url": f"sqlite:///{tmp_path}/other.db"}, tenant_id=TENANT)
    assert (await shop.data.run_query("all", {}, tenant_id=TENANT))["rows"] == [{"n": 3}]


async def test_a_source_is_not_deleted_under_its_queries(shop: Bench) -> None:
    await shop.data.create_query(QUERY, tenant_id=TENANT)
    with pytest.raises(DataSourceInUse, match="by-id"):
        await shop.data.delete_source("shop", tenant_id=TENANT)
    await shop.data.delete_query("by-id", tenant_id=TENANT)
    await shop.data.delete_source("shop", tenant_id=TENANT)
    with pytest.raises(NotFound):
        await shop.data.get_source("shop", tenant_id=TENANT)


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"name": ""}, "/name"),
        ({"name": 3}, "/name"),
        ({"name": "x" * 65}, "/name"),
        ({"name": "a\nb"}, "/name"),
        ({"name": "00000000-0000-7000-8000-000000000000"}, "/name"),
        ({"name": "\ud800"}, "/name"),
        ({"sql": None}, "/sql"),
        ({"sql": "DROP TABLE orders"}, "/sql"),
        ({"sql": "SELECT '{{ctx.x}}'"}, "/sql"),
        ({"params": {"id": "integer"}}, "/params/id"),
        ({"params": {}}, "/params"),
        ({"dataSourceID": "nowhere"}, "/dataSourceID"),
        ({"writes": "yes"}, "/writes"),
        ({"timeout": "1h"}, "/timeout"),
        ({"timeout": "soon"}, "/timeout"),
        ({"timeout": 0}, "/timeout"),
        ({"colour": "red"}, "/colour"),
    ],
)
async def test_what_is_wrong_is_said_with_its_place(shop: Bench, change: dict[str, Any], pointer: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        await shop.data.create_query({**QUERY, **change}, tenant_id=TENANT)
    assert pointer in {problem["pointer"] for problem in caught.value.details}
    assert await shop.data.list_queries(tenant_id=TENANT) == []


@pytest.mark.parametrize("document", [None, [], "x", {}, {"name": "a"}])
async def test_a_document_is_an_object_with_its_fields(shop: Bench, document: Any) -> None:
    for save in (shop.data.create_query, shop.data.create_source):
        with pytest.raises(InvalidRequest):
            await save(document, tenant_id=TENANT)
