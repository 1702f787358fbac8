"""Every code that the source can answer with is explained in `docs/errors.md`."""

from __future__ import annotations

import re
from pathlib import Path

from anabranch.engine.rules.events import EventType
from anabranch.engine.rules.graph.problems import REFUSALS, WARNINGS
from tests.architecture.reading import read_package

ROOT = Path(__file__).parents[2]

# Texts in the form of a code that are none: what help texts call an argument, variables of the environment.
NO_CODES = {
    "INSTANCE_ID",
    "KEY_ID",
    "MODULE_OR_FILE",
    "SUBSCRIPTION_ID",
    "SQLITE_TMPDIR",
    "SSH_CONNECTION",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "WAYLAND_DISPLAY",
}

# Components that answer nobody: their texts are names of tables and of what they export.
SILENT = ("anabranch.migrations", "anabranch.engine.ports", "anabranch.engine.store.schema")

# What the code of a node sees in its own exceptions; explained in the text of that page.
SEEN_BY_CODE_ONLY = {"FETCH_FAILED"}


def test_every_code_is_documented() -> None:
    documented = set(re.findall(r"^\| `([A-Z0-9_]+)` \|", (ROOT / "docs" / "errors.md").read_text(), re.MULTILINE))
    used = {
        text
        for source in read_package(ROOT / "anabranch")
        for text, _ in source.texts()
        if re.fullmatch(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+", text) and not source.module.startswith(SILENT)
    }

    codes = (used | {*REFUSALS, *WARNINGS}) - set(EventType) - NO_CODES - SEEN_BY_CODE_ONLY
    assert codes <= documented, f"explain in docs/errors.md: {sorted(codes - documented)}"
