"""`anabranch new`: a folder with what a project needs. Needs no database and no server."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from anabranch.cli import program
from anabranch.cli.options import AsJson
from anabranch.cli.output import print_answer, print_document, print_line
from anabranch.errors import InvalidRequest, NotFound
from anabranch.gallery.gallery import all_templates, find_template

# The form of a folder's name that needs quotes nowhere: in shells, URLs and configuration files.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def new(
    folder: Annotated[
        Path | None, typer.Argument(metavar="FOLDER", help="Where: a new or an empty folder.", show_default=False)
    ] = None,
    *,
    template: Annotated[str, typer.Option("--template", metavar="NAME", help="What to begin with.")] = "hello",
    lists: Annotated[bool, typer.Option("--list", help="List the templates instead.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make a project: workflows, code of its own, tests, settings and CI. `anabranch dev` in it follows its files."""
    if lists:
        _print_templates(as_json=as_json)
        return
    if folder is None:
        raise InvalidRequest("FOLDER is missing", hint=f"Name a new folder: {program.NAME} new my-project")
    name = _check_name(folder)
    files = _files_of(template, name)
    try:
        _check_empty(folder)
        for relative_path, content in files.items():
            path = folder / relative_path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
    except OSError as refusal:
        raise InvalidRequest(
            f"{refusal.filename or folder} cannot be written: {refusal.strerror}", hint="Choose another folder."
        ) from None
    go_there = "" if folder.resolve() == Path.cwd() else f"cd {folder} && "
    print_answer(
        {"name": name, "folder": str(folder), "template": template, "files": sorted(files)},
        f"the project {name} is in {folder}; go on with: {go_there}{program.NAME} dev",
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


def _files_of(template: str, name: str) -> dict[str, str]:
    """Path and content of each file. Raises InvalidRequest for an unknown template."""
    try:
        return find_template(template).project_files(name)
    except NotFound as unknown:
        raise InvalidRequest(str(unknown), hint=unknown.advice) from None


def _print_templates(*, as_json: bool) -> None:
    templates = all_templates()
    if as_json:
        print_document({"items": [template.summary() for template in templates]})
        return
    width = max(len(template.name) for template in templates)
    for template in templates:
        print_line(f"{template.name:{width}}  {template.description}")
