"""The build hooks of sdist and wheel: both bring the pages built, so that nobody who installs them needs Node, and
README as their description, with links that work outside of the repository; the wheel brings the documentation, too.

An editable install builds no pages: `make dev` does. A wheel that is made from the sdist takes the bundle in it.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

# In `[project.urls]` of pyproject.toml: the address of the repository.
SOURCE = "Source"

# `[text](target)` and `![text](target)`, where the target is neither an address nor a heading of README itself.
_LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?!https?://|#|mailto:)(?P<target>[^)\s]+)\)")
_PICTURE = re.compile(r"<picture>.*?</picture>\s*", re.DOTALL)
_ATTRIBUTE = re.compile(r'(?P<name>src|srcset)="(?!https?://)(?P<target>[^"]+)"')


class PagesBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Builds `anabranch/pages/bundle` before sdist and wheel are made."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling with the kind of build: `standard` or `editable`."""
        if version == "editable":
            return
        build = Path(self.root) / "editor" / "build.py"
        if subprocess.run([sys.executable, str(build), "bundle"], check=False).returncode != 0:
            raise RuntimeError("the pages could not be built, see above")
        if self.target_name == "wheel":
            build_data["force_include"].update(documentation(Path(self.root) / "docs"))


def documentation(docs: Path) -> dict[str, str]:
    """The pages that `anabranch docs` shows: each file, and where it is in the wheel."""
    return {str(page): f"anabranch/documentation/{page.relative_to(docs)}" for page in sorted(docs.rglob("*.md"))}


class DescriptionHook(MetadataHookInterface):
    """Makes the description of a package from README."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Called by hatchling with the table `[project]`."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        source = metadata.get("urls", {}).get(SOURCE)
        metadata["readme"] = {"content-type": "text/markdown", "text": description(text, source)}


def description(readme: str, source: str | None) -> str:
    """README for readers outside of the repository: relative links lead to `source`; without one they are plain text,
    and pictures are left out."""
    if source is None:
        readme = _PICTURE.sub("", readme)
        return _LINK.sub(lambda found: "" if found["image"] else found["text"], readme)
    base = source.rstrip("/")

    def absolute(found: re.Match[str]) -> str:
        kind = "raw" if found["image"] else "blob"
        return f"{found['image']}[{found['text']}]({base}/{kind}/HEAD/{found['target']})"

    readme = _ATTRIBUTE.sub(lambda found: f'{found["name"]}="{base}/raw/HEAD/{found["target"]}"', readme)
    return _LINK.sub(absolute, readme)
