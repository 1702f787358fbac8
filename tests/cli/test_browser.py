"""`anabranch dev` opens its page on a desktop, and nowhere else."""

from __future__ import annotations

import os
import pty
import re
import subprocess
from pathlib import Path

import pytest

from anabranch.cli.browser import has_browser
from tests.hardening.command_line import EXECUTABLE


@pytest.mark.parametrize(
    ("environ", "platform", "has_one"),
    [
        ({"DISPLAY": ":0"}, "linux", True),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "linux", True),
        ({}, "darwin", True),
        ({"BROWSER": "firefox"}, "linux", True),
        ({}, "linux", False),
        ({"DISPLAY": ":0", "CI": "true"}, "linux", False),
        ({"BROWSER": "firefox", "CI": "1"}, "linux", False),
        ({"DISPLAY": ":0", "CI": "false"}, "linux", True),
        ({"DISPLAY": "localhost:10", "SSH_CONNECTION": "1 2 3 4"}, "linux", False),
    ],
)
def test_a_page_is_opened_only_on_a_desktop(environ: dict[str, str], platform: str, has_one: bool) -> None:
    assert has_browser(environ, platform) is has_one


def test_dev_on_a_terminal_opens_the_address_with_the_key(folder: Path) -> None:
    browser, opened = folder / "browser", folder / "opened"
    os.mkfifo(opened)
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {opened}\n')
    browser.chmod(0o755)
    ours, theirs = pty.openpty()
    environ = {name: value for name, value in os.environ.items() if name != "CI"}
    server = subprocess.Popen(
        [EXECUTABLE, "dev", "--port", "0"],
        cwd=folder,
        env={**environ, "BROWSER": f"{browser} %s"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    try:
        address = opened.read_text()  # waits for the browser
        key = (folder / ".anabranch" / "dev.key").read_text().strip()
        assert re.fullmatch(rf"http://127\.0\.0\.1:\d+/\?key={key}", address)
        printed = ""
        while address not in printed.splitlines():  # after the note that a key was made; it comes in pieces
            printed += os.read(ours, 65_536).decode()
    finally:
        server.terminate()
        server.wait()
        os.close(ours)
