"""Do what tutorials and how-to pages say: `python -m tests.reference.how_to_runner FOLDER PAGE…`.

Prints a line of JSON for each page. Called by `test_how_to`. Each page gets a folder of its own, in which its files are
saved and its commands are given in order, each in a process of its own. These are forked from this one, which has
imported everything already: a start of Python would cost more than all that the pages do.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import re
import runpy
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest  # noqa: F401  # a page runs it

import anabranch
from anabranch.cli import entry
from tests.reference.blocks import NOT_RUN, Block, blocks_of
from tests.walkthrough.page import Step, typing_of

# What a page writes for what only a run can tell, and where the run before says it.
_TOLD = {
    "RUN_ID": re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}"),
    "KEY_ID": re.compile(r"key_[0-9a-f]{16}"),
}

# Programs, what runs in the sandbox or in migrations, and what needs an extra.
_NOT_OURS_TO_IMPORT = (
    "anabranch.__main__",
    "anabranch.cli.projects",
    "anabranch.handlers.sandbox.inside",
    "anabranch.migrations",
)

# A command ends with 0 unless the page says so: `$ command # exit code 2`.
_EXIT_CODE = re.compile(r" +# exit code (\d+)$")

_STAY = ("dev", "serve", "worker")

# 180 s: the slowest command takes five, as it waits for a lease, and thirty on a machine that does eight other things.
PATIENCE_S = 180

# All pages together; then a process that stays ends even if this one was killed.
STAYS_AT_MOST_S = 600


@dataclass
class Reader:
    """Somebody who follows one page, in one folder."""

    folder: Path
    told: dict[str, str] = field(default_factory=dict)
    staying: list[int] = field(default_factory=list)
    ended: set[int] = field(default_factory=set)

    def follow(self, page: str) -> None:
        """Raises AssertionError where the page is wrong."""
        try:
            for block in blocks_of(page):
                if NOT_RUN in block.info:
                    continue
                if block.file is not None:
                    self._save(block)
                elif block.language == "console":
                    for step in typing_of(block.text):
                        self._do(step)
        finally:
            for process in set(self.staying) - self.ended:
                os.kill(process, signal.SIGKILL)
                os.waitpid(process, 0)

    def _save(self, block: Block) -> None:
        assert block.file is not None
        path = self.folder / block.file
        path.parent.mkdir(exist_ok=True)
        path.write_text(block.text, encoding="utf-8")

    def _do(self, step: Step) -> None:
        found = _EXIT_CODE.search(step.command)
        expected = int(found[1]) if found else 0
        command = _EXIT_CODE.sub("", step.command)
        for name, value in self.told.items():
            command = command.replace(name, value)
        words = shlex.split(command.removesuffix(" &"))
        if words[0] == "kill":
            self._kill(words)
            return
        if words[0] == "anabranch" and words[1] in _STAY:
            self._leave_running(words[1:])
            return
        code, out, err = self._run(words, command)
        assert code == expected, f"$ {step.command}\nended with {code}:\n{out}{err}"
        _compare(step, out if expected == 0 else out + err)
        for name, pattern in _TOLD.items():
            # The first that an answer names: `runs start` names one, lists begin with the newest.
            if mentioned := pattern.search(out + err):
                self.told[name] = mentioned[0]

    def _run(self, words: Sequence[str], command: str) -> tuple[int, str, str]:
        if "|" in words:
            sender, asked = words[: words.index("|")], words[words.index("|") + 1 :]
            sent = subprocess.run(sender, cwd=self.folder, capture_output=True, check=True).stdout
        else:
            asked, sent = list(words), b""
        if asked[0] == "anabranch":
            return self._forked(lambda: entry.main(asked[1:]), sent)
        if asked[0] == "python":
            return self._forked(lambda: _run_python(self.folder, asked[1:]), sent)
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-c", command], cwd=self.folder, env={**os.environ, "PATH": path}, capture_output=True, text=True
        )
        return done.returncode, done.stdout, done.stderr

    def _forked(self, act: Callable[[], object], sent: bytes) -> tuple[int, str, str]:
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            given.write(sent)
            given.seek(0)
            process = _fork(self.folder, act, given.fileno(), out.fileno(), err.fileno())
            _, status = os.waitpid(process, 0)
            out.seek(0)
            err.seek(0)
            return os.waitstatus_to_exitcode(status), out.read().decode(), err.read().decode()

    def _kill(self, words: Sequence[str]) -> None:
        """`kill %1`, `kill -9 %1`: a process that stays, by when it was started."""
        number = int(words[-1].removeprefix("%")) - 1
        process = self.staying[number]
        os.kill(process, signal.SIGKILL if "-9" in words else signal.SIGTERM)
        _, status = os.waitpid(process, 0)
        self.ended.add(process)
        assert "-9" in words or os.waitstatus_to_exitcode(status) == 0, "an orderly stop ends with 0"

    def _leave_running(self, words: Sequence[str]) -> None:
        """A process that stays; it says in one line that it is ready."""
        ours, theirs = os.pipe()
        with (self.folder / "errors.txt").open("wb") as errors, open(os.devnull, "rb") as nothing:
            browser = ["--no-open"] if words[0] == "dev" else []
            os.environ["ANABRANCH_PORT"] = "0"
            command = [re.sub(r"^\d{4}$", "0", word) for word in words]
            process = _fork(
                self.folder,
                lambda: entry.main([*command, *browser]),
                nothing.fileno(),
                theirs,
                errors.fileno(),
                patience_s=STAYS_AT_MOST_S,
            )
        self.staying.append(process)
        os.close(theirs)
        with os.fdopen(ours) as printed:
            ready = printed.readline()
        assert ready, f"anabranch {shlex.join(words)} ended: {(self.folder / 'errors.txt').read_text()}"


def _fork(folder: Path, act: Callable[[], object], *streams: int, patience_s: int = PATIENCE_S) -> int:
    sys.stdout.flush()
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        signal.alarm(patience_s)
        os.chdir(folder)
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        act()
        code = 0
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _run_python(folder: Path, arguments: Sequence[str]) -> None:
    sys.path.insert(0, str(folder))
    if arguments[0] == "-m":
        sys.argv = list(arguments[1:])
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(str(folder / arguments[0]), run_name="__main__")


def _compare(step: Step, printed: str) -> None:
    """Lines are shown in their order, from the first; a line of `…` alone stands for any number of lines."""
    pattern, any_number = "", False
    for shown in step.shown:
        if shown == "…":
            any_number = True
            continue
        line = ".*".join(re.escape(part) for part in shown.split("…"))
        pattern += ("(?:.*\n)*?" if any_number else "") + f"{line} *\n"
        any_number = False
    if step.shown:
        assert re.match(pattern, printed), f"$ {step.command}\nprinted\n{printed}"


def _import_everything() -> None:
    for module in pkgutil.walk_packages(anabranch.__path__, "anabranch."):
        if not module.name.startswith(_NOT_OURS_TO_IMPORT):
            importlib.import_module(module.name)
    for name in entry.application.commands:
        _ = entry.application.commands[name]
    gc.freeze()  # the processes that are forked share all of this


def main(root: Path, pages: Sequence[Path]) -> None:
    _import_everything()
    # A new database each would be half of the work.
    template = root / "template"
    template.mkdir()
    Reader(template).follow("```console\n$ anabranch migrate\n```\n")
    for page in pages:
        folder = root / page.stem
        shutil.copytree(template, folder)
        began = time.monotonic()
        try:
            Reader(folder).follow(page.read_text(encoding="utf-8"))
            wrong = None
        except AssertionError as failure:
            wrong = str(failure)
        shutil.rmtree(folder, ignore_errors=True)
        print(
            json.dumps({"page": page.stem, "wrong": wrong, "seconds": round(time.monotonic() - began, 2)}), flush=True
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(page) for page in sys.argv[2:]])
