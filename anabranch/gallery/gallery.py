"""Templates: workflows that one would really use, each as the files of a project.

Called by `anabranch new`, by the REST API and by the generator of their pages. The files are in `projects`: those of
every project in `common`, those of a template in a folder with its name, which win. There `dot-` stands for a leading
dot, and `.txt` follows each name, so that no tool takes them for its own. `about.json` says what the template is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from anabranch.dataclass import dataclass
from anabranch.errors import NotFound
from anabranch.gallery.pictures import draw

PROJECTS = Path(__file__).parent / "projects"
COMMON = "common"

# What the project is called in the files.
EXAMPLE_NAME = "my-project"

# What README adds where there is something to import.
_DEPLOY = ", and\n`anabranch workflows import workflows/*.json --import app.py` at each deploy"

APP_FILE = "app.py"
README_FILE = "README.md"


@dataclass(frozen=True)
class WorkflowTemplate:
    """A template, by its name."""

    name: str

    @cached_property
    def about(self) -> Mapping[str, Any]:
        """The content of `about.json`."""
        found: dict[str, Any] = json.loads((PROJECTS / self.name / "about.json").read_text(encoding="utf-8"))
        return found

    @cached_property
    def own_files(self) -> Mapping[str, str]:
        """Path and content of its files, without those of every project."""
        return dict(_files_below(PROJECTS / self.name))

    @property
    def title(self) -> str:
        """The title for people."""
        return str(self.about["title"])

    @property
    def description(self) -> str:
        """A sentence on what the project does."""
        return str(self.about["description"])

    @property
    def topic(self) -> str:
        """The topic, in a word."""
        return str(self.about["topic"])

    @property
    def change(self) -> str:
        """The places to change before use."""
        return str(self.about["change"])

    @property
    def kind(self) -> str:
        """`drawn` if the editor can open it as it is, `coded` if it is Python or needs node types of its own."""
        return "coded" if self.code is not None else "drawn"

    @property
    def code(self) -> str | None:
        """Its Python, if it has any."""
        return self.own_files.get(APP_FILE)

    @property
    def text(self) -> str | None:
        """The text of its drawn workflow, if it has one."""
        return next((text for path, text in self.own_files.items() if path.endswith(".json")), None)

    @cached_property
    def document(self) -> Mapping[str, Any] | None:
        """The same, read."""
        return None if self.text is None else json.loads(self.text)

    @property
    def workflow(self) -> str:
        """The name of the workflow to start."""
        document = self.document
        return str(self.about["workflow"] if document is None else document["name"])

    @property
    def input(self) -> Any:
        """An input to try it with."""
        document = self.document
        if document is None:
            return self.about["input"]
        return document["workflowOptions"]["inputSchema"]["examples"][0]

    @cached_property
    def picture(self) -> str:
        """Its graph, as SVG."""
        return draw(self.about.get("picture") or self.document or {})

    def summary(self) -> dict[str, str]:
        """What lists of templates say of it, as JSON."""
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "topic": self.topic,
            "kind": self.kind,
        }

    def project_files(self, name: str) -> dict[str, str]:
        """Path and content of each file of a project with this name."""
        files = {**dict(_files_below(PROJECTS / COMMON)), **self.own_files}
        if README_FILE not in self.own_files:
            files[README_FILE] = self._filled(files[README_FILE])
        return {path: content.replace(EXAMPLE_NAME, name) for path, content in files.items()}

    def _filled(self, readme: str) -> str:
        path = APP_FILE if self.text is None else f"workflows/{self.name}.json"
        what = "the workflow" if self.text is None else "the workflow, which the editor shows"
        values = {
            "description": self.description,
            "place": path,
            "what": what,
            "change": self.change,
            "workflow": self.workflow,
            "input": json.dumps(self.input, ensure_ascii=False),
            "deploy": "" if self.text is None else _DEPLOY,
        }
        return re.sub(r"\{(\w+)\}", lambda found: values[found[1]], readme)


@cache
def all_templates() -> tuple[WorkflowTemplate, ...]:
    """All templates, by name."""
    return tuple(WorkflowTemplate(path.parent.name) for path in sorted(PROJECTS.glob("*/about.json")))


def find_template(name: str) -> WorkflowTemplate:
    """The template with this name. Raises NotFound, which names all."""
    templates = {template.name: template for template in all_templates()}
    if name not in templates:
        raise NotFound(f"there is no template {name!r}", hint=f"There are {', '.join(templates)}.")
    return templates[name]


def _files_below(root: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(root.rglob("*.txt")):
        parts = [re.sub("^dot-", ".", part) for part in path.relative_to(root).parts]
        yield "/".join(parts).removesuffix(".txt"), path.read_text(encoding="utf-8")
