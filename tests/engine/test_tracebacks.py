"""What the log keeps of where user code failed: the author's own frames, bounded, without secrets."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from anabranch import HandlerResult, node_type
from anabranch.engine.rules.shared.failures import TRACEBACK_CHARACTERS_MAX
from anabranch.engine.tracebacks import FRAMES_MAX, lines_of_the_author
from anabranch.errors import NodeFailure
from anabranch.handlers.masking import Masker
from tests.engine.conftest import TENANT, Process
from tests.engine.drawing import drawn, node


def _explode(reason: str) -> None:
    raise ValueError(reason)


@node_type("testTracebackAsync")
class FailsDeep:
    """Fails in a function of its own."""

    async def execute(self, config: Any, context: Any, helpers: Any) -> HandlerResult:
        _explode("on the loop")
        return HandlerResult()


@node_type("testTracebackThread")
class FailsInThread:
    """The same in a thread."""

    def execute(self, config: Any, context: Any, helpers: Any) -> HandlerResult:
        _explode("in a thread")
        return HandlerResult()


@pytest.mark.parametrize("kind", ["testTracebackAsync", "testTracebackThread"])
async def test_a_handlers_exception_keeps_its_frames_in_node_and_run(process: Process, kind: str) -> None:
    run_id = await process.run(drawn("fails", node("n", kind, retry={"maxAttempts": 1})))
    run = await process.ended(run_id)
    shown = await process.service.get_run(run_id, tenant_id=TENANT)

    (failed,) = [each for each in shown["nodes"] if each["nodeID"] == "n"]
    for error in (run["error"], failed["error"]):
        assert error["type"] == "ValueError"
        lines = error["traceback"].splitlines()
        assert __file__ in lines[0] and lines[0].endswith("in execute")
        assert "raise ValueError(reason)" in error["traceback"]
        assert "anabranch/engine" not in error["traceback"]


def _raised(function: Callable[[], object]) -> BaseException:
    try:
        function()
    except BaseException as failure:  # noqa: BLE001
        return failure
    raise AssertionError("it raised nothing")


def _recurse(depth: int) -> None:
    if depth:
        _recurse(depth - 1)
    else:
        json.loads("{")


def test_the_first_frame_is_the_authors_and_libraries_follow() -> None:
    text = lines_of_the_author(_raised(lambda: _recurse(0)))
    assert text.splitlines()[0].startswith(f'  File "{__file__}"')
    assert "json/decoder.py" in text.rpartition("File")[2]


def test_of_a_deep_recursion_the_authors_innermost_frames_stay() -> None:
    text = lines_of_the_author(_raised(lambda: _recurse(200)))
    assert text.startswith("  [")
    assert "json.loads" in text
    assert len(text) < TRACEBACK_CHARACTERS_MAX
    assert text.count("File") <= FRAMES_MAX


def test_causes_are_told_and_secrets_are_masked_before_anything_is_cut() -> None:
    secret = "hunter2-" * 100

    def fails() -> None:
        try:
            _explode(f"password {secret}")
        except ValueError as cause:
            raise RuntimeError("no luck") from cause

    text = lines_of_the_author(_raised(fails), mask=Masker([secret]).text)
    assert "caused by ValueError: password ***" in text
    assert "hunter2" not in text


def test_a_failure_with_secrets_keeps_its_frames() -> None:
    masker = Masker(["hunter2"])

    def masked() -> None:
        try:
            _explode("password hunter2")
        except ValueError as failure:
            masker.reraise(failure)

    failure = _raised(masked)
    assert isinstance(failure, NodeFailure) and str(failure) == "password ***"
    assert "in _explode" in lines_of_the_author(failure, mask=masker.text)


def test_what_the_engine_refuses_has_no_traceback() -> None:
    def refuse() -> None:
        raise NodeFailure("HTTP_STATUS", "503")

    failure = _raised(refuse)
    failure.__traceback__ = None
    assert not lines_of_the_author(failure)


def test_what_a_group_holds_is_told_with_its_frames() -> None:
    def fails() -> None:
        raise BaseExceptionGroup("two", [_raised(lambda: _explode("one")), ExceptionGroup("in", [KeyError("hunter2")])])

    text = lines_of_the_author(_raised(fails), mask=Masker(["hunter2"]).text)
    assert "1 of 2 in the group, ValueError: one\n  File" in text and "in _explode" in text
    assert "2 of 2 in the group, KeyError: '***'\n" in text


def test_a_group_keeps_its_frames_though_secrets_were_masked() -> None:
    masker = Masker(["hunter2"])

    def masked() -> None:
        try:
            raise BaseExceptionGroup("two", [_raised(lambda: _explode("password hunter2"))])
        except ExceptionGroup as failure:
            masker.reraise(failure)

    failure = _raised(masked)
    assert isinstance(failure, NodeFailure)
    text = lines_of_the_author(failure, mask=masker.text)
    assert "in the group, ValueError: password ***" in text and "hunter2" not in text


def test_what_was_being_handled_and_notes_are_told() -> None:
    def fails() -> None:
        try:
            _explode("first")
        except ValueError:
            second = RuntimeError("second")
            second.add_note("of order 7")
            raise second  # noqa: B904 -- as authors write it

    text = lines_of_the_author(_raised(fails))
    assert "note: of order 7\nraised while handling ValueError: first\n  File" in text


def test_an_exception_with_broken_attributes_has_no_traceback_and_fails_nothing() -> None:
    class Broken(Exception):
        @property
        def __traceback__(self) -> Any:  # type: ignore[override]
            raise RuntimeError("not even this")

    assert not lines_of_the_author(Broken())
