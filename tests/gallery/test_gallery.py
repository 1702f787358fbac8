"""The gallery: every template is a project that works as it is, with a picture and an input to try it with."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from anabranch.engine.rules.schema.json_schema import ValueSchema
from anabranch.errors import NotFound
from anabranch.gallery.gallery import PROJECTS, WorkflowTemplate, all_templates, find_template
from anabranch.gallery.layered_layout import lay_out
from anabranch.gallery.pictures import draw
from tests.gallery import page

ROOT = Path(__file__).parents[2]
TEMPLATES = all_templates()

EACH = pytest.mark.parametrize("template", TEMPLATES, ids=lambda template: template.name)

# A picture is loaded twenty times on one page.
PICTURE_BYTES_MAX = 6_000


@pytest.fixture(scope="module")
def projects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of each template."""
    folder = tmp_path_factory.mktemp("projects")
    for template in TEMPLATES:
        for relative_path, content in template.project_files("shop").items():
            path = folder / template.name / relative_path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
    return folder


def assert_succeeds(*command: str | Path) -> None:
    # Their tests need no plugin of ours, whose imports would take most of the time.
    environ = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_project_is_valid_and_passes_its_tests_against_fakes(projects: Path) -> None:
    assert_succeeds("tests.gallery.try_projects", projects)


def test_their_python_is_as_linters_like_it(projects: Path) -> None:
    sources = json.dumps([str(projects / template.name) for template in TEMPLATES])
    rules = ["--isolated", "--no-cache", "--select", "E,F,I,UP", "--line-length=120", "--config", f"src = {sources}"]
    assert_succeeds("ruff", "check", *rules, projects)


def test_there_are_at_least_twenty_drawn_and_coded() -> None:
    kinds = [template.kind for template in TEMPLATES]
    assert len(kinds) >= 20
    assert kinds.count("drawn") >= 10
    assert kinds.count("coded") >= 5


@EACH
def test_a_template_says_what_it_is(template: WorkflowTemplate) -> None:
    assert re.fullmatch(r"[a-z][a-z-]+", template.name)
    assert template.title
    assert template.description.endswith(".")
    assert len(template.description) <= 160
    assert template.topic in {"first steps", "people", "data", "integration", "operations", "ai"}
    readme = template.project_files("shop")["README.md"]
    assert readme.startswith("# shop\n")
    assert template.workflow in readme
    assert "{" not in re.sub(r"'\{.*\}'", "", readme), "every placeholder is filled"
    assert ("workflows import" in readme) == (template.text is not None)


@EACH
def test_its_example_is_an_input_that_a_start_takes(template: WorkflowTemplate) -> None:
    if template.document is not None:
        schema = ValueSchema(template.document["workflowOptions"]["inputSchema"])
        assert list(schema.problems(template.input)) == []
    assert isinstance(template.input, dict)


@EACH
def test_its_picture_is_small_and_shows_each_node(template: WorkflowTemplate) -> None:
    picture = template.picture
    assert len(picture) <= PICTURE_BYTES_MAX
    texts = [text.text for text in ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")]
    graph = template.about.get("picture") or template.document
    assert len(texts) == 2 * len(graph["nodes"])


def test_a_picture_shows_names_as_text_and_draws_edges_back_below() -> None:
    nodes = [{"id": "a", "type": "start", "name": "<b>&"}, {"id": "b", "type": "set"}, {"id": "c", "type": "end"}]
    edges = [("a", "b"), ("b", "c"), ("c", "b")]
    picture = draw({"nodes": nodes, "edges": [{"upstreamNodeID": a, "downstreamNodeID": b} for a, b in edges]})
    assert "&lt;b&gt;&amp;" in picture
    assert picture.count("stroke-dasharray") == 1


def test_an_edge_past_other_nodes_has_a_way_of_its_own() -> None:
    layout = lay_out(["a", "b", "c"], [("a", "b"), ("b", "c"), ("a", "c")])
    [waypoint] = layout.ways["a", "c"]
    assert waypoint[0] == layout.positions["b"][0]
    assert waypoint[1] != layout.positions["b"][1]


def test_an_unknown_template_is_refused_with_the_names_of_all() -> None:
    with pytest.raises(NotFound) as refused:
        find_template("../common")
    assert "approval-reminder" in str(refused.value.advice)


def test_no_folder_of_the_gallery_is_left_out() -> None:
    assert {path.name for path in PROJECTS.iterdir()} == {template.name for template in TEMPLATES} | {"common"}


def test_the_page_of_the_templates_and_its_pictures_are_as_generated() -> None:
    made = page.files()
    assert {path: path.read_text() for path in made} == made, "run python -m tests.gallery.page"
    assert set(page.PICTURES.iterdir()) == {path for path in made if path.suffix == ".svg"}
