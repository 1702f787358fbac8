"""Every code block of README and docs is checked by its language, or says in its first line why it is not.

    python    compiles
    json      parses; with nodes and edges it is a valid workflow, a single node has a valid config
    console   commands of anabranch exist with these arguments and options, files and make targets exist, and
              requests fit a route

`text` and `mermaid` are nothing that could be run. The pages that are followed from
beginning to end have tests of their own: `tests/walkthrough`, `tests/cli/test_readme.py`, `test_how_to`.
"""

from __future__ import annotations

import ast
import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.core import TyperGroup

from anabranch.cli.entry import application
from anabranch.engine.rules.graph.validate import validate
from anabranch.handlers import builtin_types
from anabranch.rest.openapi import openapi_document
from anabranch.rest.routes.all_routes import ROUTES as ROUTES_TABLE
from anabranch.testing import check_config
from tests.reference.blocks import NOT_RUN, Block, blocks_of
from tests.walkthrough.page import typing_of

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").glob("*/README.md")),
]

# Programs of others, which every machine has or the page tells to install; what they do is theirs.
OTHERS = {
    *("cd", "cp", "curl", "docker", "export", "kill", "mkdir", "pip", "printf", "python", "test", "touch", "uvx"),
    *("pipx", ".venv/bin/python"),
}

NOTHING_TO_RUN = {"text", "mermaid"}

# Whose commands are given as they stand there.
FOLLOWED = ("docs/how-to/", "docs/tutorials/", "docs/walkthrough.md")

TYPES = builtin_types()
TARGETS = set(re.findall(r"(?m)^([a-z-]+):", (ROOT / "Makefile").read_text()))
ROUTES = {
    (method.upper(), re.compile(re.sub(r"\{\w+\}", "[^/]+", path) + "$"))
    for path, methods in openapi_document(ROUTES_TABLE)["paths"].items()
    for method in methods
}

_ASSIGNMENT = re.compile(r"^\w+=(?!\$)")


def all_blocks() -> Iterator[Any]:
    for page in PAGES:
        for block in blocks_of(page.read_text(encoding="utf-8")):
            name = str(page.relative_to(ROOT))
            if block.language != "console" or not name.startswith(FOLLOWED):
                yield pytest.param(block, id=f"{name}:{block.line}")


@pytest.mark.parametrize("block", list(all_blocks()))
def test_a_block_is_right_or_says_why_no_test_runs_it(block: Block) -> None:
    if NOT_RUN in block.info:
        assert block.info.partition(NOT_RUN)[2].strip(), "a reason"
        return
    match block.language:
        case "python" | "py":
            compile(block.text, "page", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        case "json":
            check_json(block.text)
        case "console":
            for step in typing_of(block.text):
                check_command(step.command)
        case "toml":
            tomllib.loads(block.text)
        case language:
            assert language in NOTHING_TO_RUN, f"```{language}: say why it is not run: ```{language} {NOT_RUN}reason"


def check_json(text: str) -> None:
    decoder, at = json.JSONDecoder(), 0
    while at < len(text.rstrip()):
        value, at = decoder.raw_decode(text, at + len(text[at:]) - len(text[at:].lstrip()))
        if not isinstance(value, dict):
            continue
        if "nodes" in value and "edges" in value:
            errors = [each for each in validate(value, TYPES).as_json()["errors"] if each["code"] != "UNKNOWN_TYPE"]
            assert errors == []
        elif "type" in value and "config" in value:
            assert check_config(value["type"], value["config"], types=TYPES) == []


def check_command(command: str) -> None:
    command = re.sub(r"\s+#.*", "", command.replace("\\\n", " "))
    for part in re.split(r"\s(?:&&|\|)\s|\s&$|;\s", command):
        words = shlex.split(_ASSIGNMENT.sub("", part.strip()).replace("$(", " ").replace(")", " "), posix=True)
        if "anabranch" in words:
            check_anabranch(words[words.index("anabranch") + 1 :])
        elif words and words[0] == "make":
            assert {word for word in words[1:] if "=" not in word} <= TARGETS, part
        elif words and words[0] == "python" and words[1].startswith("examples/"):
            assert (ROOT / words[1]).is_file(), part
        elif words and words[0] == "curl":
            check_request(words)
        elif words:
            assert words[0] in OTHERS or "=" in words[0], f"{part}: say why it is not run"


def check_request(words: list[str]) -> None:
    method = words[words.index("-X") + 1] if "-X" in words else "POST" if "-d" in words else "GET"
    [path] = [word[word.index("/v1/") :].partition("?")[0] for word in words if "/v1/" in word]
    assert any(method == known and pattern.match(path) for known, pattern in ROUTES), f"{method} {path}"


def check_anabranch(words: list[str]) -> None:
    """The command exists, and has these options; what they are given is checked where a page is followed."""
    command: Any = application
    words = list(words)
    while isinstance(command, TyperGroup) and words and not words[0].startswith("-"):
        assert words[0] in command.commands, f"no command {words[0]}"
        command = command.commands[words.pop(0)]
    known = {flag for each in command.params for flag in (*each.opts, *each.secondary_opts)}
    unknown = [word for word in words if re.match(r"--?[a-z]", word) and word.partition("=")[0] not in known]
    assert not unknown or unknown == ["--help"], f"{command.name} has no option {unknown}"
