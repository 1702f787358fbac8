"""Small pictures of graphs, as SVG: cards, their names, and the edges between them.

Pure: the same graph always gives the same text. Colours are those that read well on light and on dark pages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from anabranch.gallery.layered_layout import Position, edges_of, lay_out

# Of a card, and around all of them.
WIDTH, HEIGHT, MARGIN = 216, 64, 16

# The distance of edges that lead back, below the cards.
BELOW = 32

# By what a node does: the stripe at the left of its card.
_COLOURS = {
    "start": "#2f9e63",
    "end": "#2f9e63",
    "stopWithError": "#d64545",
    "condition": "#c07f12",
    "switch": "#c07f12",
    "loop": "#c07f12",
    "cursor": "#c07f12",
    "waitForEvent": "#8a5cd6",
    "delay": "#8a5cd6",
    "httpRequest": "#2f7fd6",
    "dataQuery": "#2f7fd6",
    "step": "#2f7fd6",
}
_OTHER = "#6b7a8c"
_LINE = "#8a94a3"

# Longer names end with an ellipsis: so many characters fit on a card.
_CHARACTERS = 24


def draw(document: Mapping[str, Any]) -> str:
    """The picture of a workflow document, or of nodes and edges like those of one."""
    nodes = document["nodes"]
    ids = [node["id"] for node in nodes]
    edges = edges_of(document)
    layout = lay_out(ids, edges)
    at = layout.positions
    back = [edge for edge in edges if at[edge[1]][0] <= at[edge[0]][0]]
    lowest = max(y for _, y in (*at.values(), *(point for way in layout.ways.values() for point in way)))
    lowest += MARGIN + HEIGHT
    width = max(x for x, _ in at.values()) + WIDTH + 2 * MARGIN
    height = lowest + MARGIN + BELOW * len(back)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        ' font-family="system-ui, sans-serif" font-size="14">'
    ]
    for source, target in edges:
        if (source, target) in back:
            lowest += BELOW
            lines.append(_edge_back(at[source], at[target], lowest))
        else:
            lines.append(_edge([at[source], *layout.ways.get((source, target), ()), at[target]]))
    for node in nodes:
        lines += _card(node, *at[node["id"]])
    return "\n".join([*lines, "</svg>", ""])


def _card(node: Mapping[str, Any], x: int, y: int) -> Iterator[str]:
    colour = _COLOURS.get(node["type"], _OTHER)
    name = str(node.get("name") or node["id"])
    shown = name if len(name) <= _CHARACTERS else f"{name[: _CHARACTERS - 1].rstrip()}…"
    left, top = x + MARGIN, y + MARGIN
    yield (
        f'<rect x="{left}" y="{top}" width="{WIDTH}" height="{HEIGHT}" rx="10" fill="#ffffff" stroke="{_LINE}"/>'
        f'<rect x="{left}" y="{top + 10}" width="5" height="{HEIGHT - 20}" fill="{colour}"/>'
    )
    yield f'<text x="{left + 18}" y="{top + 28}" fill="#1d2430" font-weight="600">{escape(shown)}</text>'
    yield f'<text x="{left + 18}" y="{top + 48}" fill="#5a6675" font-size="12">{escape(node["type"])}</text>'


def _edge(points: Sequence[Position]) -> str:
    """From card to card, straight through the points between."""
    x, y = points[0][0] + MARGIN + WIDTH, points[0][1] + MARGIN + HEIGHT // 2
    path = f"M{x} {y}"
    for point in points[1:]:
        left, middle = point[0] + MARGIN, point[1] + MARGIN + HEIGHT // 2
        path += f"C{x + 44} {y} {left - 44} {middle} {left} {middle}"
        x, y = left + WIDTH, middle
        if point is not points[-1]:
            path += f"H{x}"
    return f'<path d="{path}" fill="none" stroke="{_LINE}" stroke-width="2"/>'


def _edge_back(source: Position, target: Position, lowest: int) -> str:
    left, right = target[0] + MARGIN + WIDTH // 2, source[0] + MARGIN + WIDTH // 2
    top = source[1] + MARGIN + HEIGHT
    path = f"M{right} {top}V{lowest}H{left}V{target[1] + MARGIN + HEIGHT}"
    return f'<path d="{path}" fill="none" stroke="{_LINE}" stroke-width="2" stroke-dasharray="6 4"/>'
