"""`anabranch new`: a folder with what a project needs. Needs no database and no server.

The files are in `anabranch/cli/projects`: those of every project in `common`, those of a template in a folder with its
name. There `dot-` stands for a leading dot, and `.txt` follows each name, so that no tool takes them for its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from anabranch import cli
from anabranch.cli import own_name
from anabranch.cli.options import AsJson
from anabranch.cli.output import print_answer
from anabranch.errors import InvalidRequest

PROJECTS = Path(cli.__file__).parent / "projects"
COMMON = "common"

# The form of a folder's name that needs quotes nowhere: in shells, URLs and configuration files.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")

# What the project is called in the files.
_EXAMPLE_NAME = "my-project"


def new(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where: a new or an empty folder.")],
    *,
    template: Annotated[str, typer.Option("--template", metavar="NAME", help="What to begin with.")] = "hello",
    as_json: AsJson = False,
) -> None:
    """Make a project: workflows, code of its own, tests, settings and CI. `anabranch dev` in it follows its files."""
    name = _check_name(folder)
    files = dict(_files_of(template))
    try:
        _check_empty(folder)
        for place, content in files.items():
            path = folder / place
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content.replace(_EXAMPLE_NAME, name), encoding="utf-8")
    except OSError as refusal:
        raise InvalidRequest(
            f"{refusal.filename or folder} cannot be written: {refusal.strerror}", hint="Choose another folder."
        ) from None
    go_there = "" if folder.resolve() == Path.cwd() else f"cd {folder} && "
    print_answer(
        {"name": name, "folder": str(folder), "template": template, "files": sorted(files)},
        f"the project {name} is in {folder}; go on with: {go_there}{own_name.NAME} dev",
        as_json=as_json,
    )


def _check_name(folder: Path) -> str:
    name = folder.resolve().name
    if _NAME.fullmatch(name) is None:
        raise InvalidRequest(
            f"{name!r} cannot name a project",
            hint="Use up to 64 letters, digits, `_` and `-`, beginning with a letter or digit.",
        )
    return name


def _check_empty(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise InvalidRequest(f"{folder} is a file", hint="Name a new or an empty folder.")
    if folder.is_dir() and any(folder.iterdir()):
        raise InvalidRequest(f"the folder {folder} is not empty", hint="Name a new or an empty folder.")


def _files_of(template: str) -> Iterator[tuple[str, str]]:
    """Place and content of each file. Raises InvalidRequest for an unknown template."""
    names = sorted(path.name for path in PROJECTS.iterdir() if path.name != COMMON)
    if template not in names:
        raise InvalidRequest(f"there is no template {template!r}", hint=f"There are {', '.join(names)}.")
    for root in (PROJECTS / COMMON, PROJECTS / template):
        for path in sorted(root.rglob("*.txt")):
            parts = [re.sub("^dot-", ".", part) for part in path.relative_to(root).parts]
            yield "/".join(parts).removesuffix(".txt"), path.read_text(encoding="utf-8")
