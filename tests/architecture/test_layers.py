"""The package keeps to the picture of its layers, and no two of its files need each other."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from tests.architecture.layers import judge
from tests.architecture.reading import Source, read_package

PACKAGE = Path(__file__).parents[2] / "anabranch"
SOURCES = read_package(PACKAGE)
MODULES = frozenset(source.module for source in SOURCES)


def test_every_file_keeps_to_the_picture() -> None:
    violations = [violation for source in SOURCES for violation in judge(source, MODULES)]
    assert not violations, "\n".join(["the layers are broken:", *violations])


def test_no_two_files_import_each_other() -> None:
    assert (cycle := find_cycle(SOURCES)) is None, f"an import cycle: {cycle}; the part both need is a room of its own"


def test_a_cycle_of_imports_is_found() -> None:
    one = Source.of("anabranch.engine.one", "import anabranch.engine.two")
    two = Source.of("anabranch.engine.two", "from anabranch.engine import one")

    assert find_cycle([one, two]) is not None


def test_an_import_for_types_only_makes_no_cycle() -> None:
    one = Source.of("anabranch.engine.one", "import anabranch.engine.two")
    two = Source.of("anabranch.engine.two", "if TYPE_CHECKING:\n    from anabranch.engine.one import One")

    assert find_cycle([one, two]) is None


def test_a_cycle_through_a_package_that_imports_its_modules_is_found() -> None:
    package = Source.of("anabranch.tables", "import anabranch.tables.runs")
    runs = Source.of("anabranch.tables.runs", "import anabranch.columns")
    columns = Source.of("anabranch.columns", "from anabranch.tables.types import Text")
    types = Source.of("anabranch.tables.types", "")

    assert find_cycle([package, runs, columns, types]) is not None


def _loaded_by(module: str) -> list[str]:
    """A module and the packages that it is in: Python runs all of them."""
    parts = module.split(".")
    return [".".join(parts[:length]) for length in range(2, len(parts) + 1)]


def find_cycle(sources: list[Source]) -> str | None:
    """The first import cycle among these files, as text; None if there is none."""
    modules = frozenset(source.module for source in sources)
    needs = {
        source.module: {
            module
            for used in source.imports(modules)
            if not used.for_types_only
            for module in _loaded_by(used.module)
            if module in modules and not source.module.startswith(f"{module}.") and module != source.module
        }
        for source in sources
    }
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as found:
        return " -> ".join(found.args[1])
    return None
