"""The build hook of sdist and wheel: both bring the pages built, so that who installs them needs no Node.

An editable install builds nothing: `make dev` does. A wheel that is made from the sdist takes the bundle in it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PagesBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Builds `anabranch/pages/bundle` before sdist and wheel are made."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling with the kind of build: `standard` or `editable`."""
        if version == "editable":
            return
        build = Path(self.root) / "editor" / "build.py"
        if subprocess.run([sys.executable, str(build), "bundle"], check=False).returncode != 0:
            raise RuntimeError("the pages could not be built, see above")
