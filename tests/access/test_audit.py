"""The audit trail: every row is in one chain, and a change of any row is detected."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import delete, update

from anabranch.audit.audit_log import AuditLog, TrailVerification
from anabranch.audit.audit_schema import audit_head, audit_log
from anabranch.audit.audit_table import AuditTable
from anabranch.audit.audit_trail import (
    DETAILS_CHARACTERS_MAX,
    AuditEntry,
    AuditHead,
    AuditRow,
    chained,
    escaped,
    hash_of,
)
from anabranch.audit.counted_entries import ROW_PAUSE_S, CountedEntries
from anabranch.engine.store.opening import open_store
from anabranch.engine.store.sql.store import SqlStore
from anabranch.errors import InvalidRequest, StoreUnavailable


def entry(**changes: Any) -> AuditEntry:
    values = {"tenant_id": "acme", "actor": "cli", "action": "key.created", "target": "key_1", "details": {"n": 1}}
    return AuditEntry(**{**values, **changes})


@pytest.fixture
def log(trail: AuditTable) -> AuditLog:
    return AuditLog(trail)


async def test_rows_are_numbered_without_a_gap_and_read_newest_first(trail: AuditTable, log: AuditLog) -> None:
    for number in range(3):
        await trail.append(entry(target=f"key_{number}"))
    assert [(row.position, row.target) for row in await log.list("acme")] == [(3, "key_2"), (2, "key_1"), (1, "key_0")]
    assert [row.position for row in await log.list("acme", limit=1, before=3)] == [2]


async def test_an_empty_trail_is_intact(log: AuditLog) -> None:
    assert await log.verify() == TrailVerification(0, None)


async def test_a_tenant_sees_its_own_rows(trail: AuditTable, log: AuditLog) -> None:
    for tenant in ("acme", "", "other"):
        await trail.append(entry(tenant_id=tenant))
    assert [row.tenant_id for row in await log.list("acme")] == ["acme"]
    assert [row.tenant_id for row in await log.list(None)] == ["other", "", "acme"]


async def test_writers_at_once_in_several_processes_make_one_chain(
    trail: AuditTable, log: AuditLog, database_url: str
) -> None:
    other_store = open_store(database_url)
    await other_store.start()
    other = AuditTable(other_store)
    rows = await asyncio.gather(*((trail, other)[number % 2].append(entry()) for number in range(20)))
    await other_store.stop()
    assert sorted(row.position for row in rows) == list(range(1, 21))
    assert await log.verify() == TrailVerification(20, None)


@pytest.mark.parametrize(
    ("tamper", "broken_at"),
    [
        (lambda: update(audit_log).where(audit_log.c.position == 2).values(actor="somebody else"), 2),
        (lambda: update(audit_log).where(audit_log.c.position == 2).values(at=0), 2),
        (lambda: update(audit_log).where(audit_log.c.position == 3).values(hash="0" * 64), 3),
        (lambda: delete(audit_log).where(audit_log.c.position == 1), 1),
        (lambda: delete(audit_log).where(audit_log.c.position == 2), 2),
        (lambda: delete(audit_log).where(audit_log.c.position == 3), 3),
        (lambda: delete(audit_log), 1),
        (lambda: update(audit_head).values(hash="0" * 64), 3),
    ],
    ids=["actor", "time", "hash", "first removed", "middle removed", "last removed", "all removed", "head"],
)
async def test_whatever_is_changed_afterwards_shows(
    trail: AuditTable, log: AuditLog, store: SqlStore, tamper: Callable[[], Any], broken_at: int
) -> None:
    for _ in range(3):
        await trail.append(entry())
    assert await log.verify() == TrailVerification(3, None)
    await store.write(lambda connection: connection.execute(tamper()))
    assert (await log.verify()).broken_at == broken_at


async def test_a_row_that_was_rewritten_with_its_hash_shows_in_the_next(
    trail: AuditTable, log: AuditLog, store: SqlStore
) -> None:
    first, second, _ = [await trail.append(entry()) for _ in range(3)]
    forged = replace(second, actor="somebody else")
    values = {"actor": forged.actor, "hash": hash_of(forged, first.hash)}
    forge = update(audit_log).where(audit_log.c.position == 2).values(values)
    await store.write(lambda connection: connection.execute(forge))
    assert await log.verify() == TrailVerification(2, broken_at=3)


async def test_a_long_trail_is_checked_page_by_page(
    trail: AuditTable, log: AuditLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anabranch.audit.audit_log._PAGE", 2)
    for _ in range(5):
        await trail.append(entry())
    assert await log.verify() == TrailVerification(5, None)


async def test_texts_from_outside_make_no_lines_of_their_own(trail: AuditTable, log: AuditLog) -> None:
    await trail.append(entry(target="a\nkey.revoked\x00\x1b[2J\u202e\ud800", details={"name": "x\r\n\u2028\x7f"}))
    [row] = await log.list("acme")
    assert row.target == "a\\nkey.revoked\\x00\\x1b[2J\\u202e\\ud800"
    assert row.details.isprintable() and json.loads(row.details) == {"name": "x\r\n\u2028\x7f"}
    assert (await log.verify()).broken_at is None


@pytest.mark.parametrize("limit", [0, -1, 1_001])
async def test_a_page_has_a_limit(log: AuditLog, limit: int) -> None:
    with pytest.raises(InvalidRequest):
        await log.list(None, limit=limit)


@given(st.text(st.characters()), st.integers(1, 300))
def test_every_text_becomes_one_printable_line(text: str, characters_max: int) -> None:
    line = escaped(text, characters_max)
    assert len(line.splitlines()) <= 1 and len(line) <= characters_max
    assert not any(character in line for character in "\x00\n\r\u2028\u202e")
    line.encode()


@pytest.mark.parametrize("code", [*range(0x20), 0x7F])
def test_no_control_character_of_ascii_reaches_a_terminal(code: int) -> None:
    row = chained(
        entry(actor=f"a{chr(code)}b", target=f"a{chr(code)}b", tenant_id=f"a{chr(code)}b", details={"n": chr(code)}),
        head=AuditHead(0, ""),
        at=1,
    )
    for text in (row.tenant_id, row.actor, row.target, row.details):
        assert text.isprintable() and text.isascii()
    assert (row.actor[0], row.actor[-1]) == ("a", "b"), "it is escaped, and nothing beside it is lost"
    assert len(row.actor) > 3


def test_details_beyond_their_limit_are_left_out() -> None:
    row: AuditRow = chained(entry(details={"name": "x" * DETAILS_CHARACTERS_MAX}), head=AuditHead(0, ""), at=1)
    assert row.details == '{"truncated": true}'


class Pause:
    """A second that ends when a test says so."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.over = asyncio.Event()

    async def __call__(self, seconds: float) -> None:
        assert seconds == ROW_PAUSE_S
        self.began.set()
        await self.over.wait()
        self.over.clear()
        self.began.clear()


async def test_failed_logins_are_one_row_a_second_with_their_number(trail: AuditTable, log: AuditLog) -> None:
    pause = Pause()
    failed = CountedEntries(trail, pause=pause)
    failed.count("login.failed")
    await pause.began.wait()
    for _ in range(99):
        failed.count("login.failed")
    assert [row.details for row in await log.list("")] == ['{"count": 1}']
    pause.began.clear()
    pause.over.set()
    await pause.began.wait()
    assert [row.details for row in await log.list("")] == ['{"count": 99}', '{"count": 1}']
    failed.count("login.failed")
    await failed.stop()
    await failed.stop()
    rows = await log.list("")
    assert (rows[0].details, len(rows)) == ('{"count": 1}', 3)
    assert {(row.action, row.actor) for row in rows} == {("login.failed", "")}


async def test_a_database_that_is_away_lets_nobody_in_and_breaks_nothing(
    trail: AuditTable, store: SqlStore, caplog: pytest.LogCaptureFixture
) -> None:
    await store.stop()
    with pytest.raises(StoreUnavailable):
        await trail.append(entry())
    failed = CountedEntries(trail)
    failed.count("login.failed")
    await failed.stop()
    assert "1 times login.failed could not be written" in caplog.text
