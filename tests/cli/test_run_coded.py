"""`anabranch run` with coded workflows: the code comes with `--import`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch.durable.definition import DECLARED
from tests.cli.conftest import Command

CODE = """\
from anabranch import workflow

@workflow(name="shout", version={})
async def shout(ctx, input):
    return input["text"].upper()
"""


def forget() -> None:
    """Each command stands for a process of its own: it knows what it imports."""
    DECLARED.clear()
    for name in ("app", "older"):
        sys.modules.pop(name, None)


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", [*sys.path])
    forget()
    yield
    forget()


def test_the_code_that_is_imported_is_run(anabranch: Command) -> None:
    Path("app.py").write_text(CODE.format(1))

    printed = anabranch("run", "shout", "--import", "app.py", "--input", '{"text": "hey"}', "--json")

    assert (printed.code, printed.document["output"]) == (0, "HEY")


@pytest.mark.parametrize("imports", [[], ["--import", "older.py"]], ids=["none", "another version"])
def test_without_the_code_of_the_version_nothing_is_started(anabranch: Command, imports: list[str]) -> None:
    Path("app.py").write_text(CODE.format(2))
    Path("older.py").write_text(CODE.format(1))
    anabranch("run", "shout", "--import", "app.py", "--input", '{"text": "hey"}')
    forget()

    printed = anabranch("run", "shout", *imports)

    assert printed.code == 2
    assert printed.err.startswith("error UNKNOWN_WORKFLOW: shout in version 2 ")
    assert "--import FILE" in printed.err
    assert len(anabranch("runs", "list", "--json").document["items"]) == 1


def test_without_the_code_nothing_is_resumed(anabranch: Command) -> None:
    Path("app.py").write_text(CODE.format(1))
    anabranch("run", "shout", "--import", "app.py", "--input", '{"text": "hey"}')
    forget()
    run_id = anabranch("runs", "start", "shout", "--input", '{"text": "ho"}', "--json").document["instanceID"]

    without = anabranch("run", "--resume", run_id)
    with_code = anabranch("run", "--resume", run_id, "--import", "app.py", "--json")

    assert (without.code, "UNKNOWN_WORKFLOW" in without.err) == (2, True)
    assert (with_code.code, with_code.document["output"]) == (0, "HO")


DECIDES = """\
from anabranch import workflow

@workflow(name="decides")
async def decides(ctx, input):
    return await ctx.step.wait_for_any("decision", {"approve": None, "reject": None}, timeout="1s")
"""


def test_a_wait_for_several_signals_is_told_with_the_command_for_each(anabranch: Command) -> None:
    Path("app.py").write_text(DECIDES)

    printed = anabranch("run", "decides", "--import", "app.py", "--watch")

    assert printed.code == 0
    told = printed.out + printed.err
    run_id = told.partition("runs signal ")[2].split()[0]
    for event in ("approve", "reject"):
        line = f"decision waits for several signals; to send {event}: "
        assert told.count(line) == 1, told
        assert f"runs signal {run_id} {event}" in told
