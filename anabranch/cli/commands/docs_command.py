"""`anabranch docs`: the documentation in the terminal. Needs no database, no server and no network.

The pages are Markdown files that the wheel brings along (`hatch_build.py`); in a clone they are in `docs/`. `index.md`
lists them all: each entry is a topic, named like its file; the second of the same name has its folder in front.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anabranch.cli.options import AsJson
from anabranch.cli.output import print_document, print_line
from anabranch.dataclass import dataclass
from anabranch.deferred import deferred
from anabranch.errors import NotFound

if TYPE_CHECKING:
    import rich.console as rich_console
    import rich.markdown as rich_markdown
else:
    rich_console = deferred("rich.console")
    rich_markdown = deferred("rich.markdown")

_PACKAGE = Path(__file__).parents[2]

# In the wheel, or beside the package in a clone.
FOLDERS = (_PACKAGE / "documentation", _PACKAGE.parent / "docs")

INDEX = "index.md"

# Lines longer than a hundred characters are hard to read, however wide the terminal is.
WIDTH_MAX = 100

# Six letters in ten in common: `sekrets` finds `secrets`, `xyz` finds nothing.
CLOSE = 0.6

NEAR_MAX = 3

_SECTION = re.compile(r"^## (.+)$")
_ENTRY = re.compile(r"^\* \[(?P<title>[^\]]+)\]\((?P<path>[^)]+)\): (?P<about>.+)$")
# The name of the file that a block is saved as: a terminal shows it above the block.
_FILE_OF_BLOCK = re.compile(r"(?m)^```(?P<language>\w+) (?P<file>[\w./-]+\.\w+)$")
_NOT_FOR_TERMINALS = re.compile(r"<!--.*?-->\n?|<picture>.*?</picture>\n?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Topic:
    """A page: an entry of `index.md`."""

    name: str
    title: str
    about: str
    section: str
    path: str


def docs(
    *,
    topic: Annotated[str | None, typer.Argument(metavar="TOPIC", help="A page; without it, all are listed.")] = None,
    as_json: AsJson = False,
) -> None:
    """Read the documentation here: `anabranch docs` lists the topics, `anabranch docs TOPIC` shows one."""
    folder = next((each for each in FOLDERS if (each / INDEX).is_file()), None)
    if folder is None:
        raise NotFound("this installation has no documentation", hint="Install anabranch again, from a wheel.")
    topics = topics_of((folder / INDEX).read_text(encoding="utf-8"))
    if topic is None:
        _list(topics, as_json=as_json)
    else:
        _show(_find(topic, topics), folder, as_json=as_json)


def topics_of(index: str) -> list[Topic]:
    """The entries of `index.md`, in their order."""
    section = ""
    topics: list[Topic] = []
    for line in index.splitlines():
        if found := _SECTION.match(line):
            section = found[1]
        elif found := _ENTRY.match(line):
            path = found["path"]
            file = Path(path)
            name = file.parent.name if file.stem == "README" else file.stem
            if any(each.name == name for each in topics):
                name = f"{file.parent.name}-{name}"
            topics.append(Topic(name, found["title"], found["about"], section, path))
    return topics


def _list(topics: list[Topic], *, as_json: bool) -> None:
    if as_json:
        fields = ("name", "title", "about", "section")
        print_document({"items": [{key: getattr(each, key) for key in fields} for each in topics], "nextCursor": None})
        return
    width = max(len(each.name) for each in topics)
    for section in dict.fromkeys(each.section for each in topics):
        print_line(f"{section}\n")
        for each in topics:
            if each.section == section:
                print_line(f"  {each.name.ljust(width)}  {each.title}")
        print_line("")
    print_line("anabranch docs TOPIC shows one.")


def _find(asked: str, topics: list[Topic]) -> Topic:
    """The topic of this name. Raises NotFound, and names the nearest."""
    by_name = {each.name: each for each in topics}
    path = asked.strip().lower().removesuffix(".md").replace(" ", "-")
    name = path.rpartition("/")[2]
    found = next((each for each in topics if each.path == f"{path}.md"), by_name.get(name))
    if found is not None:
        return found
    near = sorted((each for each in by_name if name and name in each), key=lambda each: not each.startswith(name))
    near += get_close_matches(name, by_name, n=NEAR_MAX, cutoff=CLOSE)
    near += [each.name for each in topics if name and name.replace("-", " ") in f"{each.title} {each.about}".lower()]
    near = list(dict.fromkeys(near))[:NEAR_MAX]
    hint = f"Did you mean {' or '.join(near)}?" if near else "`anabranch docs` lists the topics."
    raise NotFound(f"no topic {asked!r}", hint=hint)


def _show(topic: Topic, folder: Path, *, as_json: bool) -> None:
    text = (folder / topic.path).read_text(encoding="utf-8")
    if as_json:
        print_document({"name": topic.name, "title": topic.title, "section": topic.section, "text": text})
    elif sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
        _page(_drawn(_NOT_FOR_TERMINALS.sub("", text)))
    else:
        sys.stdout.write(_NOT_FOR_TERMINALS.sub("", text))


def _drawn(text: str) -> str:
    """Markdown as a terminal shows it."""
    console = rich_console.Console()
    width = min(console.width, WIDTH_MAX)
    with console.capture() as captured:
        named = _FILE_OF_BLOCK.sub(r"`\g<file>`:\n\n```\g<language>", text)
        console.print(rich_markdown.Markdown(named, hyperlinks=False), width=width)
    return captured.get()


def _page(text: str) -> None:
    """Through the pager of the user, else through `less`, else as it is."""
    chosen = os.environ.get("PAGER", "less")
    command = shlex.split(chosen)
    if not command or shutil.which(command[0]) is None:
        sys.stdout.write(text)
        return
    # less: quit where one screen is enough, keep colours, leave the text on the screen.
    environment = {"LESS": "FRX", **os.environ}
    subprocess.run(command, input=text.encode(), env=environment, check=False)
