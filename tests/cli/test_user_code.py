"""`--import`: how the code of users is found, and what is said when it breaks."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch.durable.definition import DECLARED
from tests.cli.conftest import Command
from tests.hardening.command_line import EXECUTABLE

NAMES = ("greets", "neighbour", "broken")

GREETS = """\
from anabranch import workflow
{at_import}

@workflow(name="greets")
async def greets(ctx, input):
    {at_call}
    return neighbour.GREETING
"""


@pytest.fixture(autouse=True)
def _as_a_new_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def forget() -> None:
        DECLARED.clear()
        for name in NAMES:
            sys.modules.pop(name, None)

    monkeypatch.setattr(sys, "path", [*sys.path])
    forget()
    yield
    forget()


@pytest.mark.parametrize("when", ["at_import", "at_call"])
def test_a_file_finds_its_neighbours(anabranch: Command, folder: Path, when: str) -> None:
    lines = {"at_import": "", "at_call": "pass", when: "import neighbour"}
    (folder / "sub").mkdir()
    (folder / "sub" / "greets.py").write_text(GREETS.format(**lines))
    (folder / "sub" / "neighbour.py").write_text("GREETING = 'hello'")

    printed = anabranch("run", "greets", "--import", "sub/greets.py", "--json")

    assert (printed.code, printed.document["output"]) == (0, "hello")


def test_a_file_that_a_neighbour_has_imported_is_not_run_again(anabranch: Command, folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "greets.py").write_text(GREETS.format(at_import="import neighbour", at_call="pass"))
    (folder / "sub" / "neighbour.py").write_text("open('times', 'a').write('x')\nGREETING = 'hello'")

    printed = anabranch("run", "greets", "--import", "sub/greets.py", "--import", "sub/neighbour.py")

    assert (printed.code, Path("times").read_text()) == (0, "x")


DECLARES = "from anabranch import workflow\n@workflow(name='greets')\nasync def {0}(ctx, input): pass\n"
BREAKS = {
    "raises": ("\n\nraise ValueError('no')", "broken.py, line 3: ValueError: no", "Correct the code"),
    "raises in a library": ("import json\njson.loads('{')", "broken.py, line 2: JSONDecodeError", "Correct the code"),
    "raises in a neighbour": ("import neighbour", "neighbour.py, line 1: ZeroDivisionError", "Correct the code"),
    "imports what is absent": ("import no_such", "broken.py, line 1: ModuleNotFoundError: No module", "Correct the"),
    "is no Python": ("\ndef f(:", "broken.py, line 2: SyntaxError", "Correct the code"),
    "leaves": ("import sys\nsys.exit(4)", "broken.py, line 2: SystemExit: 4", "Correct the code"),
    "declares twice": (
        DECLARES.format("a") + DECLARES.format("b"), "broken.py, line 5: InvalidDefinition", "the next version"
    ),
}  # fmt: skip


@pytest.mark.parametrize("imported", ["broken.py", "broken"])
@pytest.mark.parametrize(("code", "place", "hint"), BREAKS.values(), ids=BREAKS)
def test_what_breaks_in_a_file_is_told_with_its_place(
    anabranch: Command, imported: str, code: str, place: str, hint: str
) -> None:
    Path("broken.py").write_text(code)
    Path("neighbour.py").write_text("1 / 0")

    Path("flow.json").write_text("{}")
    printed = anabranch("workflows", "import", "flow.json", "--import", imported)

    first, *further = printed.err.splitlines()
    assert (printed.code, printed.out) == (2, "")
    assert first.startswith(f"error INVALID_REQUEST: --import {imported}: ")
    assert place in first
    assert hint in further[-1]
    assert "Traceback" not in printed.err


@pytest.mark.parametrize(
    ("imported", "message"),
    [("absent.py", "no such file"), ("absent", "no module named 'absent'"), ("absent.x", "no module named 'absent'")],
)
def test_what_is_not_there_is_said_to_be_absent(anabranch: Command, imported: str, message: str) -> None:
    Path("flow.json").write_text("{}")
    printed = anabranch("workflows", "import", "flow.json", "--import", imported)

    assert (printed.code, message in printed.err, ".py file" in printed.err) == (2, True, True)


@pytest.mark.parametrize("command", ["run", "worker", "serve", "dev"])
def test_the_help_says_what_is_imported(anabranch: Command, command: str) -> None:
    assert "@workflow" in anabranch(command, "--help").out


@pytest.mark.parametrize("name", ["types", "queue", "calendar"])
def test_a_file_with_the_name_of_a_module_of_python_is_in_nobody_s_way(folder: Path, name: str) -> None:
    (folder / "code").mkdir()
    (folder / "code" / f"{name}.py").write_text(GREETS.format(at_import="", at_call="import neighbour"))
    (folder / "code" / "neighbour.py").write_text("GREETING = 'named'")
    (folder / "code" / "second.py").write_text(f"import {name}\nassert {str(folder)!r} not in {name}.__file__\n")
    imports = ("--import", f"code/{name}.py", "--import", "code/second.py")

    # A process of its own: nothing is imported yet that the command needs.
    done = subprocess.run(
        [EXECUTABLE, "run", "greets", *imports, "--json"], cwd=folder, capture_output=True, text=True, check=False
    )

    assert (done.returncode, json.loads(done.stdout)["output"]) == (0, "named"), done.stdout + done.stderr
