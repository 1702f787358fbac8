"""How the site differs from the pages in docs/: navigation, links out of docs/, pictures by theme, llms.txt.

The pages are written for GitHub and for terminals first. mkdocs calls the functions whose names begin with `on_`.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, Protocol

from anabranch.cli.commands.docs_command import INDEX, Topic, topics_of

ROOT = Path(__file__).parent
DOCS = ROOT / "docs"

# In `[project.urls]` of pyproject.toml.
_SOURCE, _SITE = "Source", "Documentation"

_FENCE = re.compile(r"(?ms)^```.*?^```$")
_FENCE_HEAD = re.compile(r"(?m)^```(?P<language>\w+) (?P<file>[\w./-]+\.\w+)?[^\n]*$")
_OUTWARD_LINK = re.compile(r"\[(?P<text>[^\]]*)\]\((?P<target>(?:\.\./)+[^)\s]*)\)")
_LIGHT_PICTURE = re.compile(r"!\[(?P<text>[^\]]*)\]\((?P<path>[^)]*)-light\.png\)")
_LIST_AFTER_TEXT = re.compile(r"(?m)^(?P<text>(?![*-] |\d+\. |\s|\||#|<|$).*\S)\n(?=(?:[*-]|\d+\.) )")


class Page(Protocol):
    """What we read of mkdocs' page."""

    file: Any


def on_config(config: Any) -> Any:
    """The navigation is `docs/index.md`; anchors are those of GitHub."""
    urls = _urls()
    config["repo_url"] = urls.get(_SOURCE)
    config["site_url"] = urls.get(_SITE, "")
    config["mdx_configs"].setdefault("toc", {})["slugify"] = anchor
    topics = topics_of((DOCS / INDEX).read_text(encoding="utf-8"))
    sections = dict.fromkeys(each.section for each in topics)
    config["nav"] = [
        {"Home": INDEX},
        *({section: [{each.title: each.path} for each in topics if each.section == section]} for section in sections),
    ]
    return config


def anchor(heading: str, separator: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", separator)


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """A page of docs/ as the site shows it."""
    place = (DOCS / page.file.src_uri).parent
    return _outside_of_blocks(
        markdown, lambda prose: _with_blank_lines(_by_theme(_links_resolved(prose, place, _urls().get(_SOURCE))))
    )


def on_post_build(config: Any, **_: Any) -> None:
    """llms.txt lists the pages for language models, llms-full.txt has them all in one."""
    site = Path(config["site_dir"])
    for name, text in llms_files(config["site_url"] or "").items():
        (site / name).write_text(text, encoding="utf-8")


def llms_files(site_url: str) -> dict[str, str]:
    """The two files of https://llmstxt.org, by name."""
    index = (DOCS / INDEX).read_text(encoding="utf-8")
    head, about = (part.strip() for part in index.split("\n\n")[:2])
    topics = topics_of(index)
    lines = [head, "", "> " + about.replace("\n", " "), "", "[All pages in one file](llms-full.txt)"]
    for section in dict.fromkeys(each.section for each in topics):
        lines += ["", f"## {section}", ""]
        lines += [
            f"* [{each.title}]({site_url}{_address(each)}): {each.about}" for each in topics if each.section == section
        ]
    pages = [(DOCS / each.path).read_text(encoding="utf-8").strip() for each in topics]
    full = [f"<!-- {each.path} -->\n\n{page}" for each, page in zip(topics, pages, strict=True)]
    return {"llms.txt": "\n".join(lines) + "\n", "llms-full.txt": "\n\n".join([index.strip(), *full]) + "\n"}


def _address(topic: Topic) -> str:
    folder = topic.path.removesuffix(".md").removesuffix("README")
    return folder if folder.endswith("/") else folder + "/"


def _urls() -> dict[str, str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found: dict[str, str] = project.get("urls", {})
    return found


def _outside_of_blocks(markdown: str, change: Any) -> str:
    """Prose is changed; of a code block only its first line, which may name a file or say why it is not run."""
    parts, end = [], 0
    for block in _FENCE.finditer(markdown):
        parts += [change(markdown[end : block.start()]), _FENCE_HEAD.sub(_fence_head, block[0], count=1)]
        end = block.end()
    return "".join([*parts, change(markdown[end:])])


def _fence_head(found: re.Match[str]) -> str:
    return f'```{found["language"]} title="{found["file"]}"' if found["file"] else f"```{found['language']}"


def _links_resolved(prose: str, place: Path, source: str | None) -> str:
    """Links to files outside of docs/ lead to the repository; where none is named, they are plain text."""

    def resolved(found: re.Match[str]) -> str:
        target, _, heading = found["target"].partition("#")
        file = (place / target).resolve()
        if file.is_relative_to(DOCS):
            return found[0]
        if source is None:
            return found["text"]
        return f"[{found['text']}]({source.rstrip('/')}/blob/HEAD/{file.relative_to(ROOT)}{heading and '#' + heading})"

    return _OUTWARD_LINK.sub(resolved, prose)


def _by_theme(prose: str) -> str:
    return _LIGHT_PICTURE.sub(
        lambda found: "".join(
            f"![{found['text']}]({found['path']}-{theme}.png#only-{theme})" for theme in ("light", "dark")
        ),
        prose,
    )


def _with_blank_lines(prose: str) -> str:
    """Python's Markdown begins a list only after a blank line."""
    return _LIST_AFTER_TEXT.sub(r"\g<text>\n\n", prose)
