"""The example plug-in, installed as a package: its node types are found by their entry point alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "examples" / "plugin"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that the plug-in was installed into, with nothing fetched."""
    target = tmp_path_factory.mktemp("plugin") / "site"
    options = ["--no-index", "--no-build-isolation", "--no-deps", "--no-cache-dir", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "install", "--quiet", *options, "--target", str(target), str(PLUGIN)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return target


def run(installed: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """One command in a process that can find the plug-in."""
    path = os.pathsep.join([str(installed), str(ROOT)])
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_a_workflow_uses_the_types_of_an_installed_package(installed: Path, tmp_path: Path) -> None:
    text = json.dumps({"text": "to be or not to be"})
    done = run(installed, tmp_path, "anabranch", "run", str(PLUGIN / "workflow.json"), "--input", text, "--json")
    assert done.returncode == 0, done.stderr + done.stdout
    output = json.loads(done.stdout)["output"]
    assert output["verdict"] == "short"
    assert output["counted"]["frequent"][0] == {"word": "to", "times": 2}


def test_without_the_package_the_type_is_unknown(tmp_path: Path) -> None:
    done = run(tmp_path, tmp_path, "anabranch", "validate", str(PLUGIN / "workflow.json"), "--json")
    assert done.returncode != 0
    assert "UNKNOWN_TYPE" in done.stdout


def test_the_plugins_own_tests_pass(installed: Path, tmp_path: Path) -> None:
    flags = ["-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), "-c", os.devnull]
    done = run(installed, tmp_path, "pytest", *flags, str(PLUGIN / "tests"))
    assert done.returncode == 0, done.stdout
