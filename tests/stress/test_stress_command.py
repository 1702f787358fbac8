"""`make stress`: what it prints, what it judges, and that it notices a join that runs too early."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.simulation.mutants import MUTANTS
from tests.simulation.patching import patched
from tests.spec.drawings import drawn
from tests.stress.__main__ import main


def summary(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The last line."""
    last: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
    return last


def test_it_runs_shapes_tells_how_far_it_is_and_ends_with_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diamond all", "parallel map", "--count", "40", "--workers", "3", "--seed", "7"]) == 0
    told = capsys.readouterr()
    assert "40 of 40 runs have ended" in told.err
    found = json.loads(told.out.splitlines()[-1])
    assert {
        key: found[key] for key in ("work", "store", "workers", "seed", "runs", "nodes", "kills", "violations")
    } == {
        "work": ["diamond all", "parallel map"],
        "store": "memory",
        "workers": 3,
        "seed": 7,
        "runs": 40,
        "nodes": 20 * 5 + 20 * 34,
        "kills": 0,
        "violations": 0,
    }
    assert found["runsPerSecond"] > 0 and found["nodesPerSecond"] > 0


@pytest.mark.parametrize(
    ("shape", "defect"),
    [
        ("diamond all", "all-join-runs-early"),
        ("fan-in", "all-join-runs-early"),
        ("diamond any", "any-join-runs-again"),
    ],
)
def test_it_notices_a_join_that_is_counted_wrongly(shape: str, defect: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The sets of what ended are the same: only the order, or the number, shows it."""
    with patched(next(mutant for mutant in MUTANTS if mutant.name == defect).patches):
        assert main([shape, "--count", "40", "--seed", "7"]) == 1
    assert summary(capsys)["violations"] > 0


def test_a_file_is_judged_by_the_oracle(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.json"
    document = drawn("start>a, a>end", a={"config": {"values": {"n": "{{ctx.input.n}}"}}}, end={"type": "end"})
    file.write_text(json.dumps(document))
    assert main([str(file), "--count", "20", "--input", '{"n": 1}', "--seed", "7"]) == 0
    assert summary(capsys)["work"] == [str(file)]
    with patched(next(mutant for mutant in MUTANTS if mutant.name == "all-join-runs-early").patches):
        joined = drawn("start>a, start>b, a>join, b>join, join>end", end={"type": "end"})
        file.write_text(json.dumps(joined))
        assert main([str(file), "--count", "40", "--seed", "7"]) == 1


@pytest.mark.timeout(240)
@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
def test_workers_that_are_killed_lose_nothing(
    store: str, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--url", request.getfixturevalue("postgres_url")] if store == "postgresql" else []
    assert (
        main(["delay", "loop over many", "--count", "60", "--store", store, "--kills", "2", "--seed", "7", *where]) == 0
    )
    found = summary(capsys)
    assert (found["runs"], found["kills"], found["violations"]) == (60, 2, 0)


@pytest.mark.parametrize(
    "arguments",
    [["--kills", "1"], ["no such shape"], ["--count", "0"], ["--store", "sqlite", "--url", "postgresql://x"]],
)
def test_what_makes_no_sense_is_said(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refusal:
        main(arguments)
    assert refusal.value.code == 2
    assert "error:" in capsys.readouterr().err
