"""`anabranch keys` and `anabranch audit`: what a person needs before there is a server."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import GREETING, Command


def test_a_key_is_made_listed_and_revoked(anabranch: Command) -> None:
    created = anabranch("keys", "create", "--tenant", "acme", "--role", "operator", "--json")
    assert list(created.document) == ["key", "keyID", "tenant", "role"]
    assert (created.document["tenant"], created.document["role"]) == ("acme", "operator")
    assert created.document["key"].startswith("ab_")

    listed = anabranch("keys", "list", "--json")
    [item] = listed.document["items"]
    assert (item["keyID"], item["tenant"], item["role"]) == (created.document["keyID"], "acme", "operator")
    assert item["lastUsedAt"] is None and item["revokedAt"] is None and item["createdBy"] == "cli"
    assert created.document["key"] not in listed.out + anabranch("keys", "list").out

    assert anabranch("keys", "revoke", item["keyID"], "--json").document["revokedAt"] is not None
    assert anabranch("keys", "revoke", item["keyID"]).out == f"key {item['keyID']} of tenant acme is revoked\n"


def test_a_key_that_says_nothing_else_is_an_editor_of_the_default_tenant(anabranch: Command) -> None:
    created = anabranch("keys", "create", "--json").document
    assert (created["tenant"], created["role"]) == ("default", "editor")


def test_the_key_alone_is_on_standard_output(anabranch: Command) -> None:
    created = anabranch("keys", "create")
    assert created.out.startswith("ab_") and created.out.count("\n") == 1
    assert "editor of tenant default" in created.err


def test_a_key_of_an_executor_is_for_its_pools_and_may_be_for_all_tenants(anabranch: Command) -> None:
    made = anabranch("keys", "create", "--role", "executor", "--pools", "gpu, fast", "--all-tenants", "--json")
    assert (made.document["tenant"], made.document["role"]) == ("*", "executor")
    [listed] = anabranch("keys", "list", "--json").document["items"]
    assert (listed["tenant"], listed["pools"]) == ("*", ["gpu", "fast"])


def test_keys_are_listed_by_tenant(anabranch: Command) -> None:
    for tenant in ("a", "b"):
        anabranch("keys", "create", "--tenant", tenant)
    assert len(anabranch("keys", "list", "--json").document["items"]) == 2
    assert [item["tenant"] for item in anabranch("keys", "list", "--tenant", "b", "--json").document["items"]] == ["b"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("create", "--role", "superuser"), "INVALID_REQUEST"),
        (("create", "--tenant", ""), "INVALID_REQUEST"),
        (("create", "--role", "executor"), "INVALID_REQUEST"),
        (("create", "--pools", "gpu"), "INVALID_REQUEST"),
        (("create", "--all-tenants"), "INVALID_REQUEST"),
        (("create", "--tenant", "x" * 65), "INVALID_REQUEST"),
        (("revoke",), "INVALID_REQUEST"),
        (("revoke", "key_0"), "NOT_FOUND"),
        (("revoke", "\udcff"), "NOT_FOUND"),
    ],
)
def test_what_makes_no_sense_is_refused(anabranch: Command, arguments: tuple[str, ...], code: str) -> None:
    anabranch("migrate")
    refused = anabranch("keys", *arguments)
    assert (refused.code, refused.err.split(":")[0]) == (2, f"error {code}")


def test_a_key_of_another_tenant_is_not_there(anabranch: Command) -> None:
    created = anabranch("keys", "create", "--tenant", "a", "--json").document
    assert anabranch("keys", "revoke", created["keyID"], "--tenant", "b").code == 2
    assert anabranch("keys", "list", "--json").document["items"][0]["revokedAt"] is None


def test_who_made_and_revoked_keys_is_on_record(anabranch: Command) -> None:
    created = anabranch("keys", "create", "--tenant", "acme", "--json").document
    anabranch("keys", "revoke", created["keyID"])

    rows = anabranch("audit", "--json").document["items"]
    assert [(row["action"], row["target"], row["tenant"], row["actor"]) for row in rows] == [
        ("key.revoked", created["keyID"], "acme", "cli"),
        ("key.created", created["keyID"], "acme", "cli"),
    ]
    assert rows[1]["details"] == {"role": "editor"}
    assert created["key"] not in anabranch("audit").out
    assert anabranch("audit", "--tenant", "other", "--json").document["items"] == []


def test_the_trail_is_read_page_by_page(anabranch: Command) -> None:
    for _ in range(3):
        anabranch("keys", "create")
    newest = anabranch("audit", "--limit", "2", "--json").document
    assert [row["position"] for row in newest["items"]] == [3, 2]
    oldest = anabranch("audit", "--limit", "2", "--before", newest["nextCursor"], "--json").document
    assert ([row["position"] for row in oldest["items"]], oldest["nextCursor"]) == ([1], None)


def test_a_trail_that_somebody_changed_is_noticed(anabranch: Command) -> None:
    anabranch("keys", "create")
    anabranch("keys", "create", "--role", "admin")
    intact = anabranch("audit", "--verify", "--json")
    assert (intact.code, intact.document) == (0, {"intact": True, "rows": 2, "brokenAt": None, "cut": None})

    with sqlite3.connect(".anabranch/anabranch.db") as connection:
        connection.execute("UPDATE audit_log SET details = replace(details, 'admin', 'viewer')")
    changed = anabranch("audit", "--verify")
    assert (changed.code, changed.out.split(";")[0]) == (1, "row 2 was changed or is missing")


def test_what_commands_change_is_on_record(anabranch: Command, write: Callable[[str, Any], Path]) -> None:
    file = write("greeting.json", GREETING)
    anabranch("workflows", "import", file)
    anabranch("run", file)  # the same version: nothing is saved
    anabranch("secrets", "set", "TOKEN", "--value", "v4lue")
    anabranch("secrets", "delete", "TOKEN")
    rows = anabranch("audit", "--tenant", "default", "--json")
    assert [(row["action"], row["actor"]) for row in rows.document["items"]] == [
        ("secret.deleted", "cli"), ("secret.set", "cli"), ("workflow.saved", "cli")
    ]  # fmt: skip
    assert "v4lue" not in rows.out
