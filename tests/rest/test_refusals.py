"""Parameters and headers that make no sense: told apart, and told where."""

from __future__ import annotations

import pytest

from tests.rest.conftest import Served
from tests.rest.drawing import echo


@pytest.fixture
def database_url(sqlite_url: str) -> str:
    """One kind is enough: nothing of this depends on the database."""
    return sqlite_url


@pytest.mark.parametrize("cursor", ["x", "%", "a" * 600, "d29ya2Zsb3dz", "cnVucx8xHzI"])
async def test_a_cursor_that_is_none_of_ours_is_refused(served: Served, cursor: str):
    refused = await served.ask("GET", "/v1/workflows", params={"cursor": cursor})
    assert (refused.status, refused.code) == (422, "INVALID_REQUEST")
    assert refused.json["error"]["details"][0]["pointer"] == "/cursor"


@pytest.mark.parametrize("limit", ["0", "101", "-1", "x", "1.5", ""])
async def test_a_limit_out_of_bounds_is_refused(served: Served, limit: str):
    for path in ("/v1/workflows", "/v1/runs", "/v1/secrets"):
        refused = await served.ask("GET", path, params={"limit": limit})
        assert (refused.status, refused.json["error"]["details"][0]["pointer"]) == (422, "/limit")


async def test_an_unknown_parameter_is_named(served: Served):
    refused = await served.ask("GET", "/v1/runs?stauts=FAILED")
    assert refused.status == 422
    assert refused.json["error"]["details"][0]["pointer"] == "/stauts"


@pytest.mark.parametrize(
    ("if_match", "status"),
    [
        ('"1"', 200),
        ("1", 200),
        ("*", 200),
        ('"2"', 412),
        ('"none of ours"', 412),
        ('"1", "2"', 412),
        ('W/"1"', 200),
        ("", 412),
    ],
)
async def test_if_match_saves_only_over_what_was_read(served: Served, if_match: str, status: int):
    await served.save(echo("triage"))
    answered = await served.ask(
        "PUT", "/v1/workflows/triage", json=echo("triage", title="Changed"), headers={"If-Match": if_match}
    )
    assert answered.status == status, answered.text
    assert (await served.ask("GET", "/v1/workflows/triage")).json["version"] == (2 if status == 200 else 1)


@pytest.mark.parametrize(
    "header", ["Bearer", "Bearer ", "Basic YTpi", "Bearer ab_x", "Bearer " + "a" * 5000, "bearer \u00e9", "ab_x"]
)
async def test_a_garbled_key_is_nobody(served: Served, header: str):
    answered = await served.ask("GET", "/v1/runs", role=None, headers={"Authorization": header})
    assert answered.status == 401
