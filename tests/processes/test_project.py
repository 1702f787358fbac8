"""`anabranch dev` follows the files of a project: what is saved is in force, and nothing that runs is lost."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch.cli.entry import main
from anabranch.cli.project import Project
from tests.processes.launching import Staying, until


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new project, with a module beside its code."""
    folder = tmp_path_factory.mktemp("projects") / "project"
    with pytest.raises(SystemExit):
        main(["new", str(folder)])
    (folder / "helper.py").write_text("def is_polite(reply):\n    return False\n")
    return folder


@pytest.fixture(scope="module")
def dev(project: Path) -> Iterator[Staying]:
    server = Staying(["dev", "--port", "0"], project, {"PYTHONUNBUFFERED": "1"})
    try:
        yield server.ready()
        assert server.stop() == 0
    finally:
        server.close()


def edit(path: Path, *changes: tuple[str, str]) -> None:
    """Replace texts in a file, all at once."""
    text = path.read_text()
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    new = path.with_suffix(".new")
    new.write_text(text)
    os.replace(new, path)


def loaded(dev: Staying, times: int) -> None:
    """Return once the code was loaded again so often."""
    until(lambda: dev.text.count("the code was reloaded") == times)


def test_a_change_of_code_is_in_force_when_it_is_saved(project: Path, dev: Staying) -> None:
    dev.saw("the workflow hello is ready, in version 1")
    app = project / "app.py"
    parked = dev.start("greet", {"name": "Ada"})
    until(lambda: dev.ask("GET", f"/v1/runs/{parked}").body["status"] == "WAITING")

    # The function waits: it is replayed on the new code, and its step is not executed again.
    edit(
        app,
        ("from typing import Any\n", "from typing import Any\n\nimport helper\n"),
        ('"reply": reply}', '"reply": reply, "polite": helper.is_polite(reply)}'),
        ('return f"Hello, {name}!"', 'return f"Good morning, {name}!"'),
    )
    loaded(dev, 1)
    edit(project / "helper.py", ("return False", 'return "please" in reply'))
    loaded(dev, 2)
    dev.ask("POST", f"/v1/runs/{parked}/signals/reply", "Come in, please")
    assert dev.ended_run(parked)["output"] == {"greeting": "Hello, Ada!", "reply": "Come in, please", "polite": True}

    # What cannot be loaded changes nothing.
    edit(app, ('@node_type("countWords"', '@node_type("countLetters"'), ("@workflow(", "@workflow(wrong=1, "))
    dev.saw("the previous code stays active")
    assert "app.py, line" in dev.text
    assert dev.ended_run(dev.start("hello", {"name": "Ada"}))["output"] == {"message": "Hello, Ada!", "words": 2}

    # A function of another name takes the workflow over, and a node type does something else.
    edit(
        app,
        ('@node_type("countLetters"', '@node_type("countWords"'),
        ("len(config.text.split())", "len(config.text)"),
        ("@workflow(wrong=1, ", "@workflow("),
        ("async def greet(", "async def welcome("),
    )
    loaded(dev, 3)
    assert dev.ended_run(dev.start("hello", {"name": "Ada"}))["output"] == {"message": "Hello, Ada!", "words": 11}

    # A step that executes finishes on the code that it began with.
    gate = project / "gate"
    os.mkfifo(gate)
    edit(app, ('return f"Good morning, {name}!"', f'return open({str(gate)!r}).read() + " from the first code"'))
    loaded(dev, 4)
    busy = dev.start("greet", {"name": "Ada"})
    with gate.open("w") as opened:  # once the step has opened it, too
        edit(app, ("from the first code", "from the second code"))
        loaded(dev, 5)
        opened.write("Hello")
    dev.ask("POST", f"/v1/runs/{busy}/signals/reply", "Come in, please")
    assert dev.ended_run(busy)["output"]["greeting"] == "Hello from the first code"


def test_a_change_of_a_drawn_workflow_is_in_force_when_it_is_saved(project: Path, dev: Staying) -> None:
    hello, other = project / "workflows" / "hello.json", project / "workflows" / "other.json"

    edit(hello, ("Hello, {{", "Bye, {{"))
    dev.saw("the workflow hello is ready, in version 2")
    assert dev.ended_run(dev.start("hello", {"name": "Ada"}))["output"]["message"] == "Bye, Ada!"

    other.write_text('{"name": "other"')
    dev.saw("workflows/other.json is not saved")
    dev.saw("error BAD_JSON")
    other.write_text(json.dumps({**json.loads(hello.read_text()), "name": "other"}))
    dev.saw("the workflow other is ready, in version 1")


def test_an_app_py_is_loaded_in_a_project_and_left_alone_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("app.py").touch()
    assert Project(imports=["other.py"], documents=[]).code() == ["other.py"]
    Path("workflows").mkdir()
    assert Project(imports=["other.py"], documents=[]).code() == ["app.py", "other.py"]
