"""The site: one list of all pages makes the navigation, the topics of `anabranch docs`, and llms.txt."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

from anabranch.cli.commands.docs_command import topics_of
from mkdocs_hooks import DOCS, anchor, llms_files, on_config, on_page_markdown

TOPICS = topics_of((DOCS / "index.md").read_text(encoding="utf-8"))


def shown(text: str, path: str = "page.md") -> str:
    return on_page_markdown(text, SimpleNamespace(file=SimpleNamespace(src_uri=path)))


def test_every_page_is_listed_once() -> None:
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    decisions = {page for page in pages if re.match(r"decisions/\d", page)}  # their own page lists them

    assert sorted(each.path for each in TOPICS) == sorted(pages - decisions - {"index.md"}), (
        "docs/index.md lists every page: add a line to its part"
    )


def test_every_topic_has_a_name_of_its_own() -> None:
    names = [each.name for each in TOPICS]
    assert sorted(set(names)) == sorted(names)


def test_the_navigation_has_the_four_parts_of_the_list() -> None:
    config = on_config({"mdx_configs": {}})

    assert [next(iter(part)) for part in config["nav"]] == ["Home", "Tutorials", "How-to", "Reference", "Explanation"]
    assert config["nav"][1]["Tutorials"][0] == {"A first workflow": "tutorial.md"}


def test_the_schema_of_workflow_files_is_in_the_site_and_named_in_the_pages() -> None:
    assert (DOCS / "reference" / "workflow.schema.json").is_file()
    assert '"$schema": "./workflow.schema.json"' in (DOCS / "reference" / "workflow-document.md").read_text("utf-8")


def test_anchors_are_those_of_github() -> None:
    assert anchor("`doctor --data` & co.", "-") == "doctor---data--co"


def test_links_out_of_the_pages_become_text_where_no_repository_is_named() -> None:
    assert shown("See [the agent](../examples/agent/README.md) and [nodes](nodes.md).") == (
        "See the agent and [nodes](nodes.md)."
    )
    assert shown("See [nodes](../nodes.md).", "reference/x.md") == "See [nodes](../nodes.md)."


def test_the_first_line_of_a_block_names_its_file_and_hides_why_it_is_not_run() -> None:
    assert shown("```json order.json\n{}\n```") == '```json title="order.json"\n{}\n```'
    assert shown("```sh not run: it needs a cluster\nx\n```") == "```sh\nx\n```"


def test_a_list_right_below_text_is_a_list() -> None:
    assert shown("Two things:\n* one\n* two\n") == "Two things:\n\n* one\n* two\n"
    assert shown("```text\nTwo things:\n* one\n```") == "```text\nTwo things:\n* one\n```"


def test_pictures_follow_the_theme_of_the_reader() -> None:
    assert shown("![A run](pictures/run-light.png)") == (
        "![A run](pictures/run-light.png#only-light)![A run](pictures/run-dark.png#only-dark)"
    )


def test_llms_txt_lists_all_pages_and_the_other_file_has_them() -> None:
    files = llms_files("https://example.com/")

    assert files["llms.txt"].startswith("# anabranch\n\n> anabranch is a durable workflow engine")
    for topic in TOPICS:
        assert (
            f"* [{topic.title}](https://example.com/{topic.path.removesuffix('.md').removesuffix('README')}"
            in (files["llms.txt"])
        )
        assert Path(DOCS / topic.path).read_text(encoding="utf-8").strip() in files["llms-full.txt"]
