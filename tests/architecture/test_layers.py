"""The package keeps to the picture of its layers, and no two of its files need each other."""

from __future__ import annotations

from collections import Counter
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from tests.architecture import picture
from tests.architecture.layers import LAYERS, MAY_IMPORT, component_of, judge
from tests.architecture.reading import Source, read_package

PACKAGE = Path(__file__).parents[2] / "anabranch"
SOURCES = read_package(PACKAGE)
MODULES = frozenset(source.module for source in SOURCES)


# About twenty files: as many names as a reader takes in at one look. Migrations are a history, and only grow.
FILES_IN_A_FOLDER_MAX = 20


def test_no_folder_has_more_files_than_a_reader_takes_in() -> None:
    folders = Counter(path.parent for path in PACKAGE.rglob("*.py") if path.parent.name != "versions")
    full = [str(folder.relative_to(PACKAGE)) for folder, files in folders.items() if files > FILES_IN_A_FOLDER_MAX]
    assert not full, f"divide them by subject: {full}"


def test_every_file_keeps_to_the_picture() -> None:
    violations = [violation for source in SOURCES for violation in judge(source, MODULES)]
    assert not violations, "\n".join(["the layers are broken:", *violations])


def test_every_permitted_import_is_used() -> None:
    used = {(component_of(source.module), component_of(each.module)) for source in SOURCES
            for each in source.imports(MODULES) if each.module.split(".")[0] == "anabranch"}  # fmt: skip

    unused = [
        (name, target) for name, targets in MAY_IMPORT.items() for target in targets if (name, target) not in used
    ]
    assert not unused, f"take them off MAY_IMPORT: {unused}"


def test_no_two_components_import_each_other() -> None:
    assert {*TopologicalSorter(MAY_IMPORT).static_order()} >= MAY_IMPORT.keys(), "else it raises CycleError"


def test_every_component_is_in_one_layer() -> None:
    assert sorted(name for names in LAYERS.values() for name in names) == sorted(MAY_IMPORT)


def test_the_page_shows_the_layers_as_they_are() -> None:
    assert picture.on_the_page() == picture.drawn(), "draw it anew: python -m tests.architecture.picture"


def test_no_two_files_import_each_other() -> None:
    assert (cycle := find_cycle(SOURCES)) is None, f"a circle: {cycle}; move what both need to a third module"


def test_a_cycle_of_imports_is_found() -> None:
    one = Source.of("anabranch.engine.one", "import anabranch.engine.two")
    two = Source.of("anabranch.engine.two", "from anabranch.engine import one")

    assert find_cycle([one, two]) is not None


def test_an_import_for_types_only_makes_a_cycle_too() -> None:
    one = Source.of("anabranch.engine.one", "import anabranch.engine.two")
    two = Source.of("anabranch.engine.two", "if TYPE_CHECKING:\n    from anabranch.engine.one import One")

    assert find_cycle([one, two]) is not None


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
