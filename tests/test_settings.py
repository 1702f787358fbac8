"""Settings: which of several values wins, and what is refused with which advice."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from anabranch.errors import SettingsError
from anabranch.settings import Settings, environment_name, sentences

KEY = base64.b64encode(bytes(range(32))).decode()


def load(folder: Path, environ: dict[str, str] | None = None, **flags: Any) -> Settings:
    return Settings.load(environ=environ or {}, folder=folder, **flags)


def test_what_one_tenant_may_have_is_half_of_the_limit_for_all_unless_it_is_set() -> None:
    settings = Settings(held_max=7, pending_max=1, unfinished_max=10, unfinished_max_per_tenant=50)
    shares = (settings.held_per_tenant_max, settings.pending_per_tenant_max, settings.unfinished_per_tenant_max)
    assert shares == (4, 1, 10)


def test_metrics_name_drawn_workflows_where_they_ask_for_a_key() -> None:
    assert Settings().shown_names == "coded"
    assert Settings(metrics_key="of-the-operator").shown_names == "all"
    assert Settings(metrics_key="of-the-operator", metrics_names="coded").shown_names == "coded"


def test_without_any_choice_the_defaults_of_the_manual_hold(tmp_path: Path) -> None:
    settings = load(tmp_path)

    assert settings.database_url == "sqlite:///.anabranch/anabranch.db"
    assert (settings.lease_ms, settings.concurrency, settings.crash_limit) == (30_000, 64, 3)
    assert (settings.held_max, settings.pending_max, settings.grace_ms) == (10_000, 100_000, 30_000)
    assert (settings.max_retention_days, settings.auto_migrate, settings.egress_allow) == (365, False, ())


def test_a_flag_beats_the_environment_beats_dotenv_beats_toml(tmp_path: Path) -> None:
    (tmp_path / "anabranch.toml").write_text("port = 1\nconcurrency = 1\nhost = 'toml'\nlease = '1s'\n")
    (tmp_path / ".env").write_text("ANABRANCH_PORT=2\nANABRANCH_CONCURRENCY=2\nANABRANCH_HOST=dotenv\nOTHER=x\n")

    settings = load(tmp_path, {"ANABRANCH_PORT": "3", "ANABRANCH_CONCURRENCY": "3", "PATH": "/bin"}, port=4)

    assert (settings.port, settings.concurrency, settings.host, settings.lease_ms) == (4, 3, "dotenv", 1_000)


def test_a_flag_that_was_not_given_and_an_empty_variable_choose_nothing(tmp_path: Path) -> None:
    assert load(tmp_path, {"ANABRANCH_PORT": ""}, port=None) == load(tmp_path)


@pytest.mark.parametrize(("text", "lease_ms"), [("30s", 30_000), ("2m", 120_000), ("1500", 1_500), ("PT5M", 300_000)])
def test_durations_are_written_as_everywhere(tmp_path: Path, text: str, lease_ms: int) -> None:
    assert load(tmp_path, {"ANABRANCH_LEASE": text}).lease_ms == lease_ms
    assert load(tmp_path, lease=text).lease_ms == lease_ms


def test_a_list_of_hosts_is_separated_by_commas(tmp_path: Path) -> None:
    settings = load(tmp_path, {"ANABRANCH_EGRESS_ALLOW": "10.0.0.0/8, intranet:8080,"})

    assert settings.egress_allow == ("10.0.0.0/8", "intranet:8080")


@pytest.mark.parametrize(
    ("environ", "endpoint"),
    [
        ({}, None),
        ({"OTLP_ENDPOINT": "http://collector:4318"}, "http://collector:4318"),
        ({"ANABRANCH_OTLP_ENDPOINT": "http://collector:4318"}, "http://collector:4318"),
        ({"ANABRANCH_OTLP_ENDPOINT": "http://ours", "OTLP_ENDPOINT": "http://others"}, "http://ours"),
        ({"OTLP_ENABLED": "true"}, "http://localhost:4318"),
        ({"OTLP_ENABLED": "false", "ANABRANCH_OTLP_ENDPOINT": "http://collector:4318"}, None),
        ({"OTLP_ENABLED": "", "OTLP_ENDPOINT": ""}, None),
    ],
)
def test_spans_are_exported_where_somebody_says_so(
    tmp_path: Path, environ: dict[str, str], endpoint: str | None
) -> None:
    assert load(tmp_path, environ).spans_endpoint == endpoint


def test_an_endpoint_that_is_no_address_is_refused_by_its_own_name(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="OTLP_ENDPOINT in the environment is refused"):
        load(tmp_path, {"OTLP_ENDPOINT": "collector:4318"})


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("ANABRANCH_DATABSE_URL", "ANABRANCH_DATABASE_URL"),
        ("ANABRANCH_LEASE_MS", "ANABRANCH_LEASE"),
        ("ANABRANCH_port", "ANABRANCH_PORT"),
    ],
)
def test_an_unknown_variable_is_refused_with_the_nearest_name(tmp_path: Path, name: str, nearest: str) -> None:
    with pytest.raises(SettingsError, match=f"{name} in the environment") as refusal:
        load(tmp_path, {name: "x"})

    assert nearest in refusal.value.advice


def test_unknown_names_are_refused_in_both_files_too(tmp_path: Path) -> None:
    (tmp_path / "anabranch.toml").write_text("prot = 1")
    with pytest.raises(SettingsError, match=r"prot in anabranch\.toml") as in_toml:
        load(tmp_path)
    (tmp_path / "anabranch.toml").unlink()
    (tmp_path / ".env").write_text("ANABRANCH_PROT=1")
    with pytest.raises(SettingsError, match=r"ANABRANCH_PROT in \.env"):
        load(tmp_path)

    assert "port" in in_toml.value.advice


def test_names_of_the_test_suite_are_left_alone(tmp_path: Path) -> None:
    assert load(tmp_path, {"ANABRANCH_TEST_POSTGRES_URL": "postgresql://x"}) == load(tmp_path)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("ANABRANCH_PORT", "70000"),
        ("ANABRANCH_PORT", "http"),
        ("ANABRANCH_LEASE", "soon"),
        ("ANABRANCH_LEASE", "1ms"),
        ("ANABRANCH_CONCURRENCY", "0"),
        ("ANABRANCH_DATABASE_URL", "mysql://x"),
        ("ANABRANCH_AUTO_MIGRATE", "perhaps"),
        ("ANABRANCH_SECRET_KEY", "dG9vIHNob3J0"),
    ],
)
def test_a_value_out_of_bounds_is_refused_with_its_name(tmp_path: Path, variable: str, value: str) -> None:
    with pytest.raises(SettingsError, match=variable) as refusal:
        load(tmp_path, {variable: value})

    assert refusal.value.code == "INVALID_SETTING"
    assert refusal.value.details[0]["name"] == variable


def test_every_bad_value_is_listed_at_once(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"--port is refused.*ANABRANCH_LEASE in the environment is refused"):
        load(tmp_path, {"ANABRANCH_LEASE": "soon"}, port=-1)


def test_a_secret_may_come_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(KEY + "\n")

    settings = load(tmp_path, {"ANABRANCH_SECRET_KEY_FILE": str(tmp_path / "key")})

    assert settings.secret_key is not None
    assert settings.secret_key.get_secret_value() == KEY


def test_a_secret_given_twice_or_in_an_unreadable_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="both ANABRANCH_API_KEY and ANABRANCH_API_KEY_FILE"):
        load(tmp_path, {"ANABRANCH_API_KEY": "x", "ANABRANCH_API_KEY_FILE": "y"})
    with pytest.raises(SettingsError, match="No such file"):
        load(tmp_path, {"ANABRANCH_DATABASE_URL_FILE": str(tmp_path / "absent")})


def test_only_secrets_are_read_from_files(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="ANABRANCH_PORT_FILE"):
        load(tmp_path, {"ANABRANCH_PORT_FILE": "x"})


def test_secrets_are_not_shown(tmp_path: Path) -> None:
    settings = load(tmp_path, {"ANABRANCH_SECRET_KEY": KEY, "ANABRANCH_DATABASE_URL": "postgresql://u:hunter2@h/d"})

    assert KEY not in repr(settings)
    assert "hunter2" not in repr(settings)
    with pytest.raises(SettingsError) as refusal:
        load(tmp_path, {"ANABRANCH_SECRET_KEY": "c2VjcmV0", "ANABRANCH_DATABASE_URL": "mysql://u:hunter2@h/d"})
    assert "hunter2" not in str(refusal.value.as_json())
    assert "c2VjcmV0" not in str(refusal.value.as_json())


def test_a_broken_toml_file_is_refused_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "anabranch.toml").write_text("port = \n")
    with pytest.raises(SettingsError, match="line 1"):
        load(tmp_path)


def test_every_setting_has_a_sentence() -> None:
    for name in Settings.model_fields:
        assert sentences().get(name), f"{environment_name(name)} has no sentence"
