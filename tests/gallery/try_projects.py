"""Tries projects as their owners would: each is formatted, valid, and passes its own tests, in a process of its own.

`python -m tests.gallery.try_projects FOLDER`: the projects are the folders below. Processes are forked from one that
has imported everything, which makes twenty of them quick.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

import pytest

import anabranch.app
import anabranch.testing
from anabranch.cli.output import document_text
from anabranch.engine.rules.graph.validate import validate
from anabranch.handlers.registry import load_types
from anabranch.json_input import read_json_file, read_workflow_file
from anabranch.service.definitions.document_layout import laid_out
from anabranch.worker import Worker

IMPORTED = (anabranch.app, anabranch.testing, Worker)


def faults_of(project: Path) -> list[str]:
    """What is wrong with a project, in the process that does nothing else."""
    os.chdir(project)
    sys.path.insert(0, str(project))
    importlib.import_module("app")
    faults = []
    for file in sorted(project.glob("workflows/*.json")):
        types = load_types()
        if file.read_text() != document_text(laid_out(read_json_file(file), types)):
            faults.append(f"{file.name} is not formatted")
        report = validate(read_workflow_file(file), types)
        faults += [f"{file.name}: {problem.message}" for problem in (*report.errors, *report.warnings)]
    if (
        pytest.main(["-q", "-p", "no:cacheprovider", "-p", "no:asyncio", "-p", "no:xdist", "-p", "no:schemathesis"])
        != 0
    ):
        faults.append("its tests fail")
    return faults


def try_all(folder: Path) -> int:
    """0 if every project is as it should be; prints what is not."""
    failed = []
    for project in sorted(path for path in folder.iterdir() if path.is_dir()):
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            faults = faults_of(project)
            print(project.name, faults or "is fine", flush=True)
            os._exit(1 if faults else 0)
        _, status = os.waitpid(child, 0)
        if status != 0:
            failed.append(project.name)
    print(f"failed: {failed}" if failed else "all are fine")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(try_all(Path(sys.argv[1])))
