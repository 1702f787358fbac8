"""Line charts as SVG, without any dependency: two axes, one or both of them logarithmic, a line a database.

Called by `report`. The picture has no background, and colours that are read on white and on
black; where the viewer tells whether it is dark, the text follows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 620, 320
LEFT, RIGHT, TOP, BOTTOM = 74, 120, 40, 54

# Blue and orange, apart for the colour-blind too; the marks differ in shape as well.
COLOURS = ("#3b82c4", "#d9730d")

_STYLE = """
text { font: 12px system-ui, sans-serif; fill: #444; }
.title { font-size: 14px; font-weight: 600; }
.grid { stroke: #8885; stroke-width: 1; }
.axis { stroke: #888; stroke-width: 1; }
@media (prefers-color-scheme: dark) { text { fill: #ccc; } }
"""

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Axis:
    """One direction: what it shows, and how a value becomes a place between 0 and 1."""

    label: str
    low: float
    high: float
    logarithmic: bool
    ticks: Sequence[float]

    def share(self, value: float) -> float:
        """Where a value lies, 0 at the low end and 1 at the high end; below a logarithmic axis: 0."""
        if not self.logarithmic:
            return (value - self.low) / (self.high - self.low)
        value = max(value, self.low)
        return (math.log10(value) - math.log10(self.low)) / (math.log10(self.high) - math.log10(self.low))


def line_chart(title: str, x_label: str, y_label: str, lines: Mapping[str, Points], *, log_x: bool) -> str:
    """An SVG document: one line for each name, from 0 upwards."""
    xs = [x for points in lines.values() for x, _ in points]
    x_axis = logarithmic_axis(x_label, xs) if log_x else counted_axis(x_label, xs)
    y_axis = linear_axis(y_label, [y for points in lines.values() for _, y in points])
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'role="img" aria-label="{escape(title, {chr(34): "&quot;"})}">',
        f"<style>{_STYLE}</style>",
        _text(LEFT, 20, title, css="title"),
        *_grid(x_axis, y_axis),
    ]
    names_at: list[float] = []
    for number, (name, points) in enumerate(lines.items()):
        positions = [(_x(x_axis, x), _y(y_axis, y)) for x, y in points]
        parts += _line(positions, COLOURS[number % len(COLOURS)], square=bool(number % 2))
        at = positions[-1][1] + 4
        while any(abs(at - other) < 15 for other in names_at):
            at += 15  # two lines that end together have their names below each other
        names_at.append(at)
        parts.append(_text(positions[-1][0] + 10, at, name))
    return "\n".join([*parts, "</svg>", ""])


def linear_axis(label: str, values: Iterable[float]) -> Axis:
    """From 0 to a round number above the largest value."""
    largest = max(values, default=0) or 1
    step = 10 ** math.floor(math.log10(largest))
    step = next(one for one in (step / 5, step / 2, step, step * 2) if largest / one <= 6)
    steps = math.ceil(largest / step)
    return Axis(label, 0, steps * step, logarithmic=False, ticks=[number * step for number in range(steps + 1)])


def logarithmic_axis(label: str, values: Iterable[float]) -> Axis:
    """Powers of ten around the values; a zero stands at the low end, one power below the rest."""
    known = list(values)
    positive = [value for value in known if value > 0] or [1.0]
    low = math.floor(math.log10(min(positive))) - (min(known, default=1) <= 0)
    high = max(math.ceil(math.log10(max(positive))), low + 1)
    return Axis(label, 10.0**low, 10.0**high, logarithmic=True, ticks=[10.0**power for power in range(low, high + 1)])


def counted_axis(label: str, values: Iterable[float]) -> Axis:
    """The values themselves, which are few, with a little room on both sides."""
    known = sorted(set(values))
    room = (known[-1] - known[0]) * 0.1 or 0.5
    return Axis(label, known[0] - room, known[-1] + room, logarithmic=False, ticks=known)


def short(value: float) -> str:
    """A number in few characters: 1.5 k, 20 M."""
    for size, letter in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def _grid(x_axis: Axis, y_axis: Axis) -> list[str]:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    parts = []
    for tick in y_axis.ticks:
        y = _y(y_axis, tick)
        parts.append(f'<line class="grid" x1="{LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}"/>')
        parts.append(_text(LEFT - 8, y + 4, short(tick), anchor="end"))
    for tick in x_axis.ticks:
        x = _x(x_axis, tick)
        parts.append(f'<line class="axis" x1="{x:.1f}" y1="{bottom}" x2="{x:.1f}" y2="{bottom + 5}"/>')
        parts.append(_text(x, bottom + 20, short(tick), anchor="middle"))
    parts.append(f'<line class="axis" x1="{LEFT}" y1="{bottom}" x2="{right}" y2="{bottom}"/>')
    parts.append(_text((LEFT + right) / 2, HEIGHT - 12, x_axis.label, anchor="middle"))
    middle = (TOP + bottom) / 2
    parts.append(
        f'<text text-anchor="middle" transform="translate(18 {middle:.1f}) rotate(-90)">{escape(y_axis.label)}</text>'
    )
    return parts


def _line(positions: Points, colour: str, *, square: bool) -> list[str]:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in positions)
    parts = [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>']
    for x, y in positions:
        if square:
            parts.append(f'<rect x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8" fill="{colour}"/>')
        else:
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="{colour}"/>')
    return parts


def _text(x: float, y: float, words: str, *, anchor: str = "start", css: str = "") -> str:
    with_class = f' class="{css}"' if css else ""
    return f'<text{with_class} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def _x(axis: Axis, value: float) -> float:
    return LEFT + axis.share(value) * (WIDTH - LEFT - RIGHT)


def _y(axis: Axis, value: float) -> float:
    return HEIGHT - BOTTOM - axis.share(value) * (HEIGHT - TOP - BOTTOM)
