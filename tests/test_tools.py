"""What the machine lacks is said by name, and may be forbidden."""

from __future__ import annotations

from pathlib import Path

import pytest

from editor import toolchain
from tests import tools
from tests.tools import Kind, ToolMissing

LOOKING = [(Kind.BROWSER, tools.browser), (Kind.JAVASCRIPT, tools.node)]


@pytest.fixture
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is installed here."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(toolchain, "_NODE_HOME", tmp_path)
    monkeypatch.delenv(tools.FORBID_SKIPS, raising=False)


@pytest.mark.usefixtures("bare_machine")
@pytest.mark.parametrize(("kind", "look"), LOOKING)
def test_a_missing_tool_skips_its_tests_with_the_reason(kind: Kind, look: tools.Look) -> None:
    with pytest.raises(pytest.skip.Exception, match=f"^{kind} tests: no .* on the PATH"):
        tools.found_or_skip(kind, look)


@pytest.mark.usefixtures("bare_machine")
@pytest.mark.parametrize(("kind", "look"), LOOKING)
def test_a_skip_that_is_forbidden_is_a_failure(kind: Kind, look: tools.Look, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(tools.FORBID_SKIPS, "browser, javascript")
    with pytest.raises(pytest.fail.Exception, match=f"^{kind} tests must run here"):
        tools.found_or_skip(kind, look)


def test_forbidding_one_kind_leaves_the_other_alone() -> None:
    assert tools.forbidden_skips({tools.FORBID_SKIPS: "browser"}) == {Kind.BROWSER}
    assert tools.forbidden_skips({}) == frozenset()


def test_a_kind_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="brwoser"):
        tools.forbidden_skips({tools.FORBID_SKIPS: "brwoser"})


def test_an_old_node_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("node", "npm"):
        program = tmp_path / name
        program.write_text("#!/bin/sh\necho v16.20.0\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(toolchain, "_NODE_HOME", tmp_path / "nowhere")

    with pytest.raises(ToolMissing, match="no Node 20"):
        tools.node()


def test_packages_of_another_lock_are_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "package-lock.json").write_text("{}")
    monkeypatch.setattr(tools, "_JAVASCRIPT", tmp_path)

    with pytest.raises(ToolMissing, match=r"package-lock\.json are not installed; run `make test`"):
        tools.node_packages()
