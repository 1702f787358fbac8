"""What a source file says about itself, read with `ast` and never run.

Called by the rules of this folder. Knows Python; knows nothing of our layers.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Import:
    """One module that a file imports, when it runs or for type checkers alone."""

    module: str
    line: int
    inside_function: bool


@dataclass(frozen=True, slots=True)
class Function:
    """A function or method as it is declared."""

    name: str
    line: int
    parameters: tuple[str, ...]
    """Without `self` and `cls`."""


@dataclass(frozen=True, slots=True)
class Source:
    """A file as the rules see it: its module name and its syntax tree."""

    module: str
    tree: ast.Module
    _imports_by_known: dict[int, list[Import]] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, module: str, text: str) -> Source:
        """A source made of text, for testing the rules themselves."""
        return cls(module, ast.parse(text))

    def imports(self, known_modules: frozenset[str]) -> list[Import]:
        """Every import, `from package import module` counted as an import of that module."""
        found = self._imports_by_known.get(id(known_modules))  # five rules ask, of a tree of thousands of nodes
        if found is None:
            found = list(_imports(self.tree, known_modules, inside_function=False))
            self._imports_by_known[id(known_modules)] = found
        return found

    def names_from(self, module: str) -> Iterator[tuple[str, int]]:
        """Every name that `from module import …` imports, with its line."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and node.module == module:
                yield from ((alias.name, node.lineno) for alias in node.names)

    def dotted_names(self) -> Iterator[tuple[str, int]]:
        """Every name or attribute path that is read, such as `datetime.now`, with its line."""
        for node in ast.walk(self.tree):
            if isinstance(node, (ast.Name, ast.Attribute)):
                yield ast.unparse(node), node.lineno

    def texts(self) -> Iterator[tuple[str, int]]:
        """Every text in the code with its line, docstrings left out; of an f-string, its fixed parts."""
        docstrings = {id(text) for text in _docstrings(self.tree)}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
                yield node.value, node.lineno

    def docstrings(self) -> Iterator[tuple[str, int]]:
        """Every docstring with its line: of modules, classes, functions and fields."""
        return ((str(text.value), text.lineno) for text in _docstrings(self.tree) if isinstance(text.value, str))

    def methods_of_protocols(self) -> Iterator[Function]:
        """Every method of a class that is a `Protocol`: all that implement it have the same parameters."""
        classes = (node for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef))
        return (each for node in classes if _is_protocol(node) for each in _methods(node))

    def public_methods(self) -> Iterator[Function]:
        """Every method without an underscore, of whatever class."""
        classes = (node for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef))
        return (each for node in classes for each in _methods(node) if "._" not in each.name)

    def awaits(self) -> Iterator[int]:
        """The lines with `await`, `async def`, `async for` or `async with`."""
        kinds = (ast.Await, ast.AsyncFunctionDef, ast.AsyncFor, ast.AsyncWith)
        return (node.lineno for node in ast.walk(self.tree) if isinstance(node, kinds))


@cache
def read_package(root: Path) -> list[Source]:
    """Every file of a package, by module name."""
    return [
        Source(_module_name(path.relative_to(root.parent)), ast.parse(path.read_text(encoding="utf-8"), str(path)))
        for path in sorted(root.rglob("*.py"))
    ]


def _module_name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports(node: ast.AST, known_modules: frozenset[str], *, inside_function: bool) -> Iterator[Import]:
    for module in _modules_named_by(node, known_modules):
        hides = inside_function or (isinstance(node, ast.Call) and not _is_deferral(node))
        yield Import(module, getattr(node, "lineno", 1), hides)
    inside_function = inside_function or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
    for child in ast.iter_child_nodes(node):
        yield from _imports(child, known_modules, inside_function=inside_function)


def _modules_named_by(node: ast.AST, known_modules: frozenset[str]) -> list[str]:
    match node:
        case ast.Import():
            return [alias.name for alias in node.names]
        case ast.ImportFrom():
            origin = "." * node.level + (node.module or "")
            modules = [f"{origin}.{alias.name}" for alias in node.names if f"{origin}.{alias.name}" in known_modules]
            return modules if len(modules) == len(node.names) else [origin, *modules]
        case ast.Call(args=[ast.Constant(value=name)]) if _is_deferral(node):
            return [str(name)]
        case ast.Call(
            func=ast.Name(id="__import__") | ast.Attribute(attr="import_module"), args=[ast.Constant(value=name), *_]
        ):
            return [str(name)]
        case _:
            return []


def _is_deferral(call: ast.Call) -> bool:
    """`deferred("module")`: the one way to import later; at the top of a file it is an import like any other."""
    return isinstance(call.func, ast.Name) and call.func.id == "deferred"


def _is_protocol(node: ast.ClassDef) -> bool:
    return any(ast.unparse(base).split("[")[0] == "Protocol" for base in node.bases)


def _methods(node: ast.ClassDef) -> Iterator[Function]:
    functions = (member for member in node.body if isinstance(member, (ast.FunctionDef, ast.AsyncFunctionDef)))
    return (_function(member, inside=node.name) for member in functions)


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef, *, inside: str) -> Function:
    given = node.args
    names = [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return Function(f"{inside}.{node.name}", node.lineno, tuple(name for name in names if name not in ("self", "cls")))


def _docstrings(tree: ast.AST) -> Iterator[ast.Constant]:
    """Texts that stand alone as a statement: docstrings of modules, classes, functions and fields."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.value
