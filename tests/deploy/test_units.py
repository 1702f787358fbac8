"""The units of systemd: settings and commands exist, and systemd reads them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from anabranch.cli.entry import application
from anabranch.process.stop_signals import EXIT_AT_ONCE
from anabranch.settings import Settings, environment_name

UNITS = Path(__file__).parents[2] / "deploy" / "systemd"
NAMES = ("anabranch-migrate.service", "anabranch-server.service", "anabranch-worker.service")


def values(unit: str, key: str) -> list[str]:
    """Every value of a key in a unit."""
    return re.findall(rf"^{key}=(.*)$", (UNITS / unit).read_text(), re.MULTILINE)


@pytest.mark.parametrize("unit", NAMES)
def test_a_unit_gives_a_command_and_settings_that_exist(unit: str, tmp_path: Path) -> None:
    (command,) = values(unit, "ExecStart")
    _, name, *options = command.split()
    assert set(options) <= {option for parameter in application.commands[name].params for option in parameter.opts}
    known = {environment_name(field) for field in Settings.model_fields}
    set_here = {line.partition("=")[0] for line in values(unit, "Environment")} - {"PYTHONUNBUFFERED"}
    assert {each.removesuffix("_FILE") for each in set_here} <= known
    lines = (UNITS / "anabranch.env").read_text().splitlines()
    shared = dict(line.split("=", 1) for line in lines if not line.startswith("#"))
    Settings.load(environ=shared, folder=tmp_path)


@pytest.mark.parametrize("unit", NAMES[1:])
def test_a_process_may_stop_in_order_and_is_started_again_unless_that_is_useless(unit: str) -> None:
    (seconds,) = values(unit, "TimeoutStopSec")
    assert int(seconds.removesuffix("s")) * 1000 > Settings().grace_ms
    assert values(unit, "Restart") == ["always"]
    assert values(unit, "RestartPreventExitStatus") == ["2"] != [str(EXIT_AT_ONCE)]
    assert values(unit, "KillMode") == ["mixed"], "the supervisor of several processes stops them in order"


@pytest.mark.parametrize("unit", NAMES)
def test_all_units_are_hardened_alike(unit: str) -> None:
    text = (UNITS / unit).read_text()
    hardening = text[text.index("AmbientCapabilities=") :].split("\n\n")[0].rstrip()
    worker = (UNITS / "anabranch-worker.service").read_text()
    assert hardening in worker


def test_systemd_reads_the_units(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("no systemd-analyze on the PATH")
    for unit in NAMES:
        text = (UNITS / unit).read_text().replace("/opt/anabranch/bin/anabranch", "/bin/true")
        (tmp_path / unit).write_text(text)
    paths = [str(tmp_path / unit) for unit in NAMES]
    done = subprocess.run([analyze, "verify", *paths], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
