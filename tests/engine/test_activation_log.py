"""`helpers.log` is a `logging.Logger` in all that its users can see, whoever listens beside the console."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from anabranch.engine.console.lines import LineOrigin
from anabranch.engine.handler_contract import Helpers
from anabranch.handlers.masking import Masker


class Lines:
    """A console that keeps levels and texts."""

    level = logging.INFO

    def __init__(self) -> None:
        self.taken: list[tuple[int, str]] = []

    def take_line(self, origin: LineOrigin, level: int, text: str) -> None:
        assert (origin.node_id, origin.attempt) == ("n", 1)
        self.taken.append((level, text))


@pytest.fixture
def lines() -> Lines:
    return Lines()


@pytest.fixture
def log(lines: Lines) -> logging.Logger:
    console: Any = lines
    helpers = Helpers(
        instance_id="i",
        tenant_id="t",
        node_id="n",
        workflow_id=None,
        scope="",
        attempt=1,
        context={},
        now_ms=0,
        console=console,
    )
    helpers.mask = Masker(["hunter2"]).text
    return helpers.log


@pytest.fixture
def all_levels_disabled() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


class Kept(logging.Handler):
    """Keeps records."""

    def __init__(self, level: int = logging.NOTSET) -> None:
        super().__init__(level)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


class Odd:
    """Cannot be made text."""

    def __str__(self) -> str:
        raise RuntimeError("odd")

    __repr__ = object.__repr__


def test_every_level_is_taken_from_the_one_of_the_console_on(log: logging.Logger, lines: Lines) -> None:
    log.debug("no")
    log.info("%s and %d", "a", 1)
    log.warning("100 %")
    log.error({"a": 1})
    log.critical("%(name)s", {"name": "b"})
    log.log(25, "%s", ())
    log.log(5, "no")
    logging.LoggerAdapter(log, {}).info("adapted")

    assert lines.taken == [
        (20, "a and 1"),
        (30, "100 %"),
        (40, "{'a': 1}"),
        (50, "b"),
        (25, "()"),
        (20, "adapted"),
    ]


def test_lines_that_do_not_fit_their_arguments_raise_nothing(log: logging.Logger, lines: Lines) -> None:
    log.info("%d", "x")
    log.info("%s %s", 1)
    log.info("%s", Odd())

    assert [text for _, text in lines.taken[:2]] == ["'%d' with ('x',)", "'%s %s' with (1,)"]
    assert lines.taken[2][1].startswith("'%s' with (<")


def test_its_level_can_be_set(log: logging.Logger, lines: Lines) -> None:
    log.setLevel(logging.ERROR)
    log.warning("no")
    log.error("yes")
    assert (log.isEnabledFor(logging.WARNING), log.isEnabledFor(logging.ERROR)) == (False, True)
    log.setLevel(logging.NOTSET)  # then its parent's holds
    log.info("no")
    log.warning("again")

    assert [text for _, text in lines.taken] == ["yes", "again"]


def test_it_says_nothing_when_it_or_all_logging_is_disabled(log: logging.Logger, lines: Lines) -> None:
    log.disabled = True
    log.error("no")
    log.log(logging.ERROR, "no")
    assert lines.taken == []


@pytest.mark.usefixtures("all_levels_disabled")
def test_logging_disable_holds_for_it(log: logging.Logger, lines: Lines) -> None:
    log.error("no")
    log.log(logging.ERROR, "no")
    assert lines.taken == []


def test_its_own_handlers_get_records_without_secrets(log: logging.Logger, lines: Lines) -> None:
    every, loud = Kept(), Kept(logging.ERROR)
    log.addHandler(every)
    log.addHandler(loud)
    log.info("password %s", "hunter2", extra={"order": 7})
    log.error("loud")
    log.removeHandler(every)
    log.removeHandler(loud)
    log.info("later")

    assert [record.getMessage() for record in every.records] == ["password ***", "loud"]
    assert [record.getMessage() for record in loud.records] == ["loud"]
    told: Any = every.records[0]
    assert (told.order, told.instance_id, told.node_id) == (7, "i", "n")
    assert [text for _, text in lines.taken] == ["password ***", "loud", "later"]


def test_its_filters_decide_what_is_kept(log: logging.Logger, lines: Lines) -> None:
    def rewrite(record: logging.LogRecord) -> bool:
        record.msg = record.getMessage().upper()
        return "DROP" not in record.msg

    log.addFilter(rewrite)
    log.info("drop this")
    log.warning("keep %s", "this")
    log.removeFilter(rewrite)
    log.info("plain")

    assert [text for _, text in lines.taken] == ["KEEP THIS", "plain"]


def test_what_it_says_is_passed_on_to_the_logging_of_the_program(
    log: logging.Logger, lines: Lines, caplog: pytest.LogCaptureFixture
) -> None:
    log.info("nobody listens")
    with caplog.at_level(logging.INFO, logger="anabranch.handlers"):
        log.info("one")
        log.log(logging.INFO, "two")
        log.info("three", stacklevel=2)
        try:
            raise ValueError("hunter2")
        except ValueError:
            log.exception("four")
        log.propagate = False
        log.info("five")

    here = "test_what_it_says_is_passed_on_to_the_logging_of_the_program"
    told = [(record.getMessage().split("\n")[0], record.funcName == here) for record in caplog.records]
    assert told == [("one", True), ("two", True), ("three", False), ("four", True)]
    assert caplog.records[0].name == "anabranch.handlers"
    assert caplog.records[-1].getMessage().endswith("ValueError: ***")
    assert [text.split("\n")[0] for _, text in lines.taken] == ["nobody listens", "one", "two", "three", "four", "five"]
