"""The chart comes to documents that fit together and to settings that exist."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from anabranch.cli.entry import application
from anabranch.engine.rules.graph.priorities import HIGH, NORMAL
from anabranch.settings import Settings, environment_name
from anabranch.transport.rabbitmq_transport import _jobs_queue
from tests.deploy.chart import CHART, rendered

EXECUTORS = {
    "enabled": True, "queues": ["anabranch.jobs.gpu"], "minReplicas": 1, "maxReplicas": 10, "jobsPerExecutor": 64,
}  # fmt: skip
ALL = {
    "autoscaling": {"enabled": True, "executors": EXECUTORS},
    "executor": {"enabled": True},
    "monitoring": {"enabled": True, "metricsKey": True},
}
# The oldest that the chart is for: Helm may be older than the cluster.
KUBERNETES = "1.27.0"
DATABASE = {"ANABRANCH_DATABASE_URL": "postgresql://anabranch@db/anabranch"}


@pytest.fixture(scope="module")
def documents() -> dict[str, dict[str, Any]]:
    """By kind and name."""
    made = rendered(**ALL, imports=["app.py"], settings={"ANABRANCH_LOG_LEVEL": "info"})
    return {f"{each['kind']} {each['metadata']['name']}": each for each in made}


def pods(documents: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Metadata and spec of everything that runs."""
    return [each["spec"]["template"] for each in documents.values() if each["kind"] in ("Deployment", "Job")]


def test_it_has_servers_workers_executors_a_migration_budgets_scaling_and_monitoring(documents: dict[str, Any]) -> None:
    assert set(documents) == {
        "Deployment flows-server",
        "Deployment flows-worker",
        "Deployment flows-executor",
        "Job flows-migrate",
        "Service flows-server",
        "PodDisruptionBudget flows-server",
        "PodDisruptionBudget flows-worker",
        "PodDisruptionBudget flows-executor",
        "ScaledObject flows-worker",
        "ScaledObject flows-executor",
        "TriggerAuthentication flows-broker",
        "PodMonitor flows",
    }
    plain = {each["kind"] for each in rendered(migrations={"enabled": False})}
    assert plain == {"Deployment", "Service", "PodDisruptionBudget"}


def test_commands_and_settings_exist(documents: dict[str, Any], tmp_path: Path) -> None:
    fields = {environment_name(name) for name in Settings.model_fields}
    for pod in pods(documents):
        (container,) = pod["spec"]["containers"]
        name, *arguments = container["args"]
        known = {option for parameter in application.commands[name].params for option in parameter.opts}
        assert {each for each in arguments if each.startswith("--")} <= known
        given = {each["name"]: each["value"] for each in container["env"]}
        assert given.keys() <= fields
        Settings.load(environ={**given, **DATABASE}, folder=tmp_path)
        secret = "anabranch-executor" if name == "executor" else "anabranch"
        assert container["envFrom"] == [{"secretRef": {"name": secret}}], "an executor has no database"
        assert pod["spec"]["enableServiceLinks"] is False, "their variables would be unknown settings"


def test_pods_have_probes_and_more_time_to_stop_than_a_process_takes(documents: dict[str, Any]) -> None:
    for kind in ("server", "worker"):
        spec = documents[f"Deployment flows-{kind}"]["spec"]["template"]["spec"]
        (container,) = spec["containers"]
        env = {each["name"]: each["value"] for each in container["env"]}
        assert f"{spec['terminationGracePeriodSeconds'] - 10}s" == env["ANABRANCH_GRACE"]
        assert [container[f"{each}Probe"]["httpGet"]["path"] for each in ("startup", "liveness", "readiness")] == [
            "/healthz",
            "/healthz",
            "/readyz",
        ]
        (port,) = container["ports"]
        assert str(port["containerPort"]) == env["ANABRANCH_PORT" if kind == "server" else "ANABRANCH_METRICS_PORT"]
        assert env["ANABRANCH_HOST"] == "0.0.0.0"  # within a pod


def test_pods_have_no_rights(documents: dict[str, Any]) -> None:
    for pod in pods(documents):
        (container,) = pod["spec"]["containers"]
        assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
        assert pod["spec"]["automountServiceAccountToken"] is False
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {each["mountPath"] for each in container["volumeMounts"]} == {"/data", "/tmp"}
        assert {each["name"] for each in container["volumeMounts"]} == {each["name"] for each in pod["spec"]["volumes"]}


