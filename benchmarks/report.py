"""Puts the figures of the last runs into `README.md`: tables, and charts beside it.

    python -m benchmarks.report

Reads `results/engine.json` and `results/growth.json`, replaces what stands between the marks
of each in `README.md`, and writes `charts/*.svg`. No figure there is typed by hand.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.charts import line_chart
from benchmarks.databases import BACKENDS
from benchmarks.engine import LABELS, RATIOS
from benchmarks.growth import COLUMNS, Grown, table, verdict
from benchmarks.measured import RESULTS, Measured, read
from benchmarks.series import SERIES, Series

README = Path(__file__).with_name("README.md")
CHARTS = Path(__file__).with_name("charts")


def main() -> None:
    """Render both result files."""
    engine, growth = read(RESULTS / "engine.json"), read(RESULTS / "growth.json")
    text = README.read_text(encoding="utf-8")
    text = between_marks(text, "engine", engine_section(engine))
    text = between_marks(text, "growth", growth_section(growth))
    README.write_text(text, encoding="utf-8")
    CHARTS.mkdir(exist_ok=True)
    for series in SERIES:
        if series.name in growth.figures:
            (CHARTS / f"{series.name}.svg").write_text(chart(series, growth.figures[series.name]), encoding="utf-8")
    print(f"wrote {README.name} and {len(growth.figures)} charts")


def between_marks(text: str, name: str, inside: str) -> str:
    """The text with what stands between `<!-- name -->` and `<!-- /name -->` replaced."""
    opening, closing = f"<!-- {name} -->", f"<!-- /{name} -->"
    pattern = re.compile(f"{re.escape(opening)}.*?{re.escape(closing)}", re.DOTALL)
    if not pattern.search(text):
        raise ValueError(f"the marks {opening} … {closing} are not in the text: put them where the figures belong")
    return pattern.sub(lambda _: f"{opening}\n\n{inside}\n\n{closing}", text)


def engine_section(measured: Measured) -> str:
    """Where the figures come from, and the figures."""
    rows = [["", *BACKENDS, "goal"]]
    rows += [_engine_row(measured, key, label, goal) for key, (label, goal) in LABELS.items()]
    rows += [_engine_row(measured, key, f"**{label}**", f"**{goal}**") for key, (label, goal) in RATIOS.items()]
    rounds, instances = measured.setup["rounds"], measured.setup["instances"]
    return f"{_origin(measured)} Medians of {rounds} rounds with {instances:,} runs.\n\n{markdown(rows)}"


def growth_section(measured: Measured) -> str:
    """A table, a verdict and a chart for each series."""
    rounds = measured.setup["rounds"]
    parts = [f"{_origin(measured)} Medians of {rounds} round{'s' if rounds > 1 else ''}."]
    for series in SERIES:
        grown = measured.figures.get(series.name)
        if grown is not None:
            parts.append(f"### {series.title}\n\n![{series.title}](charts/{series.name}.svg)")
            parts.append(markdown(table(series, grown)))
            words = verdict(series, grown)
            parts += [f"{words[0].upper()}{words[1:]}."] if words else []
    return "\n\n".join(parts)


def chart(series: Series, grown: Grown) -> str:
    """The rate of a series against its size, for both databases."""
    lines = {backend: [(point["x"], point[series.rate]) for point in grown[backend]] for backend in BACKENDS}
    spread = max(series.points) / max(1, min(series.points))
    return line_chart(series.title, series.axis, COLUMNS[series.rate], lines, log_x=spread > 100)


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """A table; the first row has the headings, numbers stand to the right."""
    head, *body = rows
    rule = ["---"] + ["---:"] * (len(head) - 1)
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, rule, *body])


def _engine_row(measured: Measured, key: str, label: str, goal: str) -> list[str]:
    figures: Mapping[str, Mapping[str, float]] = measured.figures
    return [label, *(_number(figures[backend][key]) for backend in BACKENDS), goal]


def _number(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2g}" if value < 0.1 else f"{value:.2f}"


def _origin(measured: Measured) -> str:
    load = f"load average {measured.load:g} at the end"
    return f"`{measured.command}`, {measured.measured_at}; {measured.machine}; {load}."


if __name__ == "__main__":
    main()
