"""Variables and static data of imported workflows: what the report says, and what is not called exact."""

from __future__ import annotations

import asyncio

import pytest

from anabranch.engine.rules.graph.validate import validate
from anabranch.n8n.kept_data import static_scopes, variables_read
from anabranch.testing import run_workflow
from tests.n8n.drawn import ORDERS, node, set_to
from tests.n8n.test_import import TYPES, imported, made

COUNTS = "const kept = $getWorkflowStaticData('global');\nkept.n = (kept.n ?? 0) + 1;\nreturn [{json: {n: kept.n}}];"


def test_variables_are_read_in_front_of_their_node_and_named_in_the_report() -> None:
    workflow = imported(
        set_to("Fields", url="={{ $env.HOST }}/{{ $vars['PATH'] }}"),
        node("Code", "code", 2, language="python", pythonCode="return [{'json': {'host': _env.HOST}}]"),
    )
    assert workflow.report.status == "exact"
    assert made(workflow, "fields_variables")["config"] == {"names": ["HOST", "PATH"]}
    assert workflow.report.variables == [
        {"name": "HOST", "nodes": ["Fields", "Code"]}, {"name": "PATH", "nodes": ["Fields"]}
    ]  # fmt: skip
    assert "Variables to set:" in list(workflow.report.lines())
    assert validate(workflow.document, TYPES).valid


def test_the_report_says_of_variables_that_seem_to_be_secrets_that_they_are_plain_text() -> None:
    workflow = imported(
        set_to("Fields", a="={{ $env.API_TOKEN }}", b="={{ $vars.smtpPassword }}", c="={{ $env.HOST }}")
    )
    [advice] = [line for line in workflow.report.lines() if "may be secrets" in line]
    assert "API_TOKEN, smtpPassword may be" in advice
    assert workflow.report.status == "exact"
    plain = imported(set_to("Fields", c="={{ $env.HOST }}"))
    assert not [line for line in plain.report.lines() if "may be secrets" in line]


def test_names_that_are_computed_are_read_from_all_variables() -> None:
    workflow = imported(node("Code", "code", 2, jsCode="return [{json: {found: $env[$json.name] ?? 'none'}}];"))
    assert made(workflow, "code_variables")["config"] == {}
    run = asyncio.run(run_workflow(workflow.document, {"n8nItems": [{"name": "HOME"}, {"name": "constructor"}]}))
    assert run.output == {"n8nItems": [{"found": "none"}]}


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("$env.A + $vars['B-1']", ["A", "B-1"]),
        ("$env?.A", ["A"]),
        ("$json.env + $environment", []),
        ("$env[name]", None),
        ("Object.keys($vars)", None),
        ("$env['a b']", None),
    ],
)
def test_which_variables_code_reads(code: str, names: list[str] | None) -> None:
    assert variables_read(code) == names


@pytest.mark.parametrize(
    ("code", "scopes"),
    [
        ("$getWorkflowStaticData('global'); this.getWorkflowStaticData(\"node\")", ["global", "node"]),
        ("getWorkflowStaticData(kind)", None),
        ("const read = $getWorkflowStaticData; read('global')", None),
        ("$execution.getWorkflowStaticData('global')", []),
        ("none", []),
    ],
)
def test_which_static_data_code_reads(code: str, scopes: list[str] | None) -> None:
    assert static_scopes(code) == scopes


def test_nodes_of_branches_that_run_at_the_same_time_and_keep_the_same_data_are_not_exact() -> None:
    beside = imported(
        node("One", "code", 2, jsCode=COUNTS), node("Other", "code", 2, jsCode=COUNTS),
        links=[("Begin", 0, "One", 0), ("Begin", 0, "Other", 0)],
    )  # fmt: skip
    after = imported(node("One", "code", 2, jsCode=COUNTS), node("Other", "code", 2, jsCode=COUNTS))
    apart = imported(
        node("One", "code", 2, jsCode=COUNTS.replace("global", "node")),
        node("Other", "code", 2, jsCode=COUNTS.replace("global", "node")),
        links=[("Begin", 0, "One", 0), ("Begin", 0, "Other", 0)],
    )
    assert [each.status for each in beside.report.nodes] == ["exact", "equal", "equal"]
    assert (after.report.status, apart.report.status) == ("exact", "exact")


def test_code_that_keeps_data_and_fails_keeps_what_it_changed_and_fails_the_run() -> None:
    fails = node("Fails", "code", 2, jsCode=COUNTS.replace("return", "if (kept.n) throw new Error('no');\nreturn"))
    run = asyncio.run(run_workflow(imported(fails).document, {"n8nItems": ORDERS}))
    assert (run.status, run.error and run.error["nodeID"]) == ("FAILED", "fails")
    assert "no" in str(run.error and run.error["message"])
    assert "fails_keep" in run.completed


@pytest.mark.parametrize(
    "settings", [{"retryOnFail": True}, {"onError": "continueErrorOutput", "mode": "runOnceForEachItem"}]
)
def test_what_would_be_another_way_with_kept_data_is_a_placeholder(settings: dict[str, object]) -> None:
    code = node("Code", "code", 2, jsCode=COUNTS, mode=settings.get("mode", "runOnceForAllItems"))
    assert imported({**code, **settings}).report.status == "placeholder"


def test_a_trigger_reads_no_variables() -> None:
    trigger = node("Hook", "webhook", 2, path="={{ $env.PATH }}", httpMethod="POST")
    assert imported(trigger, links=[]).report.status == "placeholder"
