"""One name, one thing: no two classes of the product share a name, and no two modules do."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from tests.architecture.reading import Source, read_package

PACKAGE = Path(__file__).parents[2] / "anabranch"
SOURCES = read_package(PACKAGE)


def test_no_two_classes_share_a_name() -> None:
    found = shared_names(
        (statement.name, source.module)
        for source in SOURCES
        for statement in source.tree.body
        if isinstance(statement, ast.ClassDef)
    )
    assert not found, f"give each class a name of its own: {found}"


def test_no_two_modules_share_a_name() -> None:
    modules = {path.relative_to(PACKAGE.parent) for path in PACKAGE.rglob("*.py") if path.stem != "__init__"}
    found = shared_names((path.stem, str(path)) for path in modules if "versions" not in path.parts)
    assert not found, f"give each module a name of its own: {found}"


def test_a_shared_name_is_found() -> None:
    one, other = Source.of("anabranch.one", "class Answer: ..."), Source.of("anabranch.other", "class Answer: ...")
    classes = [(source, each) for source in (one, other) for each in source.tree.body if isinstance(each, ast.ClassDef)]
    names = [(each.name, source.module) for source, each in classes]
    assert shared_names(names) == {"Answer": ["anabranch.one", "anabranch.other"]}


def shared_names(named: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """The names that occur more than once, with the modules where they do."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for name, origin in named:
        found[name].append(origin)
    return {name: sorted(origins) for name, origins in sorted(found.items()) if len(origins) > 1}
