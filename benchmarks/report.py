"""Puts the figures of the last runs into `README.md`: tables, and charts beside it.

    python -m benchmarks.report

Reads the files in `results`, replaces what stands between the marks
of each in `README.md`, and writes `charts/*.svg`. No figure there is typed by hand.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks import canvas, durable, loads, pools
from benchmarks.charts import line_chart
from benchmarks.databases import BACKENDS
from benchmarks.engine import LABELS, RATIOS
from benchmarks.growth import COLUMNS, Grown, table, verdict
from benchmarks.measured import RESULTS, Measured, read
from benchmarks.series import SERIES, Series

README = Path(__file__).with_name("README.md")
README_OF_PEERS = Path(__file__).parent / "peers" / "README.md"
CHARTS = Path(__file__).with_name("charts")

MEASURED = ("engine", "service", "durable", "growth", "canvas")
"""What is measured and rendered: modules, and the names of their results."""


def main() -> None:
    """Render all result files."""
    engine, service, coded, growth, drawn = (read(RESULTS / f"{name}.json") for name in MEASURED)
    text = README.read_text(encoding="utf-8")
    text = between_marks(text, "engine", engine_section(engine))
    text = between_marks(text, "service", service_section(service))
    text = between_marks(text, "durable", durable_section(coded))
    text = between_marks(text, "growth", growth_section(growth))
    text = between_marks(text, "canvas", canvas_section(drawn))
    README.write_text(text, encoding="utf-8")
    # These take long or need a broker, and are measured apart.
    more, peers, jobs = RESULTS / "loads.json", RESULTS / "peers.json", RESULTS / "pools.json"
    if jobs.exists():
        text = between_marks(README.read_text(encoding="utf-8"), "pools", pools_section(read(jobs)))
        README.write_text(text, encoding="utf-8")
    if more.exists():
        text = between_marks(README.read_text(encoding="utf-8"), "loads", loads_section(read(more)))
        README.write_text(text, encoding="utf-8")
    if peers.exists():
        text = between_marks(README_OF_PEERS.read_text(encoding="utf-8"), "peers", peers_section(read(peers)))
        README_OF_PEERS.write_text(text, encoding="utf-8")
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
    there = measured.figures[BACKENDS[0]].keys()
    rows = [_row(measured, key, label, goal) for key, (label, goal) in LABELS.items() if key in there]
    ratios = [(key, *told) for key, told in RATIOS.items() if key in there]
    rows += [_row(measured, key, f"**{label}**", f"**{goal}**") for key, label, goal in ratios]
    return _by_database(measured, rows)


def durable_section(measured: Measured) -> str:
    """The same for coded workflows."""
    return _by_database(measured, [_row(measured, key, *told) for key, told in durable.LABELS.items()])


def service_section(measured: Measured) -> str:
    """Where the figures come from, and a line for each database and number of clients."""
    head = ["", "starts/s", "of the bare server", "its share", "99th percentile ms", "processor ms a start"]
    rows = [[*head, "of the bare server"]]
    for backend in BACKENDS:
        for clients, rates in measured.figures[backend]["clients"].items():
            share = rates["starts_per_s"] / rates["bound_starts_per_s"]
            figures = (rates["starts_per_s"], rates["bound_starts_per_s"], share, rates["p99_ms"], rates["cpu_ms"])
            name = f"{backend}, {clients} client{'s' if clients != '1' else ''}"
            rows.append([name, *map(_number, figures), _number(rates["bound_cpu_ms"])])
    ends = " and ".join(f"{_number(measured.figures[backend]['runs_per_s'])} on {backend}" for backend in BACKENDS)
    rounds, starts = measured.setup["rounds"], measured.setup["starts"]
    origin = f"{_origin(measured)} Medians of {rounds} round{'s' if rounds > 1 else ''} with {starts:,} starts."
    return f"{origin}\n\n{markdown(rows)}\n\nRuns a second from start to end, by one process: {ends}."


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


def canvas_section(measured: Measured) -> str:
    """Where the figures come from, and what they are to reach."""
    rounds, seconds = measured.setup["rounds"], measured.setup["seconds"]
    rows = [
        [f"`{name}`", _number(figure), canvas.GOALS.get(name, ("", None))[0]]
        for name, figure in measured.figures.items()
    ]
    told = f"{_origin(measured)} Medians of {rounds} round{'s' if rounds > 1 else ''} of {seconds:g} s."
    return f"{told}\n\n{markdown([['', 'found', 'goal'], *rows])}"


def loads_section(measured: Measured) -> str:
    """Where the figures come from, and the figures."""
    rows = [[label, *(_number(measured.figures[backend][key]) for backend in BACKENDS)]
            for key, label in loads.LABELS.items()]  # fmt: skip
    rounds, seconds = measured.setup["rounds"], measured.setup["sustained_s"]
    told = f"{_origin(measured)} Medians of {rounds} rounds; sustained for {seconds:,.0f} s."
    return f"{told}\n\n{markdown([['', *BACKENDS], *rows])}"


def pools_section(measured: Measured) -> str:
    """Where the figures come from, and the figures."""
    rows = [["", "", "goal"]]
    rows += [[label, _number(measured.figures[key]), goal] for key, (label, goal) in pools.LABELS.items()]
    rounds, jobs = measured.setup["rounds"], measured.setup["jobs"]
    return f"{_origin(measured)} Medians of {rounds} rounds with {jobs:,} jobs.\n\n{markdown(rows)}"


def peers_section(measured: Measured) -> str:
    """A line for each program on each database, and how often ours is as fast."""
    rows = [["", "steps/s", "ours coded", "ours drawn", "starts/s", "a run alone, ms", "processor ms a step"]]
    for backend in BACKENDS:
        own = measured.figures[backend].get("anabranch")
        for name, row in measured.figures[backend].items():
            told = f"{backend}, {name} {measured.setup['versions'][name]}"
            rest = [_known(row, key) for key in ("starts_per_s", "lone_p50_ms", "cpu_ms_per_step")]
            if row is own:
                drawn = [_number(row["effect_nodes_per_s"]), "", "", "", "", _number(row["cpu_ms_per_effect_node"])]
                rows += [[f"{told}, coded", _number(row["steps_per_s"]), "", "", *rest], [f"{told}, drawn", *drawn]]
            else:
                ratios = [] if own is None else [own["steps_per_s"], own["effect_nodes_per_s"]]
                times = [f"{_number(mine / row['steps_per_s'])} ×" for mine in ratios] or ["", ""]
                rows.append([told, _number(row["steps_per_s"]), *times, *rest])
    setup = measured.setup
    return f"{_origin(measured)} Medians of {setup['rounds']} rounds with {setup['runs']:,} runs.\n\n{markdown(rows)}"


def _known(row: Mapping[str, float], key: str) -> str:
    """A figure; nothing where it was not measured yet."""
    return _number(row[key]) if key in row else ""


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


def _by_database(measured: Measured, rows: Sequence[Sequence[str]]) -> str:
    rounds, instances = measured.setup["rounds"], measured.setup["instances"]
    told = f"{_origin(measured)} Medians of {rounds} rounds with {instances:,} runs."
    return f"{told}\n\n{markdown([['', *BACKENDS, 'goal'], *rows])}"


def _row(measured: Measured, key: str, label: str, goal: str) -> list[str]:
    figures: Mapping[str, Mapping[str, float]] = measured.figures
    return [label, *(_known(figures[backend], key) for backend in BACKENDS), goal]


def _number(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2g}" if value < 0.1 else f"{value:.2f}"


def _origin(measured: Measured) -> str:
    load = f"load average {measured.load:g} at the end"
    return f"`{measured.command}`, {measured.measured_at}; {measured.machine}; {load}."


if __name__ == "__main__":
    main()
