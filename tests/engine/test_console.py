"""What user code says is kept with its activation, bounded, without secrets, and once however often it is replayed."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import threading
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import text as sql

from anabranch import HandlerResult, node_type
from anabranch.engine.console.console import LINE_CHARACTERS_MAX
from anabranch.engine.console.console_rows import LEVELS, Line, LinesWanted, ProgressReport, StoredLines, StoredSize
from anabranch.engine.console.console_writer import FULL
from anabranch.engine.console.lines import Progress
from anabranch.engine.handler_contract import Helpers
from anabranch.engine.store.opening import open_store
from anabranch.engine.store.sql.console_table import ConsoleTable
from anabranch.errors import DatabaseUnreachable
from anabranch.handlers.masking import Masker
from tests.engine.conftest import TENANT, Process, turns_until
from tests.engine.consoles import OTHER, RUN, Rows, Watcher, console_of, origin_of, store_runs
from tests.engine.drawing import drawn, node

COUNTED = sql("SELECT instance_id, count(*) FROM console_lines GROUP BY instance_id")


async def test_lines_below_the_level_are_not_kept_and_secrets_never_are() -> None:
    rows = Rows()
    console = console_of(rows, level=LEVELS["warning"])
    await console.start()
    origin = origin_of(console)
    origin.mask = Masker(["hunter2"]).text
    origin.log.info("not wanted")
    origin.log.warning("password %s", "hunter2")
    origin.log.warning("%(name)s", {"name": "hunter2"})
    try:
        raise ValueError("hunter2")
    except ValueError:
        origin.log.exception("it broke")
    await console.stop()

    assert rows.texts[:2] == ["password ***", "***"]
    assert rows.texts[2].startswith("it broke\n") and rows.texts[2].endswith("ValueError: ***")
    assert isinstance(origin.log, logging.Logger)


async def test_a_value_that_cannot_be_shown_does_not_fail_who_logs_it() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

        __repr__ = __str__

    rows = Rows()
    console = console_of(rows)
    await console.start()
    log = origin_of(console).log
    log.info("of %s", Mute())
    log.warning(Mute())
    try:
        raise Mute
    except Mute:
        log.exception("it broke")
    await console.stop()

    assert rows.texts[0] == "'of %s' with <tuple that cannot be shown>"
    assert rows.texts[1] == "<Mute that cannot be shown>"
    assert rows.texts[2].endswith("Mute: <Mute that cannot be shown>")


async def test_progress_is_kept_where_nothing_is_said() -> None:
    rows = Rows()
    console = console_of(rows)
    await console.start()
    origin_of(console).progress(1, 2, "half")
    await console.stop()

    assert [report.progress for report in rows.reports] == [Progress(1, 2, "half")]


async def test_a_function_that_says_everything_again_adds_only_what_is_new() -> None:
    rows = Rows()
    for texts in (["a"], ["a", "b"], ["a", "b", "c"]):  # each in a process of its own
        console = console_of(rows)
        await console.start()
        function = origin_of(console, node_id="")
        for text in texts:
            function.log.info(text)
        await console.stop()

    assert rows.texts == ["a", "b", "c"]


async def test_a_run_that_says_too_much_is_told_so_once_and_others_go_on() -> None:
    rows = Rows()
    console = console_of(rows, run_bytes_max=2_000)
    await console.start()
    for _ in range(50):
        origin_of(console).log.info("x" * 100)
    origin_of(console, instance_id=OTHER).log.info("fine")
    await console.stop()

    of_run = [line for line in rows.lines if line.instance_id == RUN]
    assert sum(row.size for row in rows.rows if row.instance_id == RUN) <= 2_500
    assert [line.text for line in of_run].count(FULL) == 1 and of_run[-1].text == FULL
    assert [line.text for line in rows.lines if line.instance_id == OTHER] == ["fine"]


async def test_a_tenant_that_says_too_much_makes_no_more_rows() -> None:
    rows = Rows()
    console = console_of(rows, tenant_bytes_max=1_000)
    await console.start()
    for number in range(20):
        origin_of(console, instance_id=f"run-{number}").log.info("x" * 100)
    await console.stop()

    assert 0 < sum(row.size for row in rows.rows) <= 1_300


async def test_a_tenant_has_room_again_once_another_process_has_removed_its_lines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = Rows()
    console = console_of(rows, tenant_bytes_max=1_000)
    await console.start()
    for number in range(20):
        origin_of(console, instance_id=f"run-{number}").log.info("x" * 100)
    await console._write_all()
    rows.rows.clear()  # another process has removed them

    origin_of(console).log.info("read again once a minute")
    await console._write_all()
    assert rows.texts == []
    monkeypatch.setattr("anabranch.engine.console.console_writer.SIZES_EVERY_S", 0.0)
    origin_of(console).log.info("there is room")
    await console.stop()

    assert rows.texts == ["there is room"]


async def test_limits_count_bytes_and_not_characters() -> None:
    rows = Rows()
    console = console_of(rows, run_bytes_max=4_000)
    await console.start()
    for _ in range(30):
        origin_of(console).log.info("水" * 100)
    await console.stop()

    assert 3_000 < sum(len(row.lines.encode()) for row in rows.rows) <= 4_500
    assert sum(row.size for row in rows.rows) <= sum(len(row.lines.encode()) for row in rows.rows)


async def test_lines_are_cut_made_storable_and_written_to_the_stream_as_json() -> None:
    rows, stream = Rows(), io.StringIO()
    console = console_of(rows, stream=stream)
    await console.start()
    origin_of(console).log.info("é" * 10_000)
    origin_of(console).log.info("nul \x00 and \ud800")
    await console.stop()

    assert len(rows.texts[0]) == LINE_CHARACTERS_MAX
    assert "\x00" not in rows.texts[1]
    told = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [each["text"] for each in told] == rows.texts
    assert (told[0]["level"], told[0]["instanceID"], told[0]["nodeID"]) == ("info", RUN, "n")


async def test_what_a_database_did_not_take_is_written_once_it_is_back() -> None:
    rows = Rows()
    rows.is_away = True
    console = console_of(rows)
    await console.start()
    origin_of(console).log.info("kept")
    origin_of(console).progress(1, 2)
    with pytest.raises(DatabaseUnreachable):
        await console._write_all()
    origin_of(console).log.info("said meanwhile")
    rows.is_away = False
    await console.stop()

    assert rows.texts == ["kept", "said meanwhile"]
    # What was written although the answer was lost has the same rows when it is written again.
    assert rows.writes[0] == rows.writes[1]
    assert [report.progress for report in rows.reports] == [Progress(1, 2, "")]


async def test_a_run_whose_last_lines_were_not_taken_is_told_that_it_is_full_all_the_same() -> None:
    rows = Rows()
    rows.is_away = True
    console = console_of(rows, run_bytes_max=1_000)
    await console.start()
    for _ in range(20):
        origin_of(console).log.info("x" * 100)
    with pytest.raises(DatabaseUnreachable):
        await console._write_all()
    rows.is_away = False
    await console.stop()

    assert rows.writes[0] == rows.writes[1]
    assert rows.texts.count(FULL) == 1 and rows.texts[-1] == FULL and len(rows.texts) > 2


async def test_threads_say_at_once_what_is_kept_in_one_order() -> None:
    rows, stream = Rows(), io.StringIO()
    console = console_of(rows, stream=stream)
    await console.start()

    def talk(thread: int) -> None:
        for number in range(200):
            origin_of(console, node_id=f"n{thread}").log.info("%d", number)

    await asyncio.gather(*(asyncio.to_thread(talk, thread) for thread in range(4)))
    await console.stop()

    numbers = [line.number for line in rows.lines]
    assert numbers == sorted(set(numbers)) and len(numbers) == 800
    for thread in range(4):
        assert [line.text for line in rows.lines if line.node_id == f"n{thread}"] == [str(n) for n in range(200)]
    assert [json.loads(line)["number"] for line in stream.getvalue().splitlines()] == numbers


async def test_who_begins_to_watch_before_a_line_is_written_is_told_it_before_later_ones() -> None:
    console, watcher = console_of(Rows()), Watcher()
    console.add(watcher)
    await console.start()
    origin = origin_of(console)
    origin.log.info("before")
    console.follow(RUN)
    origin.log.info("after")
    console.announce_now()
    assert watcher.texts == ["before", "after"]
    await console.stop()
    assert watcher.texts == ["before", "after"]


async def test_a_line_of_a_thread_that_is_written_before_its_turn_is_told_once() -> None:
    console, watcher = console_of(Rows()), Watcher()
    console.add(watcher)
    console.follow(RUN)
    await console.start()
    await asyncio.to_thread(origin_of(console).log.info, "said beside the loop")
    thread = threading.Thread(target=origin_of(console).log.info, args=("written first",))
    thread.start()
    thread.join()  # the loop has not had its turn
    await console._write_all()
    console.announce_now()
    await console.stop()

    assert watcher.texts == ["said beside the loop", "written first"]


@pytest.mark.parametrize("wrong", [("x",), (-1,), (float("nan"),), (1, True)])
def test_progress_is_a_number_from_zero(wrong: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError, match="a number from 0"):
        Helpers.progress(origin_of(console_of(Rows())), *wrong)


def _line(number: int, text: str = "x", *, run: str = RUN, level: int = 20) -> Line:
    return Line(run, number, "n", "", 1, level, text)


def _row(*lines: Line, position: int = 0) -> StoredLines:
    told = json.dumps([line.as_json() for line in lines])
    return StoredLines(lines[0].instance_id, lines[-1].number, TENANT, position, len(told), told)


async def test_the_table_keeps_lines_once_and_gives_the_oldest_up_first(database_url: str) -> None:
    store = open_store(database_url)
    await store.start()
    await store_runs(store, RUN, OTHER)
    table = ConsoleTable(store)
    lines = [_line(number, f'line {number}: "\\n", {{}}, é') for number in range(1, 6)]
    rows = [_row(*lines[:3], position=3), _row(*lines[3:], position=5), _row(_line(1, run=OTHER))]
    late, early = (ProgressReport(RUN, "n", "", 1, at, Progress(at, None, "")) for at in (7, 3))

    for row in rows[:2]:
        await table.write([row], [late])
    await table.write(rows[1:], [early])
    await table.write(rows[1:], [])

    assert list(await table.read_lines(RUN, LinesWanted(after=1))) == lines[1:]
    assert list(await table.read_lines(RUN, LinesWanted(after=3, limit=1))) == lines[3:4]
    assert list(await table.read_lines(RUN, LinesWanted(level=30))) == []
    assert [line.number for line in await table.read_since({RUN: 4, OTHER: 0}, limit=9)] == [1, 5]
    assert await table.stored_sizes([RUN]) == {RUN: StoredSize(rows[0].size + rows[1].size, 5)}
    assert await table.last_numbers([RUN, OTHER]) == {RUN: 5, OTHER: 1}
    assert await table.read_progress([RUN]) == [late]
    sizes = await table.sizes()
    keep = await table.number_to_keep(tenant_id=TENANT, size=rows[1].size + 1)
    assert (sizes, keep) == ({TENANT: sum(row.size for row in rows)}, 5)
    assert await table.remove(tenant_id=TENANT, before=5, limit=10, spares_open=False) == 2
    assert [line.number for line in await table.read_lines(RUN, LinesWanted())] == [4, 5]
    await store.stop()


async def test_lines_that_are_written_together_share_rows_and_are_read_one_by_one(database_url: str) -> None:
    store = open_store(database_url)
    await store.start()
    await store_runs(store, RUN, OTHER)
    table = ConsoleTable(store)
    console = console_of(table)
    await console.start()
    # 100 of 4 kB do not fit into one row.
    texts = [f"{number:04}" * 1_000 for number in range(1, 101)]
    for number, text in enumerate(texts, 1):
        origin_of(console).log.log(LEVELS["warning" if number % 10 == 0 else "info"], text)
        if number <= 10:
            origin_of(console, instance_id=OTHER).log.info("%d", number)
    await console.stop()

    wanted, read = LinesWanted(limit=30), list[Line]()
    while page := await table.read_lines(RUN, wanted):
        read += page
        wanted = replace(wanted, after=page[-1].number)
    assert [line.text for line in read] == texts
    assert sorted(read) == read
    assert [line.text for line in await table.read_lines(RUN, LinesWanted(level=30))] == texts[9::10]
    assert [line.text for line in await table.read_lines(OTHER, LinesWanted())] == [str(n) for n in range(1, 11)]
    rows = await store.read(lambda connection: connection.execute(COUNTED).all())
    assert {str(run): rows for run, rows in rows} == {RUN: 7, OTHER: 1}
    await store.stop()


async def test_rows_of_older_programs_are_read(database_url: str) -> None:
    store = open_store(database_url)
    await store.start()
    await store_runs(store, RUN, OTHER)
    before = sql(f"""
        INSERT INTO console_lines (instance_id, number, tenant_id, node_id, scope, attempt, level, text, position, size,
            earlier)
        VALUES ('{RUN}', 3, '{TENANT}', 'n', '', 1, 20, 'third', 0, 400, '[[2, "n", "", 1, 20, "second", 0]]'),
            ('{RUN}', 1, '{TENANT}', 'n', '', 1, 20, 'first', 0, 133, NULL)
    """)
    await store.write(lambda connection: connection.execute(before))
    table = ConsoleTable(store)
    await table.write([_row(_line(4, "fourth"))], [])

    assert list(await table.read_lines(RUN, LinesWanted())) == [
        _line(number, text) for number, text in enumerate(("first", "second", "third", "fourth"), 1)
    ]
    await store.stop()


async def test_what_is_said_of_a_run_that_was_deleted_meanwhile_is_not_stored(database_url: str) -> None:
    store = open_store(database_url)
    await store.start()
    await store_runs(store, RUN)
    table = ConsoleTable(store)
    progress = [ProgressReport(run, "n", "", 1, 1, Progress(1, None, "")) for run in (RUN, OTHER)]
    for report in progress:
        await table.write([_row(_line(1)), _row(_line(1, run=OTHER)), _row(_line(2, run=OTHER))], [report])
    await table.write([_row(_line(3, run=OTHER)), _row(_line(2))], [])

    assert await table.last_numbers([RUN, OTHER]) == {RUN: 2}
    assert await table.read_progress([RUN, OTHER]) == progress[:1]
    await store.stop()


@node_type("testTalks")
class Talks:
    """Says something in every way there is."""

    def execute(self, config: Any, context: Any, helpers: Any) -> HandlerResult:
        helpers.log.info("logged by %s", helpers.node_id)
        print("printed", 1)  # noqa: T201
        helpers.progress(2, 4, "half")
        return HandlerResult()


async def test_a_handler_is_heard_and_nothing_of_it_outlives_the_run(process: Process) -> None:
    run_id = await process.run(drawn("talks", node("n", "testTalks")))
    run = await process.ended(run_id)
    await process.engine.console.stop()
    page, more = await process.service.get_console(run_id, LinesWanted(), tenant_id=TENANT)
    shown = await process.service.get_run(run_id, tenant_id=TENANT)

    assert run["status"] == "COMPLETED" and more is None
    assert [(line["nodeID"], line["attempt"], line["text"]) for line in page] == [
        ("n", 1, "logged by n"),
        ("n", 1, "printed 1"),
    ]
    (told,) = [each["progress"] for each in shown["nodes"] if each["nodeID"] == "n"]
    assert (told["done"], told["total"], told["text"]) == (2, 4, "half")
    await process.service.delete_run(run_id, tenant_id=TENANT, actor=None)
    assert await process.engine.console.rows.read_lines(run_id, LinesWanted()) == []
    assert await process.engine.console.rows.read_progress([run_id]) == []


@node_type("testFallsSilent")
class FallsSilent:
    """Tells progress until that has moved its end three times, or hangs."""

    async def execute(self, config: Any, context: Any, helpers: Any) -> HandlerResult:
        if config["tells"]:
            await asyncio.sleep(0)  # an attempt has an end from its first wait on
            for number in range(3):
                ends_at = helpers.limit.when()
                helpers.progress(number, 3)
                await turns_until(lambda ends_at=ends_at: helpers.limit.when() > ends_at)
            return HandlerResult("done")
        await helpers.cancelled.wait()
        return HandlerResult()


@pytest.mark.parametrize(("tells", "silence"), [(True, "1h"), (False, "50ms")])
async def test_progress_is_proof_of_life_for_the_heartbeat_timeout(process: Process, tells: bool, silence: str) -> None:
    fields: dict[str, Any] = {"heartbeatTimeout": silence, "timeout": "2h", "retry": {"maxAttempts": 1}}
    silent = node("n", "testFallsSilent", config={"tells": tells}, **fields)
    run = await process.ended(await process.run(drawn("beats", silent)))

    if tells:
        assert run["status"] == "COMPLETED"
    else:
        assert (run["error"]["code"], run["error"]["type"]) == ("HEARTBEAT_TIMEOUT", "HeartbeatTimeout")
