"""Alerts and the dashboard use metrics that exist, and each alert has a section that says what to do."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.reference.observing_pages import metrics

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy" / "monitoring" / "alerts.yaml"
DASHBOARD = ROOT / "deploy" / "monitoring" / "dashboard.json"
RUNBOOKS = (ROOT / "docs" / "operations.md").read_text()

_METRIC = re.compile(r"\b(?:anabranch|workflow)_[a-z0-9_]+\b")
_LABELLED = re.compile(r"((?:anabranch|workflow)_[a-z0-9_]+)\{([^}]*)\}")
_GROUPED = re.compile(r"\bby \(([^)]*)\)")
_SUFFIXES = ("_bucket", "_sum", "_count")

# Of Prometheus itself, not of one metric.
_OF_EVERY_METRIC = {"instance", "job", "le"}

LABELS: dict[str, set[str]] = {name: set(labels) for name, _, labels, _ in metrics()}


def alerts() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def expressions() -> Iterator[tuple[str, str]]:
    """Where an expression is used, and the expression."""
    for alert in alerts():
        yield alert["alert"], alert["expr"]
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


def metric_of(name: str) -> str:
    """The metric that a series belongs to: a histogram has several."""
    if name in LABELS:
        return name
    return next((name.removesuffix(each) for each in _SUFFIXES if name.endswith(each)), name)


@pytest.mark.parametrize(("place", "expression"), [pytest.param(*each, id=each[0]) for each in expressions()])
def test_an_expression_names_metrics_and_labels_that_are_exported(place: str, expression: str) -> None:
    named = {metric_of(name) for name in _METRIC.findall(expression)}
    assert named <= LABELS.keys()
    known = _OF_EVERY_METRIC.union(*(LABELS[name] for name in named))
    for labels in _GROUPED.findall(expression):
        assert set(labels.split(", ")) <= known
    for name, conditions in _LABELLED.findall(expression):
        asked = {condition.split("=")[0].strip("!~ ") for condition in conditions.split(",")}
        assert asked <= LABELS[metric_of(name)] | _OF_EVERY_METRIC


def test_the_dashboard_shows_every_metric_that_a_person_watches() -> None:
    shown = {metric_of(name) for _, expression in expressions() for name in _METRIC.findall(expression)}
    assert LABELS.keys() - shown <= {
        "anabranch_loop_blocked_total",
        "anabranch_stored_values",
        "workflow_runs_in_flight",
    }


def test_each_alert_has_a_runbook_and_each_runbook_its_alert() -> None:
    section = RUNBOOKS[RUNBOOKS.index("## When an alert fires") :]
    section = section.split("\n## ")[0]
    headings = re.findall(r"^### (Anabranch\w+)$", section, re.MULTILINE)
    assert headings == [alert["alert"] for alert in alerts()]
    for alert in alerts():
        assert alert["annotations"]["runbook"] == f"docs/operations.md#{alert['alert'].lower()}"
        assert alert["annotations"]["summary"] and alert["labels"]["severity"] in ("critical", "warning")


def test_prometheus_reads_the_rules() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("no promtool on the PATH; install Debian's prometheus")
    done = subprocess.run([promtool, "check", "rules", RULES], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_panels_have_places_of_their_own() -> None:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    positions = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}
    assert len(positions) == len({panel["id"] for panel in panels}) == len(panels)
