"""Time zones that imported code brings with it."""

from __future__ import annotations

import json
import re

import pytest

from anabranch.n8n.time_zones import is_zone, zones_code
from tests.n8n.drawn import node, set_to
from tests.n8n.test_import import imported, made


def test_the_offsets_of_a_zone_are_those_of_its_clocks() -> None:
    code = zones_code("Europe/Berlin", ["Asia/Kolkata", "utc"])
    zones = json.loads(re.sub(r"^.*\$zones = |;$", "", code))
    assert code.startswith('const $zone = "Europe/Berlin"')
    assert sorted(zones) == ["Asia/Kolkata", "Europe/Berlin"]
    assert zones["Asia/Kolkata"] == [[0, 330]]
    assert [1774746000, 120] in zones["Europe/Berlin"]  # 2026-03-29T01:00:00Z
    assert [1792890000, 60] in zones["Europe/Berlin"]


@pytest.mark.parametrize(
    ("name", "there"),
    [("UTC", True), ("America/New_York", True), ("No/Where", False), ("../x", False), ("Australia/Lord_Howe", False)],
)
def test_which_zones_there_are(name: str, there: bool) -> None:
    assert is_zone(name) is there


@pytest.mark.parametrize(
    "code",
    [
        "return [{json: {a: $now.setZone($json.zone).toISO()}}];",
        "return [{json: {a: $now.setZone('No/Where').toISO()}}];",
        "return [{json: {a: $now.setZone('local').toISO()}}];",
        "return [{json: {a: $now.setZone('Europe/Berlin').diff($today, 'days').days}}];",
        "return [{json: {a: $now.setZone('Europe/Berlin').toFormat('ZZZZ')}}];",
        "return [{json: {a: DateTime.fromISO($json.at, {setZone: true}).toISO()}}];",
    ],
)
def test_what_is_not_known_of_time_zones_is_a_placeholder(code: str) -> None:
    assert imported(node("Code", "code", 2, jsCode=code)).report.status == "placeholder"


def test_code_has_the_time_zone_of_its_workflow() -> None:
    code = node("Code", "code", 2, jsCode="return [{json: {zone_: $now.zoneName}}];")
    workflow = imported(code, set_to("Set", n="1"), settings={"timezone": "Asia/Kolkata"})
    assert workflow.report.status == "exact"
    assert 'const $zone = "Asia/Kolkata"' in made(workflow, "code")["config"]["code"]
