"""Open the address of `anabranch dev` in the user's browser.

Called by `dev` once the server is ready. The address is printed anyway, so it is not an error if no browser opens.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from anabranch.deferred import deferred

if TYPE_CHECKING:
    import webbrowser
else:
    webbrowser = deferred("webbrowser")

# What CI services set `CI` to, where they do not run.
_NOT_CI = ("", "0", "false")


def open_browser(url: str) -> None:
    """Open the URL without waiting for the browser; do nothing where no person sits in front of one."""
    if _is_terminal() and has_browser(os.environ, sys.platform):
        threading.Thread(target=_open, args=(url,), daemon=True, name="open-browser").start()


def has_browser(environ: Mapping[str, str], platform: str) -> bool:
    """Whether there is a desktop to open a page on: not in CI, and not at the other end of an SSH session.

    Without a desktop Python would start a text browser, which takes the terminal away from the server.
    """
    if environ.get("CI", "").lower() not in _NOT_CI:
        return False
    if environ.get("BROWSER"):
        return True
    if "SSH_CONNECTION" in environ:
        return False
    return platform == "darwin" or bool(environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY"))


def _is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _open(url: str) -> None:
    with suppress(webbrowser.Error, OSError):
        webbrowser.open(url)
