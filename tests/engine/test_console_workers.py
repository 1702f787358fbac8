"""What a workflow function repeats once its run has come to another worker, and back."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from anabranch.engine.console.console import Console
from anabranch.engine.console.console_rows import LEVELS, StoredSize
from anabranch.engine.console.lines import present
from tests.engine.conftest import Process
from tests.engine.consoles import RUN, Rows, console_of, origin_of


def _call(console: Console, lines: int, *, is_first: bool = False) -> None:
    """A call of the function, which says the lines of earlier calls again."""
    function = origin_of(console, node_id="")
    function.is_first_call = is_first
    for number in range(1, lines + 1):
        function.log.info("%d", number)


async def test_lines_are_stored_and_printed_once_though_the_run_changes_workers_and_comes_back() -> None:
    rows, stream = Rows(), io.StringIO()
    one, other = console_of(rows, stream=stream), console_of(rows, stream=stream)
    await one.start()
    await other.start()
    _call(one, 2, is_first=True)
    await one._write_all()
    for console, lines in ((other, 4), (one, 6), (other, 8)):
        console.take_adoption(RUN)
        _call(console, lines)
        await console._write_all()
    await one.stop()
    await other.stop()

    assert rows.texts == [str(number) for number in range(1, 9)]
    assert len(stream.getvalue().splitlines()) == 8


async def test_lines_that_are_dropped_for_want_of_room_have_numbers_too(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = Rows()
    console = console_of(rows)
    await console.start()
    function = origin_of(console, node_id="")
    for text, room in (("1", 20), ("2", 0), ("3", 20)):
        monkeypatch.setattr("anabranch.engine.console.console.WAITING_MAX", room)
        function.log.info(text)
        await console._write_all()
    _call(console, 4)
    await console.stop()

    assert rows.texts == ["1", "3", "4"]


@pytest.mark.parametrize("forms", [{}, {"extra": {"of": "record"}}])
async def test_workers_with_different_levels_number_the_lines_of_a_function_alike(forms: dict[str, Any]) -> None:
    rows = Rows()
    for level, lines in (("warning", 2), ("debug", 3), ("info", 4)):
        console = console_of(rows, level=LEVELS[level])
        await console.start()
        function = origin_of(console, node_id="")
        token = present.set(function)
        for number in range(1, lines + 1):
            function.log.debug("debug %d", number, **forms)
            function.log.log(LEVELS["debug"], "log %d", number)
            print("print", number)  # noqa: T201
            function.log.warning("warning %d", number, **forms)
        present.reset(token)
        await console.stop()

    third = ["debug 3", "log 3", "print 3", "warning 3"]
    assert rows.texts == ["warning 1", "warning 2", *third, "print 4", "warning 4"]


async def test_a_run_with_unwritten_lines_is_not_forgotten_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anabranch.engine.console.console_writer.RUNS_KNOWN_MAX", 2)
    monkeypatch.setattr("anabranch.engine.console.console_writer.RUNS_AT_ONCE_MAX", 0)
    rows = Rows()
    console = console_of(rows)
    await console.start()
    _call(console, 2)
    others = [f"{number:036}" for number in range(3)]
    for run in others:
        origin_of(console, instance_id=run).log.info("of another")
    await console._write_all()
    console.take_adoption(RUN)
    _call(console, 3)
    for run in others:
        await console.write_run(run)
    await console._write_all()
    assert len(console._runs) == 2, "those whose lines are written are"
    await console.stop()

    assert [line.text for line in rows.lines if line.instance_id == RUN] == ["1", "2", "3"]


async def test_a_run_that_comes_back_while_its_lines_are_read_is_read_again() -> None:
    rows = Rows()
    console, other = console_of(rows), console_of(rows)
    await console.start()
    await other.start()
    read, is_read, goes_on = rows.stored_sizes, asyncio.Event(), asyncio.Event()

    async def stored_sizes(instance_ids: Sequence[str]) -> Mapping[str, StoredSize]:
        found = await read(instance_ids)
        is_read.set()
        await goes_on.wait()
        return found

    _call(console, 1)
    rows.stored_sizes = stored_sizes  # type: ignore[method-assign]
    writing = asyncio.create_task(console._write_all())
    await is_read.wait()
    rows.stored_sizes = read  # type: ignore[method-assign]
    _call(other, 2)
    await other._write_all()
    console.take_adoption(RUN)
    goes_on.set()
    await writing
    _call(console, 3)
    await console.stop()
    await other.stop()

    assert rows.texts == ["1", "2", "3"]


async def test_the_console_hears_of_each_run_that_its_worker_takes_over(process: Process) -> None:
    console, orchestrator = process.engine.console, process.engine.orchestrator
    assert console is not None
    assert orchestrator.adopted == console.take_adoption
    assert orchestrator.runs_with_lines is console.runs
