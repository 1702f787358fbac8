"""When lines are written: those of a run wait for one another, and not for long; standard error and watchers do not
wait with them."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Sequence
from typing import Any

import pytest

from anabranch.engine.console.console import Console
from anabranch.engine.console.console_rows import LinesWanted, ProgressReport, StoredLines
from anabranch.engine.console.console_writer import FULL, REFUSED_MAX, RUNS_AT_ONCE_MAX
from anabranch.engine.console.lines import report_progress
from anabranch.errors import DatabaseUnreachable
from tests.engine.conftest import TENANT, Process
from tests.engine.consoles import OTHER, RUN, Rows, Watcher, console_of, origin_of
from tests.engine.drawing import drawn, node

CROWD = [RUN, OTHER, *(f"00000000-0000-7000-8000-{number:012}" for number in range(3, RUNS_AT_ONCE_MAX + 2))]
"""One more run than may be written every time."""


def _say(console: Console, text: str, instance_ids: list[str]) -> None:
    for instance_id in instance_ids:
        origin_of(console, instance_id=instance_id).log.info(text)


async def _started(rows: Rows, **options: Any) -> Console:
    console = console_of(rows, **options)
    await console.start()
    return console


async def test_lines_of_few_runs_are_written_every_time() -> None:
    rows = Rows()
    console = await _started(rows)
    for text in ("first", "second"):
        _say(console, text, CROWD[:-1])
        await console._write_all()

    assert len(rows.rows) == 2 * len(CROWD[:-1])
    await console.stop()


async def test_while_many_runs_speak_the_lines_of_a_run_share_a_row() -> None:
    rows, stream = Rows(), io.StringIO()
    console = await _started(rows, stream=stream)
    for text in ("first", "second"):
        _say(console, text, CROWD)
        await console._write_all()

    assert rows.rows == []
    assert len(stream.getvalue().splitlines()) == 2 * len(CROWD), "standard error does not wait for the rows"
    await console.stop()
    assert len(rows.rows) == len(CROWD)
    assert {tuple(line.text for line in row.decoded()) for row in rows.rows} == {("first", "second")}


@pytest.mark.parametrize("why", ["ended", "watched"])
async def test_lines_of_a_run_that_has_ended_or_is_watched_anywhere_do_not_wait(why: str) -> None:
    rows = Rows()
    console = await _started(rows)
    console.connect(
        owns=lambda instance_id: not (why == "ended" and instance_id == RUN),
        is_watched=lambda instance_id: why == "watched" and instance_id == RUN,
    )
    _say(console, "line", CROWD)
    await console._write_all()

    assert [row.instance_id for row in rows.rows] == [RUN]
    await console.stop()


async def test_lines_wait_for_five_seconds_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, now = Rows(), [1_000.0]
    monkeypatch.setattr("anabranch.engine.console.console_writer.time.monotonic", lambda: now[0])
    console = await _started(rows)
    _say(console, "line", CROWD[:-1])
    console._collect()
    now[0] += 2.5
    _say(console, "line", CROWD)
    await console._write_all()
    assert rows.rows == []
    now[0] += 2.5
    await console._write_all()

    assert {row.instance_id for row in rows.rows} == set(CROWD[:-1])
    await console.stop()


async def test_many_bytes_do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anabranch.engine.console.console_writer.HURRY_BYTES", 100_000)
    rows = Rows()
    console = await _started(rows)
    _say(console, "x" * 1_000, CROWD)
    await console._write_all()

    assert len(rows.rows) == len(CROWD)
    await console.stop()


async def test_who_reads_a_run_finds_all_that_it_has_said() -> None:
    rows = Rows()
    console = await _started(rows)
    _say(console, "first", CROWD)
    await console._write_all()
    _say(console, "second", CROWD)
    await console.write_run(RUN)

    assert (rows.texts, [row.instance_id for row in rows.rows]) == (["first", "second"], [RUN])
    await console.write_run(RUN)
    assert len(rows.writes) == 1, "there is nothing more"
    await console.stop()


async def test_standard_error_gets_lines_while_the_database_is_away() -> None:
    rows, stream = Rows(), io.StringIO()
    console = await _started(rows, stream=stream)
    rows.is_away = True
    for text in ("first", "second"):
        origin_of(console).log.info(text)
        with pytest.raises(DatabaseUnreachable):
            await console._write_all()
    assert [json.loads(line)["text"] for line in stream.getvalue().splitlines()] == ["first", "second"]
    rows.is_away = False
    await console.stop()

    assert rows.texts == ["first", "second"]
    assert len(stream.getvalue().splitlines()) == 2


async def test_lines_that_find_no_room_while_the_database_is_away_are_dropped_and_counted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("anabranch.engine.console.console.UNWRITTEN_BYTES_MAX", 1_000)
    rows = Rows()
    console = await _started(rows)
    rows.is_away = True
    for _ in range(2):
        _say(console, "x" * 100, CROWD[:10])
        with pytest.raises(DatabaseUnreachable):
            await console._write_all()
    rows.is_away = False
    with caplog.at_level(logging.WARNING, logger="anabranch.console"):
        await console.stop()
        await console.start()
        _say(console, "there is room again", [RUN])
        await console.stop()

    assert rows.texts == ["x" * 100] * 10 + ["there is room again"]
    assert [record.getMessage() for record in caplog.records if "dropped" in record.getMessage()] == [
        "10 lines were dropped: they came faster than they could be written"
    ]


async def test_who_begins_to_watch_is_told_the_lines_that_wait_and_then_the_later_ones() -> None:
    rows, watcher = Rows(), Watcher()
    console = await _started(rows)
    console.add(watcher)
    _say(console, "waits", CROWD)
    await console._write_all()
    _say(console, "not collected", CROWD)
    console.follow(RUN)
    console.follow(RUN)
    console.announce_now()
    _say(console, "later", CROWD)
    console.announce_now()
    console.unfollow(RUN)
    _say(console, "still watched", [RUN])
    console.unfollow(RUN)
    console.announce_now()
    _say(console, "watched no more", [RUN])
    await console.stop()

    assert watcher.texts == ["waits", "not collected", "later"]
    of_run = [line.text for line in rows.lines if line.instance_id == RUN]
    assert of_run == ["waits", "not collected", "later", "still watched", "watched no more"]


async def test_a_step_does_not_overtake_the_function_whose_line_is_not_decided_yet() -> None:
    rows = Rows()
    console = await _started(rows)
    step, function = origin_of(console, node_id="step"), origin_of(console, node_id="")
    step.log.info("before")
    function.log.info("of the function")
    step.log.info("after")
    await console.stop()

    assert rows.texts == ["before", "of the function", "after"]
    for row in rows.rows:
        assert row.number == max(line.number for line in row.decoded())


async def test_a_watcher_is_told_once_what_a_function_repeats_or_says_anew() -> None:
    rows = Rows()
    for said, is_first_call in ((["a", "b"], True), (["a", "b", "c"], False)):  # each in a process of its own
        console, watcher = await _started(rows), Watcher()
        console.add(watcher)
        console.follow(RUN)
        function = origin_of(console, node_id="")
        function.is_first_call = is_first_call
        for text in said:
            function.log.info(text)
        console.announce_now()
        assert watcher.texts == (["a", "b"] if is_first_call else []), "it may be a repetition"
        origin_of(console, node_id="step").log.info("of a step")
        console.announce_now()
        assert watcher.texts == (["a", "b", "of a step"] if is_first_call else ["of a step"])
        await console._write_all()
        console.announce_now()
        await console.stop()
        assert watcher.texts == (["a", "b", "of a step"] if is_first_call else ["of a step", "c"])

    assert rows.texts == ["a", "b", "of a step", "c", "of a step"]
    assert [line.number for line in rows.lines] == sorted(line.number for line in rows.lines)


async def test_the_lines_of_another_process_count_towards_the_limit_of_a_run() -> None:
    rows = Rows()
    for text in ("a", "b"):
        console = await _started(rows, run_bytes_max=8_000)
        for _ in range(30):
            origin_of(console).log.info(text * 100)
        await console.stop()

    assert rows.texts[-1] == FULL and rows.texts.count(FULL) == 1
    assert rows.texts.count("a" * 100) == 30 and 0 < rows.texts.count("b" * 100) < 30
    assert sum(row.size for row in rows.rows) <= 8_200


async def test_lines_of_a_function_are_stored_once_the_database_is_back() -> None:
    rows = Rows()
    console = await _started(rows)
    read, away = rows.stored_sizes, [True]

    async def stored_sizes(instance_ids: Any) -> Any:
        if away[0]:
            raise DatabaseUnreachable("away")
        return await read(instance_ids)

    rows.stored_sizes = stored_sizes  # type: ignore[method-assign]
    function = origin_of(console, node_id="")
    function.log.info("first")
    with pytest.raises(DatabaseUnreachable):
        await console._write_all()
    function.log.info("second")
    away[0] = False
    await console.stop()

    assert rows.texts == ["first", "second"]


async def test_a_reader_that_does_not_wait_any_more_costs_nobody_lines_or_progress() -> None:
    rows = Rows()
    console = await _started(rows)
    write, begun = rows.write, asyncio.Event()

    async def slow(*_: Any) -> None:
        begun.set()
        await asyncio.Event().wait()

    rows.write = slow  # type: ignore[method-assign]
    _say(console, "line", [RUN, OTHER])
    for run in (RUN, OTHER):
        report_progress(origin_of(console, instance_id=run), 1, 2, "half")
    reader = asyncio.create_task(console.write_run(RUN))
    await begun.wait()
    reader.cancel()
    await asyncio.gather(reader, return_exceptions=True)
    rows.write = write  # type: ignore[method-assign]
    await console.stop()

    assert rows.texts == ["line", "line"]
    assert [report.instance_id for report in rows.reports] == [RUN, OTHER]


async def test_a_defect_of_the_storage_costs_the_lines_that_met_it_and_no_others() -> None:
    rows = Rows()
    console = await _started(rows)
    read = rows.stored_sizes

    async def defective(instance_ids: Any) -> Any:
        raise RuntimeError("a defect")

    rows.stored_sizes = defective  # type: ignore[method-assign]
    origin_of(console, node_id="").log.info("of a function")
    origin_of(console, instance_id=OTHER).log.info("of a node")
    with pytest.raises(RuntimeError, match="a defect"):
        await console._write_all()
    rows.stored_sizes = read  # type: ignore[method-assign]
    origin_of(console, node_id="").log.info("later")
    await console.stop()

    assert sorted(rows.texts) == ["later", "of a node"]


@pytest.mark.parametrize("refused", [1, 2, 30])
async def test_rows_that_the_storage_refuses_cost_no_others(refused: int, caplog: pytest.LogCaptureFixture) -> None:
    rows = Rows()
    console = await _started(rows)
    write, bad = rows.write, {*CROWD[20 : 20 + refused]}

    async def choosy(given: Sequence[StoredLines], reports: Sequence[ProgressReport]) -> None:
        if bad & {row.instance_id for row in given} or any(report.instance_id in bad for report in reports):
            raise ValueError("refused")
        await write(given, reports)

    rows.write = choosy  # type: ignore[method-assign]
    _say(console, "line", CROWD[:60])
    for run in CROWD[:60]:
        report_progress(origin_of(console, instance_id=run), 1, 2, "half")
    if refused > REFUSED_MAX:
        with pytest.raises(ValueError, match="refused"):
            await console._write_all()
        assert not console._is_behind(), "it is not tried for ever"
    else:
        await console._write_all()
        good = set(CROWD[:60]) - bad
        assert len(rows.rows) == len(rows.reports) == len(good)
        assert {row.instance_id for row in rows.rows} == {report.instance_id for report in rows.reports} == good
        assert all(any(run in record.getMessage() for record in caplog.records) for run in bad)
    await console.stop()


async def test_a_tenant_without_room_by_an_old_count_is_counted_again_first(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = Rows()
    _say(console := await _started(rows, tenant_bytes_max=1_000), "x" * 800, [RUN])
    await console._write_all()
    rows.rows.clear()  # another process has removed them
    monkeypatch.setattr("anabranch.engine.console.console_writer.SIZES_EVERY_S", 0.0)
    _say(console, "y" * 800, [RUN])
    _say(console, "z" * 800, [OTHER])
    await console.stop()

    assert rows.texts == ["y" * 800], "and what then finds no room is dropped"


async def test_following_over_rest_asks_for_hints_only_meanwhile(process: Process) -> None:
    run_id = await process.run(drawn("followed", node("n")))
    hints = process.engine.hints
    pages = process.service.follow_console(run_id, LinesWanted(), tenant_id=TENANT, is_over=lambda: False)
    await anext(pages)
    during = hints.is_watched(run_id)
    await pages.aclose()  # type: ignore[attr-defined]

    assert (during, hints.is_watched(run_id)) == (True, False)
