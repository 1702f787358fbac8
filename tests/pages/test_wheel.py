"""A wheel brings its pages: installed where there is no Node, its server answers `/` and every asset."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import urllib.request
import zipfile
from pathlib import Path

import pytest

from editor.build import bundle_is_fresh
from tests.tools import Kind, do_without

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(180)
def test_an_installed_wheel_serves_its_pages_without_node(tmp_path: Path) -> None:
    if not bundle_is_fresh():
        do_without(Kind.JAVASCRIPT, "the pages are not built, or older than editor/; run `make pages`")
    # No program of this machine but Python's own: a build that wanted Node would fail, and so would a server.
    environ = {**os.environ, "PATH": str(Path(sys.executable).parent), "ANABRANCH_API_KEY": "ana_of_the_wheel"}
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, env=environ, check=True, capture_output=True)
    [wheel] = tmp_path.glob("*.whl")
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as packed:
        assert not [name for name in packed.namelist() if "node_modules" in name or name.endswith(".tsx")]
        packed.extractall(site)

    server = subprocess.Popen(
        [sys.executable, "-m", "anabranch", "dev", "--port", "0"],
        cwd=tmp_path,
        env={**environ, "PYTHONPATH": str(site)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert server.stdout is not None
        url = next(found[0] for line in server.stdout if (found := re.match(r"http://[\d.]+:\d+", line)))
        page = fetch(f"{url}/")
        assert 'id="root"' in page
        manifest = (site / "anabranch" / "pages" / "bundle" / "manifest.json").read_text("utf-8")
        assets = re.findall(r'"(assets/[^"]+)"', manifest)
        assert set(re.findall(r'(?:src|href)="/(assets/[^"]+)"', page)) <= set(assets)
        assert len(assets) > 3
        for asset in assets:
            assert fetch(f"{url}/{asset}")
    finally:
        server.terminate()
        server.communicate(timeout=40)


def fetch(url: str) -> str:
    """What is at a URL. Raises where there is nothing."""
    with urllib.request.urlopen(url, timeout=20) as answer:
        return str(answer.read().decode())
