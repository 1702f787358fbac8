"""`deploy/compose.yaml` says what the product understands."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from anabranch.cli.entry import application
from anabranch.settings import ENVIRONMENT_PREFIX, Settings, environment_name

DEPLOY = Path(__file__).parents[2] / "deploy"


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    composed = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    assert set(composed) == {"name", "x-anabranch", "x-broker", "x-settings", "services", "volumes"}
    assert set(composed["services"]) == {"postgres", "rabbitmq", "migrate", "server", "worker", "executor"}
    for service in composed["services"].values():
        for volume in service.get("volumes", ()):
            assert volume.split(":")[0] in composed["volumes"]
        assert set(service.get("depends_on", ())) <= set(composed["services"])
    return dict(composed["services"])


def test_every_setting_exists_and_takes_its_value(services: dict[str, Any], tmp_path: Path) -> None:
    fields = {environment_name(name): name for name in Settings.model_fields}
    for name in ("migrate", "server", "worker", "executor"):
        service = services[name]
        given = {
            name: re.sub(r"\$\{[A-Z]+_PASSWORD[^}]*\}", "secret", value)
            for name, value in service["environment"].items()
            if name != "ANABRANCH_SECRET_KEY"  # of the user's .env alone
        }
        assert {*service["environment"]} <= fields.keys()
        settings = Settings.load(environ=given, folder=tmp_path)
        if name == "executor":
            assert "ANABRANCH_DATABASE_URL" not in given and "ANABRANCH_SECRET_KEY" not in service["environment"]
        else:
            assert settings.database_url == "postgresql://anabranch:secret@postgres/anabranch"
        if name in ("worker", "executor"):
            assert settings.broker_url is not None
            assert settings.broker_url.get_secret_value() == "amqp://anabranch:secret@rabbitmq/"


def test_the_broker_keeps_its_queues_and_has_the_user_of_the_processes(services: dict[str, Any]) -> None:
    broker = services["rabbitmq"]
    assert broker["environment"]["RABBITMQ_DEFAULT_USER"] == "anabranch"
    assert broker["hostname"] == "rabbitmq", "its files are named by it"
    assert services["executor"]["depends_on"] == {"rabbitmq": {"condition": "service_healthy"}}


@pytest.mark.skipif(
    subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode != 0
    if shutil.which("docker")
    else True,
    reason="docker compose is not installed",
)
def test_docker_compose_takes_the_file() -> None:
    given = {"POSTGRES_PASSWORD": "a", "RABBITMQ_PASSWORD": "b", "ANABRANCH_SECRET_KEY": "c"}
    command = ["docker", "compose", "--file", str(DEPLOY / "compose.yaml"), "config", "--quiet"]
    done = subprocess.run(command, env={**os.environ, **given}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_command_exists(services: dict[str, Any]) -> None:
    for service in (services[each] for each in ("migrate", "server", "worker", "executor")):
        name, *options = service["command"]
        known = {option for parameter in application.commands[name].params for option in parameter.opts}
        assert {each for each in options if each.startswith("--")} <= known


def test_both_processes_are_of_one_image_and_stop_in_order(services: dict[str, Any]) -> None:
    for service in (services["server"], services["worker"]):
        build = service["build"]
        assert (DEPLOY / build["context"] / build["dockerfile"]).resolve() == DEPLOY / "Dockerfile"
        assert int(service["stop_grace_period"].removesuffix("s")) * 1000 > Settings().grace_ms
        assert service["depends_on"] == {"migrate": {"condition": "service_completed_successfully"}}
        assert service["deploy"] == {"replicas": 2}
    assert services["migrate"]["depends_on"] == {"postgres": {"condition": "service_healthy"}}


def test_the_healthcheck_asks_where_the_processes_answer(services: dict[str, Any]) -> None:
    named = set(re.findall(rf'"({ENVIRONMENT_PREFIX}\w+)"', (DEPLOY / "healthcheck.py").read_text()))
    assert named == {"ANABRANCH_METRICS_PORT", "ANABRANCH_PORT", "ANABRANCH_ALLOWED_HOSTS"}
    assert named <= {environment_name(name) for name in Settings.model_fields}
    assert f'"{Settings().port}"' in (DEPLOY / "healthcheck.py").read_text()
    assert services["server"]["ports"] == [f"127.0.0.1:{Settings().port}-{Settings().port + 1}:{Settings().port}"]
    assert "ANABRANCH_METRICS_PORT" in services["worker"]["environment"]
