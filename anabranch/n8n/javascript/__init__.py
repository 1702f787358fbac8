"""Programs in JavaScript that stand in front of imported code: what n8n's code and expressions find there.

Each file is one or a few statements with semicolons and whole-line comments only, so that it fits into the first line
of a code node and the lines of the user's code keep their numbers.
"""

from __future__ import annotations

import json
from functools import cache
from html.entities import name2codepoint
from pathlib import Path


@cache
def prelude(name: str) -> str:
    """The program with this name, in one line."""
    lines = (Path(__file__).parent / f"{name}.js").read_text(encoding="utf-8").splitlines()
    return " ".join(line.strip() for line in lines if line.strip() and not line.lstrip().startswith("//")) + "\n"


def xml_prelude() -> str:
    """The program `xml`, with the characters that have names in HTML 4."""
    named = {name: chr(code) for name, code in name2codepoint.items()} | {"apos": "'"}
    return f"const $entities = {json.dumps(named)}; {prelude('xml')}"
