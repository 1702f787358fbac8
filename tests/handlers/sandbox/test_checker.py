"""The question at save, whether code compiles: what is answered where there can be no answer, and what is kept."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch.handlers.sandbox import checker as checking
from anabranch.handlers.sandbox import sealed_process as process
from anabranch.handlers.sandbox.checker import Checker
from anabranch.handlers.sandbox.code_jobs import CodeProblem
from tests.handlers.sandbox.running import LANGUAGES, children_of

START = Path(process.__file__).parent / "inside" / "start_sealed.py"
NO_SECCOMP = "import_module('anabranch.handlers.sandbox.inside.hardening').seal = (\n"
NO_SECCOMP += "            lambda report, **limits: report.update(seccomp='no (Invalid argument)'))\n        "


@pytest.fixture
def checker() -> Iterator[Checker]:
    made = Checker(requires_seccomp=True)
    yield made
    made.stop()


@pytest.fixture
def kernel_without_seccomp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Children whose last wall cannot be built: the program of the fork server, but for that."""
    program = START.read_text().replace("_SANDBOX = ", f"__file__ = {str(START)!r}\n_SANDBOX = ", 1)
    changed = tmp_path / "start.py"
    changed.write_text(program.replace("fork_server.serve(", f"{NO_SECCOMP}fork_server.serve(", 1))
    monkeypatch.setattr(process, "_START", changed)


def server_of(checker: Checker) -> int:
    """The process id of the fork server that it starts for python."""
    before = set(children_of(os.getpid()))
    assert checker.check("python", "return 1") == []
    (server,) = set(children_of(os.getpid())) - before
    return server


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.usefixtures("kernel_without_seccomp")
def test_where_nothing_can_be_sealed_no_code_is_blamed(checker: Checker, language: str):
    assert checker.check(language, "return (") == []


def test_a_machine_that_stands_still_is_not_held_against_the_code_for_long(
    checker: Checker, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(checking, "_SECONDS_MAX", 1)
    server = server_of(checker)
    os.kill(server, signal.SIGSTOP)
    try:
        (problem,) = checker.check("python", "return 2")
    finally:
        os.kill(server, signal.SIGCONT)
    assert "within the limits" in problem.message
    monkeypatch.setattr(checking, "_SECONDS_MAX", 10)
    assert checker.check("python", "return 2") == [], "the answer was not kept"


@pytest.fixture
def compiling(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set once a child was asked, which may take a minute from now on."""
    asked = threading.Event()
    ask = checking._compile

    def told(connection: socket.socket, code: str) -> list[CodeProblem]:
        asked.set()
        return ask(connection, code)

    monkeypatch.setattr(checking, "_SECONDS_MAX", 60)
    monkeypatch.setattr(checking, "_compile", told)
    return asked


def test_code_that_takes_long_holds_up_no_other_code(checker: Checker, compiling: threading.Event):
    server = server_of(checker)
    os.kill(server, signal.SIGSTOP)
    compiling.clear()
    waiting = threading.Thread(target=checker.check, args=("python", "return 2"))
    waiting.start()
    try:
        assert compiling.wait(10)
        assert checker.check("javascript", "return 1") == []
        assert waiting.is_alive()
    finally:
        os.kill(server, signal.SIGCONT)
        waiting.join()


def test_a_question_that_is_open_when_it_stops_starts_no_process(checker: Checker, compiling: threading.Event):
    before = set(children_of(os.getpid()))
    os.kill(server_of(checker), signal.SIGSTOP)
    compiling.clear()
    answers: list[object] = []
    waiting = threading.Thread(target=lambda: answers.append(checker.check("python", "return (")))
    waiting.start()
    assert compiling.wait(10)
    checker.stop()
    waiting.join()
    assert set(children_of(os.getpid())) == before
    assert answers == [[]]