def test_what_selects_pods_finds_them(documents: dict[str, Any]) -> None:
    for kind in ("server", "worker", "executor"):
        deployment = documents[f"Deployment flows-{kind}"]["spec"]
        labels = deployment["template"]["metadata"]["labels"].items()
        budget = documents[f"PodDisruptionBudget flows-{kind}"]["spec"]
        assert deployment["selector"]["matchLabels"] == budget["selector"]["matchLabels"]
        assert deployment["selector"]["matchLabels"].items() <= labels
        assert documents["PodMonitor flows"]["spec"]["selector"]["matchLabels"].items() <= labels
        for other in {"server", "worker", "executor"} - {kind}:
            others = documents[f"Deployment flows-{other}"]["spec"]["template"]["metadata"]["labels"]
            assert not deployment["selector"]["matchLabels"].items() <= others.items()
    assert documents["Service flows-server"]["spec"]["selector"].items() <= (
        documents["Deployment flows-server"]["spec"]["template"]["metadata"]["labels"].items()
    )


def test_workers_are_scaled_by_what_nobody_has_taken_over(documents: dict[str, Any]) -> None:
    scaled = documents["ScaledObject flows-worker"]["spec"]
    assert scaled["scaleTargetRef"]["name"] == "flows-worker"
    assert scaled["triggers"][0]["metadata"]["query"] == "max(workflow_pending{})"
    assert "replicas" not in documents["Deployment flows-worker"]["spec"], "an upgrade would undo what was scaled"
    (plain,) = (
        each for each in rendered() if each["metadata"]["name"] == "flows-worker" and "template" in each["spec"]
    )
    assert plain["spec"]["replicas"] == 2


def test_executors_are_scaled_by_the_queues_of_their_pools(documents: dict[str, Any]) -> None:
    scaled = documents["ScaledObject flows-executor"]["spec"]
    assert scaled["scaleTargetRef"]["name"] == "flows-executor"
    (trigger,) = scaled["triggers"]
    assert (trigger["type"], trigger["metadata"]["queueName"]) == ("rabbitmq", _jobs_queue("gpu", NORMAL))
    access = documents[f"TriggerAuthentication {trigger['authenticationRef']['name']}"]["spec"]["secretTargetRef"]
    assert access == [{"parameter": "host", "name": "anabranch-executor", "key": "ANABRANCH_BROKER_URL"}]
    assert environment_name("broker_url") == access[0]["key"]
    assert "replicas" not in documents["Deployment flows-executor"]["spec"]
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    pool, queues = defaults["executor"]["pools"], defaults["autoscaling"]["executors"]["queues"]
    assert queues == [_jobs_queue(pool, priority) for priority in (NORMAL, HIGH)]


def test_prometheus_sends_the_key_of_the_metrics_if_there_is_one(documents: dict[str, Any]) -> None:
    (endpoint,) = documents["PodMonitor flows"]["spec"]["podMetricsEndpoints"]
    assert endpoint["authorization"]["credentials"] == {"name": "anabranch", "key": environment_name("metrics_key")}
    (plain,) = (each for each in rendered(monitoring={"enabled": True}) if each["kind"] == "PodMonitor")
    assert "authorization" not in plain["spec"]["podMetricsEndpoints"][0]


def test_the_database_is_migrated_before_the_processes_start(documents: dict[str, Any]) -> None:
    job = documents["Job flows-migrate"]
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
    assert job["spec"]["template"]["spec"]["containers"][0]["args"] == ["migrate"]


def helm() -> str:
    program = shutil.which("helm")
    if program is None:
        pytest.skip("no helm on the PATH")
    return program


def test_helm_finds_no_fault() -> None:
    done = subprocess.run([helm(), "lint", "--strict", str(CHART)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("values", [ALL | {"imports": ["app.py"], "settings": {"ANABRANCH_LOG_LEVEL": "info"}}, {}])
def test_helm_comes_to_the_documents_that_are_tested_here(values: dict[str, Any], tmp_path: Path) -> None:
    chosen = tmp_path / "values.yaml"
    chosen.write_text(yaml.safe_dump(values))
    command = [helm(), "template", "flows", str(CHART), "--kube-version", KUBERNETES, "--values", str(chosen)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    theirs = [each for each in yaml.safe_load_all(done.stdout) if each]
    assert sorted(theirs, key=_name_of) == sorted(rendered(**values), key=_name_of)


def _name_of(document: dict[str, Any]) -> str:
    return f"{document['kind']} {document['metadata']['name']}"


def test_the_values_fit_their_schema_which_refuses_others() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    validator = jsonschema.Draft7Validator(schema)
    assert [error.message for error in validator.iter_errors(values)] == []
    no_pool = {**values["autoscaling"]["executors"], "queues": ["gpu"]}
    for wrong in (
        {"autoscaling": {**values["autoscaling"], "executors": no_pool}},
        {"sever": {}},
        {"settings": {"PATH": "/bin"}},
        {"graceSeconds": "30s"},
    ):
        assert list(validator.iter_errors({**values, **wrong}))
