"""Install the built wheel as users do, and run a workflow with it: `make installs`.

With `uvx`, `pipx run` and `pip install`, each in a folder and a HOME of its own: dependencies come from the package
index, so this takes some minutes and is not one of the tests. Ends with 1 if a way does not work.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]

HELLO = {
    "name": "hello",
    "nodes": [
        {"id": "start", "type": "start"},
        {"id": "end", "type": "end", "config": {"outputParameters": {"message": "Hello, {{ctx.input.name}}!"}}},
    ],
    "edges": [{"upstreamNodeID": "start", "downstreamNodeID": "end"}],
}


def main() -> int:
    """Try each way; the exit code."""
    with tempfile.TemporaryDirectory() as folder:
        works = [_works(name, way) for name, way in _ways(Path(folder)).items()]
    return 0 if all(works) else 1


def _ways(folder: Path) -> Mapping[str, tuple[list[list[str]], list[str], Path]]:
    """For each way what installs it, what begins each command of anabranch, and its folder."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder / "dist")]
    subprocess.run(build, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    [wheel] = map(str, (folder / "dist").glob("*.whl"))
    tools, installed = folder / "tools", folder / "installed"
    for venv in (tools, installed):
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    subprocess.run([tools / "bin" / "pip", "install", "--quiet", "uv", "pipx"], check=True)
    for name in ("uvx", "pipx", "pip"):
        (folder / f"home-{name}").mkdir()
    return {
        "uvx": ([], [str(tools / "bin" / "uvx"), "--from", wheel, "anabranch"], folder / "home-uvx"),
        "pipx": ([], [str(tools / "bin" / "pipx"), "run", "--spec", wheel, "anabranch"], folder / "home-pipx"),
        "pip": (
            [[str(installed / "bin" / "pip"), "install", "--quiet", wheel]],
            [str(installed / "bin" / "anabranch")],
            folder / "home-pip",
        ),
    }


def _works(name: str, way: tuple[list[list[str]], list[str], Path]) -> bool:
    """Install, start the server with its pages until it says its address, run a workflow."""
    installing, anabranch, home = way
    environ = {**os.environ, "HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")}
    (home / "hello.json").write_text(json.dumps(HELLO))
    began = time.monotonic()
    for command in installing:
        subprocess.run(command, check=True)
    dev = [*anabranch, "dev", "--port", "0", "--no-open"]
    with subprocess.Popen(dev, cwd=home, env=environ, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        is_up = any(line.startswith("http://") for line in server.stdout)
        ready = time.monotonic()
        server.terminate()
        server.communicate()
    run = [*anabranch, "run", "hello.json", "--input", '{"name": "Ada"}']
    done = subprocess.run(run, cwd=home, env=environ, capture_output=True, text=True, check=False)
    has_run = done.returncode == 0 and "Hello, Ada!" in done.stdout
    print(f"{name:5} {'works' if is_up and has_run else 'FAILS'}: server ready after {ready - began:.1f} s")
    if not has_run:
        print(done.stdout + done.stderr)
    return is_up and has_run


if __name__ == "__main__":
    sys.exit(main())
