"""A page of commands, taken apart: files that it tells its reader to save, commands, and what it shows below each.

Called by the tests beside it. A block whose language is followed by a name is a file. In a `console` block `$ ` begins
a command, `> ` goes on with it, and every other line is what the command prints.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

# What the page writes for ids and times, and for what would be too long.
ANYTHING = "…"

_BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass
class Step:
    """A command, and the lines that are shown below it."""

    command: str
    shown: list[str] = field(default_factory=list)

    @property
    def compared(self) -> list[re.Pattern[str]]:
        """What each of the lines must look like."""
        return [re.compile(".*".join(re.escape(part) for part in line.split(ANYTHING))) for line in self.shown]


def steps_of(text: str) -> list[Step]:
    """Everything that a reader does, in order; a file is saved by a command, too."""
    steps: list[Step] = []
    for language, name, content in _BLOCK.findall(text):
        if name:
            steps.append(_saving(name, content))
        elif language == "console":
            steps += typing_of(content)
    return steps


def files_of(text: str) -> list[Step]:
    """Only the files."""
    return [_saving(name, content) for _, name, content in _BLOCK.findall(text) if name]


def _saving(name: str, content: str) -> Step:
    return Step(f"cat > {name} <<'END OF FILE'\n{content}END OF FILE")


def typing_of(block: str) -> list[Step]:
    """The commands of a `console` block."""
    steps: list[Step] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            steps.append(Step(line.removeprefix("$ ")))
        elif line.startswith("> "):
            steps[-1].command += "\n" + line.removeprefix("> ")
        else:
            steps[-1].shown.append(line)
    return steps
