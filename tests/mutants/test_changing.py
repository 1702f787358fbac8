"""The mutants that `make mutants` makes: each is the file with one place changed, and compiles."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants.__main__ import HUNTERS, ROOT, hunters_of
from tests.mutants.changing import mutants_of


@pytest.mark.parametrize(
    ("line", "changed"),
    [
        ("if a < b: f()", ["if (a <= b): f()", "if a < b: pass"]),
        ("x = a and b", ["x = ((a) or (b))"]),
        ("x = not a", ["x = (a)"]),
        ("x = 7", ["x = 8"]),
        ("x = a + b", ["x = (a - b)"]),
        ("x += a", ["pass"]),
        ("x = a if b else c", ["x = (c if b else a)"]),
        ("def f(a: int = 1) -> int: ...", ["def f(a: int = 2) -> int: ..."]),
        ("def f(a): return a", ["def f(a): return None"]),
        ('assert a == b, "never"', []),
        ('"""A document: 1 < 2."""', []),
        ("é = a < b", ["é = (a <= b)"]),
    ],
)  # fmt: skip
def test_a_line_has_the_mutants_that_people_make(line: str, changed: list[str]):
    assert sorted(mutant.text for mutant in mutants_of(line)) == sorted(changed)


def test_every_mutant_of_the_product_compiles_and_is_another_text():
    source = (ROOT / "anabranch/engine/rules/decide.py").read_text()
    mutants = mutants_of(source)
    assert len(mutants) > 50
    for mutant in mutants:
        assert mutant.text != source
        compile(mutant.text, "mutant", "exec")


def test_the_hunters_are_there():
    for part, tests in HUNTERS:
        assert any(str(path.relative_to(ROOT)).startswith(part) for path in ROOT.glob("anabranch/**/*.py")), part
        assert all((ROOT / test).exists() for test in tests), part
    assert hunters_of("anabranch/egress/guard.py") == ("tests/egress",)
    assert not Path("anabranch/nothing.py").exists() and hunters_of("anabranch/nothing.py") == ()
