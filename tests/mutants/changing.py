"""Small faults that people make, found in a source file: each as the text of the file with one place changed.

Pure. A comparison is off by one or turned around, an `and` is an `or`, a `not` is gone, a condition always holds, a
number is one more, a statement is not there. What changes only a type, a message or a document is left alone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change: what stood there, and what stands there now."""

    line: int
    before: str
    after: str
    text: str
    """The whole file with the change."""


def mutants_of(source: str) -> list[Mutant]:
    """Every mutant of a file, in the order of its lines."""
    tree = ast.parse(source)
    ignored = {id(part) for node in _without_behaviour(tree) for part in ast.walk(node)}
    lines = source.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line.encode()))
    raw = source.encode()

    found = []
    for node in ast.walk(tree):
        if id(node) in ignored or not isinstance(node, (ast.expr, ast.stmt)):
            continue
        assert node.end_lineno is not None and node.end_col_offset is not None, "parsed nodes have places"
        begin = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        before = raw[begin:end].decode()
        for after in _changes(node, source):
            text = (raw[:begin] + after.encode() + raw[end:]).decode()
            if after != before and _compiles(text):
                found.append(Mutant(node.lineno, before, after, text))
    return sorted(found, key=lambda mutant: (mutant.line, mutant.before, mutant.after))


def _changes(node: ast.AST, source: str) -> Iterator[str]:
    match node:
        case ast.Compare(left, [operator], [right]) if type(operator) in _COMPARISONS:
            yield f"({_text(left, source)} {_COMPARISONS[type(operator)]} {_text(right, source)})"
        case ast.BoolOp(operator, values):
            word = " or " if isinstance(operator, ast.And) else " and "
            yield "(" + word.join(f"({_text(value, source)})" for value in values) + ")"
        case ast.UnaryOp(ast.Not(), operand):
            yield f"({_text(operand, source)})"
        case ast.BinOp(left, operator, right) if type(operator) in _ARITHMETIC:
            changed = ast.BinOp(left, _ARITHMETIC[type(operator)](), right)
            yield f"({ast.unparse(changed)})"
        case ast.Constant(bool() as value):
            yield str(not value)
        case ast.Constant(int() as value):
            yield str(value + 1)
        case ast.IfExp(test, body, orelse):
            yield f"({_text(orelse, source)} if {_text(test, source)} else {_text(body, source)})"
        case ast.Expr(ast.Call() | ast.Await()) | ast.AugAssign():
            yield "pass"
        case ast.Return(ast.expr()):
            yield "return None"
        case ast.Raise() | ast.Continue() | ast.Break():
            yield "pass"


def _text(node: ast.AST, source: str) -> str:
    return ast.get_source_segment(source, node) or ast.unparse(node)


def _without_behaviour(tree: ast.Module) -> Iterator[ast.AST]:
    """Annotations, documents, messages to programmers, and what only type checkers run."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield from (argument.annotation for argument in ast.walk(node.args)
                            if isinstance(argument, ast.arg) and argument.annotation)  # fmt: skip
                if node.returns is not None:
                    yield node.returns
                yield from node.decorator_list
            case ast.AnnAssign():
                yield node.annotation
            case ast.Expr(ast.Constant()) | ast.JoinedStr() | ast.Assert() | ast.Import() | ast.ImportFrom():
                yield node
            case ast.If(ast.Name("TYPE_CHECKING")):
                yield node


def _compiles(text: str) -> bool:
    try:
        compile(text, "mutant", "exec")
    except SyntaxError:
        return False
    return True
