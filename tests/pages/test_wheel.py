"""From a wheel to a first completed run, where there is no clone, no Node and no HOME: by the steps of the image.

The steps of `deploy/Dockerfile` run in a plain folder; the installed server has its pages and runs its sample workflow.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import time
import urllib.request
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from email import message_from_bytes
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import sync_playwright

from anabranch import __version__
from editor.build import bundle_is_fresh
from tests.browser.conftest import FLAGS
from tests.processes.launching import PATIENCE_S, until
from tests.tools import Kind, browser, container_builder, do_without, found_or_skip

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "deploy" / "Dockerfile"

# "/opt/anabranch", "/data" and "/tmp/install" in a container.
_IN_CONTAINER = re.compile(r"(?<![\w./}])/(?=opt/anabranch\b|data\b|tmp/install\b)")


@dataclass(frozen=True)
class Installed:
    """A folder that stands for the file system of a container."""

    root: Path
    environ: dict[str, str]
    began: float
    """When the installation began."""


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile: name and rest."""
    text = re.sub(r"(?m)^#.*\n", "", DOCKERFILE.read_text()).replace("\\\n", " ")
    return [(name, rest.strip()) for name, rest in (line.split(maxsplit=1) for line in text.splitlines() if line)]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not bundle_is_fresh():
        do_without(Kind.JAVASCRIPT, "the pages are not built, or older than editor/; run `make pages`")
    # No program of this machine but Python's own: a build that wanted Node would fail.
    folder = tmp_path_factory.mktemp("context")
    environ = {**os.environ, "PATH": str(Path(sys.executable).parent)}
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder / "dist")]
    subprocess.run(command, cwd=ROOT, env=environ, check=True, capture_output=True)
    [built] = (folder / "dist").glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The steps of the Dockerfile, done; dependencies are those that are installed here, as from a warm cache."""
    root, context = tmp_path_factory.mktemp("container"), wheel.parents[1]
    for lock in ("requirements.lock", "requirements-dev.lock"):
        shutil.copy(ROOT / lock, context)
    shutil.copytree(ROOT / "deploy", context / "deploy")
    programs = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    environ = {"PATH": programs, "HOME": str(root / "data"), "PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1"}
    began = time.monotonic()
    for name, rest in instructions():
        if name == "RUN":
            owner = f"-o {os.getuid()} -g {os.getgid()}"
            command = _IN_CONTAINER.sub(f"{root}/", rest).replace("-o 10001 -g 10001", owner)
            subprocess.run(["sh", "-c", command], env=environ, cwd=context, check=True, capture_output=True)
        elif name == "COPY":
            copy(rest.split(), context, root)
        elif name == "ENV":
            environ = dict(each.split("=", 1) for each in shlex.split(_IN_CONTAINER.sub(f"{root}/", rest)))
    [packages] = root.glob("opt/anabranch/lib/python*/site-packages")
    (packages / "installed_here.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return Installed(root, environ, began)


def copy(words: list[str], context: Path, root: Path) -> None:
    """`COPY SOURCE… TARGET`; both stages have the same root here."""
    if words[0].startswith("--from="):
        assert words[1] == words[2]
        assert (root / words[1].lstrip("/")).is_dir()
        return
    *sources, target = words
    to = root / target.lstrip("/")
    (to if target.endswith("/") else to.parent).mkdir(parents=True, exist_ok=True)
    for source in sources:
        for path in context.glob(source):
            shutil.copy(path, to)


@dataclass(frozen=True)
class Served:
    """`anabranch dev` of the installed wheel."""

    url: str
    key: str
    ready: float
    """When it was ready."""

    def ask(self, path: str, body: Any = None) -> Any:
        """The JSON that a route answers."""
        request = urllib.request.Request(
            f"{self.url}{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return json.loads(answer.read())

    def page(self, path: str) -> str:
        """What is at a path. Raises where there is nothing."""
        with urllib.request.urlopen(f"{self.url}{path}", timeout=PATIENCE_S) as answer:
            return str(answer.read().decode())


@pytest.fixture(scope="module")
def served(installed: Installed) -> Iterator[Served]:
    server = subprocess.Popen(
        [installed.root / "opt/anabranch/bin/anabranch", "dev", "--port", "0", "--no-open"],
        cwd=installed.root / "data",
        env={**installed.environ, "ANABRANCH_HOST": "127.0.0.1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert server.stdout is not None
        line = next(line for line in server.stdout if line.startswith("http://"))
        found = urlsplit(line.strip())
        yield Served(f"http://127.0.0.1:{found.port}", parse_qs(found.query)["key"][0], time.monotonic())
    finally:
        server.terminate()
        server.communicate(timeout=PATIENCE_S)


@pytest.mark.timeout(180)
def test_a_wheel_is_installed_and_completes_its_first_run(installed: Installed, served: Served) -> None:
    run = served.ask("/v1/workflows/hello/runs", {"input": {"name": "Ada"}})["instanceID"]
    until(lambda: served.ask(f"/v1/runs/{run}")["status"] == "COMPLETED")
    ended = time.monotonic()

    assert served.ask(f"/v1/runs/{run}")["output"]["message"] == "Hello, Ada!"
    print(f"\ninstall to ready: {served.ready - installed.began:.1f} s")
    print(f"install to first completed run: {ended - installed.began:.1f} s")


@pytest.mark.timeout(180)
def test_a_browser_opens_a_template_starts_it_and_sees_it_complete(installed: Installed, served: Served) -> None:
    program = found_or_skip(Kind.BROWSER, browser)
    with sync_playwright() as playwright, playwright.chromium.launch(executable_path=program, args=FLAGS) as chromium:
        opened = time.monotonic()
        page = chromium.new_page()
        page.set_default_timeout(PATIENCE_S * 1000)
        page.goto(f"{served.url}/?key={served.key}")
        page.get_by_role("region", name="Begin with a template").wait_for()
        page.get_by_role("button", name="Clean a list of customers").click()
        page.locator('[data-node-id="tidy"]').wait_for()
        page.get_by_role("button", name="Publish").click()
        page.locator(".toasts").get_by_role("button", name="Start it").click()
        page.get_by_role("button", name="Start the run").click()
        page.locator(".run-status", has_text="completed").wait_for()
        ended = time.monotonic()
        run = page.url.rpartition("/")[2]

    assert len(served.ask(f"/v1/runs/{run}")["output"]["customers"]) == 2
    total = served.ready - installed.began + ended - opened
    print(f"\nfirst page to a completed run in the browser: {ended - opened:.1f} s")
    print(f"install to the first completed run in the browser: {total:.1f} s")


def test_the_installed_server_has_its_pages(installed: Installed, served: Served) -> None:
    page = served.page("/")
    assert 'id="root"' in page
    [bundle] = installed.root.glob("opt/anabranch/lib/python*/site-packages/anabranch/pages/bundle")
    assets = re.findall(r'"(assets/[^"]+)"', (bundle / "manifest.json").read_text("utf-8"))
    assert set(re.findall(r'(?:src|href)="/(assets/[^"]+)"', page)) <= set(assets)
    assert len(assets) > 3
    for asset in assets:
        assert served.page(f"/{asset}")


def test_the_healthcheck_of_the_image_sees_whether_a_server_is_ready(installed: Installed, served: Served) -> None:
    [command] = [json.loads(rest[rest.index("[") :]) for name, rest in instructions() if name == "HEALTHCHECK"]
    command = [_IN_CONTAINER.sub(f"{installed.root}/", word) for word in command]

    def code_of(**environ: str) -> int:
        return subprocess.run(command, env={**installed.environ, **environ}, check=False).returncode

    assert code_of(ANABRANCH_PORT=str(urlsplit(served.url).port), ANABRANCH_ALLOWED_HOSTS="localhost, a.example") == 0
    assert code_of(ANABRANCH_METRICS_PORT="1") == 1


def test_a_wheel_has_what_its_users_need_and_nothing_of_its_builders(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
        [metadata] = [message_from_bytes(packed.read(name)) for name in names if name.endswith(".dist-info/METADATA")]
    assert metadata["Version"] == __version__
    assert "anabranch/py.typed" in names
    assert "anabranch/gallery/projects/clean-customers/about.json" in names
    assert "anabranch/gallery/projects/common/dot-gitignore.txt" in names
    assert "anabranch/documentation/index.md" in names
    assert not [name for name in names if name.endswith(".png") and "documentation" in name]
    assert [name for name in names if name.startswith("anabranch/migrations/versions/0001")]
    assert not [name for name in names if "node_modules" in name or name.endswith(".tsx")]
    assert str(metadata.get_payload()).lstrip().startswith("# anabranch")
    assert "](docs/" not in str(metadata.get_payload())


def test_the_image_is_small_and_not_roots() -> None:
    stages = [rest for name, rest in instructions() if name == "FROM"]
    last = instructions()[[name for name, _ in instructions()].index("FROM", 1) :]
    assert len(stages) == 2
    assert all("-slim" in stage for stage in stages)
    assert ("USER", "10001:10001") in last
    assert not [rest for name, rest in last if name == "RUN" and "pip" in rest]


@pytest.mark.timeout(600)
def test_the_image_is_built_and_runs_where_there_is_a_builder(wheel: Path, installed: Installed) -> None:
    builder = found_or_skip(Kind.CONTAINER, container_builder)
    base = next(rest for name, rest in instructions() if name == "FROM").split()[0]
    if subprocess.run([builder, "pull", base], capture_output=True, check=False).returncode != 0:
        do_without(Kind.CONTAINER, f"{base} cannot be pulled")

    def run(*command: str) -> str:
        done = subprocess.run([builder, *command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    tag = f"anabranch-test-{os.getpid()}"
    try:
        run("build", "--tag", tag, "--file", str(wheel.parents[1] / "deploy" / "Dockerfile"), str(wheel.parents[1]))
        assert __version__ in run("run", "--rm", tag, "version")
        assert "uid=10001" in run("run", "--rm", "--entrypoint", "id", tag)
    finally:
        subprocess.run([builder, "rmi", "--force", tag], capture_output=True, check=False)
