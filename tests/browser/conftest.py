"""A real browser before a real server: one of each for each worker process; a test that ends its server has its own.

Everything here lives in the event loop of the session, for the browser does; tests of this folder say
`pytestmark = IN_THE_BROWSER`. What a page complains about (errors in its console, exceptions that
nobody caught, requests that leave this machine) fails the test at its end, whatever it was about.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, Request, async_playwright
from playwright.async_api import Error as PlaywrightError

from editor.build import bundle_is_fresh
from tests.tools import Kind, browser, do_without, found_or_skip

IN_THE_BROWSER = pytest.mark.asyncio(loop_scope="session")

# Chromium asks its maker's hosts for this and that unless it is told not to; a test machine may have no way there.
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

# Forty seconds: where much else goes on a server takes ten to start. Expectations are met in a fraction of it.
PATIENCE_MS = 40_000

# What the policy of a page forbids is said in its console, and so fails the test.
REPORT_VIOLATIONS = """
document.addEventListener("securitypolicyviolation", (event) =>
  console.error(`policy: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
"""

# The grace of a server that is told to end is 30 s; it has no run here that needs it.
STOP_SECONDS_MAX = 40


@dataclass(frozen=True)
class Server:
    """A running `anabranch dev`, and REST with its key for what a test prepares."""

    url: str
    key: str
    process: subprocess.Popen[str]

    @property
    def entrance(self) -> str:
        """The address as it is printed: with the key."""
        return f"{self.url}/?key={self.key}"

    def call(self, method: str, path: str, body: Any = None, *, text: str | None = None) -> Any:
        """The JSON answer to a request, whose body may be given as JSON text; one that is no success is an error."""
        request = urllib.request.Request(
            f"{self.url}/v1{path}",
            method=method,
            data=None if body is None and text is None else (text or json.dumps(body)).encode(),
            headers={"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=PATIENCE_MS / 1000) as answer:
            said = answer.read()
            return json.loads(said) if said else None

    def text(self, path: str) -> str:
        """The answer to a read, as the text that it is."""
        request = urllib.request.Request(f"{self.url}/v1{path}", headers={"Authorization": f"Bearer {self.key}"})
        with urllib.request.urlopen(request, timeout=PATIENCE_MS / 1000) as answer:
            return str(answer.read().decode())

    def die(self) -> None:
        """Be killed at once, with no time to finish anything."""
        self.process.kill()
        self.process.wait()

    def key_of(self, role: str) -> str:
        """A new key of this role."""
        return str(self.call("POST", "/keys", {"role": role})["key"])

    def save(self, title: str, nodes: list[dict[str, Any]], **more: Any) -> str:
        """Save a workflow whose nodes follow each other after a start, unless edges are given; its name."""
        chain = [{"id": "start", "type": "start"}, *nodes]
        edges = [{"upstreamNodeID": one["id"], "downstreamNodeID": other["id"]} for one, other in pairwise(chain)]
        return str(self.call("POST", "/workflows", {"title": title, "nodes": chain, "edges": edges} | more)["name"])

    def start(self, name: str, value: Any = None) -> str:
        """Start a run; its id."""
        return str(self.call("POST", f"/workflows/{name}/runs", {"input": value})["instanceID"])


@dataclass
class Complaints:
    """What a page complained about; a browser does so, too, when a request is refused that a test means to fail."""

    said: list[str] = field(default_factory=list)
    allowed: list[str] = field(default_factory=list)
    """Parts of complaints that are no fault in this test."""

    @property
    def faults(self) -> list[str]:
        """What should not have been said."""
        return [said for said in self.said if not any(part in said for part in self.allowed)]


@pytest.fixture(scope="session", autouse=True)
def built_pages() -> None:
    """The pages as they are in this clone; a test of older ones would say nothing."""
    if not bundle_is_fresh():
        do_without(Kind.BROWSER, "the pages are not built, or older than editor/; run `make pages`")


@contextlib.contextmanager
def running_server(folder: Path, *, port: int = 0, key: str | None = None) -> Iterator[Server]:
    """`anabranch dev` in a folder, listening; ended as an operator does, and gone, when it is left."""
    folder.mkdir(exist_ok=True)
    environ = {name: value for name, value in os.environ.items() if not name.startswith("ANABRANCH_")}
    if key is not None:
        environ["ANABRANCH_API_KEY"] = key
    with (folder / "dev.log").open("a") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "anabranch", "dev", "--port", str(port)],
            cwd=folder,
            env={**environ, "PYTHONPATH": str(Path(__file__).parents[2])},
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    try:
        assert process.stdout is not None
        words = process.stdout.readline().split()
        entrance = next((word for word in words if word.startswith("http://")), None)
        assert entrance, f"no address in {words}: {(folder / 'dev.log').read_text()}"
        parts = urlsplit(entrance)
        yield Server(f"{parts.scheme}://{parts.netloc}", parse_qs(parts.query)["key"][0], process)
    finally:
        process.terminate()
        process.communicate(timeout=STOP_SECONDS_MAX)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The server of this worker process: what a test looks for there has a name of its own."""
    with running_server(tmp_path_factory.mktemp("dev")) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def chromium() -> AsyncIterator[Browser]:
    """The browser of this worker process."""
    path = found_or_skip(Kind.BROWSER, browser)
    async with async_playwright() as playwright:
        try:
            launched = await playwright.chromium.launch(executable_path=path, args=FLAGS)
        except PlaywrightError as failure:
            do_without(Kind.BROWSER, f"{path} does not start: {failure.message}")
        yield launched
        await launched.close()


@pytest.fixture
def complaints() -> Complaints:
    """What the test's page complains about."""
    return Complaints()


@pytest_asyncio.fixture(loop_scope="session")
async def page(chromium: Browser, complaints: Complaints) -> AsyncIterator[Page]:
    """An empty tab of a browser that knows nothing yet: no storage, no history."""
    context = await chromium.new_context(viewport={"width": 1280, "height": 860}, reduced_motion="reduce")
    context.set_default_timeout(PATIENCE_MS)

    def watch(request: Request) -> None:
        if urlsplit(request.url).hostname not in ("127.0.0.1", None):
            complaints.said.append(f"a request left this machine: {request.url}")

    def watch_tab(tab: Page) -> None:
        tab.on("request", watch)
        tab.on("pageerror", lambda error: complaints.said.append(f"uncaught: {error}"))
        tab.on("console", lambda line: complaints.said.append(line.text) if line.type in ("error", "warning") else None)

    context.on("page", watch_tab)
    await context.add_init_script(REPORT_VIOLATIONS)
    yield await context.new_page()
    await context.close()
    assert complaints.faults == []
