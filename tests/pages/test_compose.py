"""`deploy/compose.yaml` says what the product understands."""

from __future__ import annotations

import re
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
    assert set(composed) == {"name", "x-anabranch", "x-settings", "services", "volumes"}
    assert set(composed["services"]) == {"postgres", "migrate", "server", "worker"}
    return dict(composed["services"])


def test_every_setting_exists_and_takes_its_value(services: dict[str, Any], tmp_path: Path) -> None:
    fields = {environment_name(name): name for name in Settings.model_fields}
    for service in (services["migrate"], services["server"], services["worker"]):
        given = {
            name: re.sub(r"\$\{POSTGRES_PASSWORD[^}]*\}", "secret", value)
            for name, value in service["environment"].items()
            if name != "ANABRANCH_SECRET_KEY"  # of the user's .env alone
        }
        assert {*service["environment"]} <= fields.keys()
        settings = Settings.load(environ=given, folder=tmp_path)
        assert settings.database_url == "postgresql://anabranch:secret@postgres/anabranch"


def test_every_command_exists(services: dict[str, Any]) -> None:
    for service in (services["migrate"], services["server"], services["worker"]):
        name, *options = service["command"]
        known = {option for parameter in application.commands[name].params for option in parameter.opts}
        assert set(options) <= known


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
