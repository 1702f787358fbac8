"""The picture of the layers in `docs/architecture.md`, drawn from what the layer tests enforce.

    python -m tests.architecture.picture      draws it anew

An arrow is a permitted import. Left out are arrows that follow from others (a way over other components leads
there, too), and those to `EVERYWHERE`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.architecture.layers import LAYERS, MAY_IMPORT

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
BEGIN, END = "<!-- layers: drawn by tests/architecture/picture.py -->\n", "<!-- end of layers -->\n"

# Leaves that anybody may need: arrows to them would hide the others.
EVERYWHERE = ("errors", "deferred", "dataclass", "version", "grace")

# Where the name of a module says little, or means something to Mermaid.
LABELS = {"": "import anabranch", "__main__": "python -m anabranch"}


def drawn() -> str:
    """The diagram, as Mermaid in Markdown."""
    return "\n".join(["```mermaid", "flowchart TD", *_lines(), "```", ""])


def on_the_page() -> str:
    """What `docs/architecture.md` shows."""
    return PAGE.read_text().split(BEGIN)[1].split(END)[0]


def _lines() -> Iterator[str]:
    for number, (layer, components) in enumerate(LAYERS.items()):
        shown = [name for name in components if name not in EVERYWHERE]
        yield f'    subgraph layer_{number}["{layer}"]'
        yield from (f'        {_key(name)}["{LABELS.get(name, name)}"]' for name in shown)
        yield "    end"
    for name, targets in MAY_IMPORT.items():
        for target in targets:
            ways_round = (other for other in targets if other != target and target in _reached_from(other))
            if target not in EVERYWHERE and next(ways_round, None) is None:
                yield f"    {_key(name)} --> {_key(target)}"


def _reached_from(name: str) -> set[str]:
    reached, ahead = set[str](), [name]
    while ahead:
        found = set(MAY_IMPORT[ahead.pop()]) - reached
        reached |= found
        ahead += found
    return reached


def _key(name: str) -> str:
    """An identifier: Mermaid takes no dots and no words of its own."""
    return "c_" + (name.strip("_") or "anabranch").replace(".", "_").replace(" ", "_")


if __name__ == "__main__":
    before, rest = PAGE.read_text().split(BEGIN)
    PAGE.write_text(before + BEGIN + drawn() + END + rest.split(END)[1])
