"""Python: function bodies compiled by RestrictedPython and run on builtins chosen by name.

Loaded by the fork server. This is the inner wall, for good errors and as a second defence; what
holds without it is the operating system's.
"""

from __future__ import annotations

import ast
import builtins
import json
import operator
import os
import random
import traceback
from collections.abc import Callable, Iterator, Mapping
from types import CodeType
from typing import Any

from RestrictedPython.compile import compile_restricted_exec
from RestrictedPython.Guards import (
    guarded_iter_unpack_sequence,
    guarded_unpack_sequence,
    safe_builtins,
    safer_getattr_raise,
)
from RestrictedPython.transformer import RestrictingNodeTransformer

from anabranch.handlers.sandbox.inside import python_modules
from anabranch.handlers.sandbox.inside import sealed_wire as wire
from anabranch.handlers.sandbox.inside.languages import CompileProblem, Failure, Frame, Host

_FILE = "<code>"
_FUNCTION = "node"

# Added to those that RestrictedPython calls safe; several of them it leaves out because they iterate
# in C past its guard for iteration, which is not needed here (there is nothing to iterate but data).
_MORE_BUILTINS = (
    "all", "any", "bin", "bytearray", "bytes", "classmethod", "dict", "enumerate", "filter", "format", "frozenset",
    "iter", "list", "map", "max", "min", "next", "object", "property", "reversed", "set", "sorted", "staticmethod",
    "sum", "super", "tuple", "zip",
    "StopAsyncIteration", "RecursionError", "TimeoutError", "ConnectionError", "FileNotFoundError", "PermissionError",
)  # fmt: skip
_LESS_BUILTINS = ("id", "setattr", "delattr", "_getattr_")

_IN_PLACE: Mapping[str, Callable[[Any, Any], Any]] = {
    "+=": operator.iadd, "-=": operator.isub, "*=": operator.imul, "/=": operator.itruediv, "//=": operator.ifloordiv,
    "%=": operator.imod, "**=": operator.ipow, "&=": operator.iand, "|=": operator.ior, "^=": operator.ixor,
    ">>=": operator.irshift, "<<=": operator.ilshift, "@=": operator.imatmul,
}  # fmt: skip
_OPERATORS: Mapping[type[ast.operator], str] = {
    ast.Add: "+=", ast.Sub: "-=", ast.Mult: "*=", ast.Div: "/=", ast.FloorDiv: "//=", ast.Mod: "%=", ast.Pow: "**=",
    ast.BitAnd: "&=", ast.BitOr: "|=", ast.BitXor: "^=", ast.RShift: ">>=", ast.LShift: "<<=", ast.MatMult: "@=",
}  # fmt: skip

# Every node of JSON takes a byte at least, so a value of more nodes is over the limit of bytes.
_NODES_MAX = wire.RESULT_BYTES_MAX

_INTEGER_MIN, _INTEGER_MAX = -(2**63), 2**64 - 1


def prepare() -> Python:
    """The engine of one child, with its own random seed, which forks would otherwise share."""
    random.seed(os.urandom(32))
    return Python()


class Python:
    """Compiles and runs one function body."""

    def compile(self, code: str) -> list[CompileProblem]:
        """The problems of a function body: the first syntax error, or everything that is not allowed."""
        return _compile(code)[1]

    def run(self, job: Mapping[str, Any], host: Host) -> bytes:
        """Run a job's `code`. Raises Failure."""
        compiled, problems = _compile(job["code"])
        if compiled is None:
            first = problems[0]
            raise Failure(
                "CODE_ERROR", "SyntaxError", first.message, frames=[Frame(max(first.line, 1), max(first.column, 0), "")]
            )
        names = _globals(host)
        try:
            exec(compiled, names)  # noqa: S102 -- the one place where tenant code is run, in a sealed process
            value = names[_FUNCTION](json.loads(job["ctx"]))
            return _as_json(value)
        except (Failure, MemoryError):
            raise
        except BaseException as raised:  # noqa: BLE001 -- SystemExit and the like are errors of the code too
            raise _failure(raised) from None


# -- compiling ---------------------------------------------------------------------------------


class _Policy(RestrictingNodeTransformer):
    """RestrictedPython's rules, with places in its errors, and with two statements that glue code is full of."""

    def error(self, node: ast.AST, info: str) -> None:
        line, column = getattr(node, "lineno", 0), getattr(node, "col_offset", 0)
        self.errors.append(json.dumps([line, column + 1, info]))

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:  # noqa: N802 -- the visitor's naming
        """`a[b] += c`, which RestrictedPython refuses, becomes a call that goes by the guards."""
        target = node.target
        if not isinstance(target, ast.Subscript) or isinstance(target.slice, ast.Slice):
            return super().visit_AugAssign(node)
        call = ast.Call(
            func=ast.Name("_inplace_item_", ast.Load()),
            args=[
                ast.Constant(_OPERATORS[type(node.op)]),
                self.visit(target.value),
                self.visit(target.slice),
                self.visit(node.value),
            ],
            keywords=[],
        )
        statement = ast.copy_location(ast.Expr(call), node)
        return ast.fix_missing_locations(statement)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:  # noqa: N802 -- the visitor's naming
        """`x: int = 5` is `x = 5`: annotations are for the reader."""
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        plain = ast.copy_location(ast.Assign(targets=[node.target], value=node.value), node)
        return self.visit(plain)


def _compile(code: str) -> tuple[CodeType | None, list[CompileProblem]]:
    try:
        body = ast.parse(code, _FILE).body
        made = compile_restricted_exec(_function(body), _FILE, policy=_Policy)
    except SyntaxError as problem:
        return None, [CompileProblem(problem.lineno or 1, problem.offset or 1, problem.msg)]
    except (RecursionError, MemoryError):
        return None, [CompileProblem(1, 1, "the code is nested too deep")]
    except ValueError as problem:  # NUL characters
        return None, [CompileProblem(1, 1, str(problem))]
    return made.code, [CompileProblem(*json.loads(each)) for each in made.errors]


def _function(body: list[ast.stmt]) -> ast.Module:
    """A function of `ctx` around a body that was parsed by itself: no text of it can end the function."""
    parameters = ast.arguments(
        posonlyargs=[], args=[ast.arg("ctx", None)], vararg=None, kwonlyargs=[], kw_defaults=[], kwarg=None, defaults=[]
    )
    function = ast.FunctionDef(_FUNCTION, parameters, body or [ast.Pass()], [], None, lineno=1, col_offset=0)
    return ast.fix_missing_locations(ast.Module([function], []))


# -- running -----------------------------------------------------------------------------------


def _globals(host: Host) -> dict[str, Any]:
    names = {name: value for name, value in safe_builtins.items() if name not in _LESS_BUILTINS}
    names.update({name: getattr(builtins, name) for name in _MORE_BUILTINS})
    names.update(__import__=_import, __build_class__=builtins.__build_class__)
    return {
        "__builtins__": names,
        "__name__": "node",
        "__metaclass__": type,
        "_getattr_": _get_attribute,
        "_getitem_": operator.getitem,
        "_getiter_": iter,
        "_write_": _writable,
        "_print_": lambda _getattr_=None: _Printer(host),
        "_inplacevar_": _in_place,
        "_inplace_item_": _in_place_item,
        "_unpack_sequence_": guarded_unpack_sequence,
        "_iter_unpack_sequence_": guarded_iter_unpack_sequence,
    }


def _import(name: str, _globals: Any = None, _locals: Any = None, wanted: Any = (), level: int = 0) -> Any:
    module = python_modules.MODULES.get(name) if level == 0 else None
    if module is None or (not wanted and "." in name):
        raise ImportError(f"{name} cannot be imported here; there are {', '.join(sorted(python_modules.MODULES))}")
    for each in wanted or ():
        if each != "*" and not hasattr(module, each):
            raise ImportError(f"cannot import name {each!r} from {name!r}")
    return module


def _get_attribute(of: Any, name: str) -> Any:
    try:
        return safer_getattr_raise(of, name)  # type: ignore[no-untyped-call]
    except AttributeError:
        if isinstance(of, dict) and name in of:
            raise AttributeError(f"a dict has no attribute {name!r}: write [{name!r}]") from None
        raise


def _writable(of: Any) -> Any:
    """Whether the code may change the object: its own objects, not those that it was given."""
    if isinstance(of, (dict, list, set, bytearray)) or type(of).__module__ == _FUNCTION:
        return of
    raise TypeError(f"a {type(of).__name__} cannot be changed")


def _in_place(sign: str, value: Any, operand: Any) -> Any:
    return _IN_PLACE[sign](value, operand)


def _in_place_item(sign: str, of: Any, key: Any, operand: Any) -> None:
    target = _writable(of)
    target[key] = _IN_PLACE[sign](target[key], operand)


class _Printer:
    """Turns `print` into log lines."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def _call_print(self, *values: Any, sep: str | None = None, end: str | None = None, **other: Any) -> None:
        if set(other) - {"flush"}:
            raise TypeError("print goes to the log of the node: it takes values, sep and end")
        text = (" " if sep is None else sep).join(str(value) for value in values)
        self._host.log("info", text)

    def __call__(self) -> str:
        return ""


# -- what comes of it --------------------------------------------------------------------------


def _failure(raised: BaseException) -> Failure:
    """The error of the code with its own lines. Runs under the limits of the code, because it may call the code's
    `__str__`."""
    frames = [
        Frame(line, 0, "" if frame.f_code.co_name == _FUNCTION else frame.f_code.co_name)
        for frame, line in traceback.walk_tb(raised.__traceback__)
        if frame.f_code.co_filename == _FILE
    ]
    try:
        message = str(raised)
    except BaseException:  # noqa: BLE001 -- the code's own
        message = "its message cannot be read"
    return Failure("CODE_ERROR", type(raised).__name__, message, frames=frames)


def _as_json(value: Any) -> bytes:
    problem = _problem(value)
    if problem is not None:
        raise problem
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8")


def _problem(root: Any) -> Failure | None:
    """The first thing in a value that is not JSON, with its pointer."""
    nodes = 0
    # Iterators, not children: what is under way stays as small as the value is deep.
    stack: list[tuple[Iterator[tuple[str, Any]], str]] = [(iter([("", root)]), "")]
    while stack:
        children, parent = stack[-1]
        step, value = next(children, (None, None))
        if step is None:
            stack.pop()
            continue
        nodes += 1
        if nodes > _NODES_MAX:
            return Failure("VALUE_TOO_LARGE", "ValueTooLarge", f"the code returned more than {_NODES_MAX} values")
        pointer = f"{parent}/{step:.80}" if len(stack) > 1 else ""
        if isinstance(value, (dict, list, tuple)):
            if len(stack) > wire.VALUE_DEPTH_MAX:
                return _not_storable(f"more than {wire.VALUE_DEPTH_MAX} levels of nesting", pointer[:256])
            if isinstance(value, dict) and (reason := _key_problem(value)) is not None:
                return _not_storable(reason, pointer)
            stack.append((_children(value), pointer))
        elif (reason := _scalar_problem(value)) is not None:
            return _not_storable(reason, pointer)
    return None


def _children(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        return iter(value.items())
    return ((str(index), child) for index, child in enumerate(value))


def _key_problem(value: dict[Any, Any]) -> str | None:
    for key in value:
        if type(key) is not str:
            return f"a key that is not text ({key!r:.80})"
        if (reason := _scalar_problem(key)) is not None:
            return f"a key that is {reason}"
    return None


def _scalar_problem(value: Any) -> str | None:
    if value is None or value is True or value is False:
        return None
    if type(value) is str:
        if "\x00" in value:
            return "text with a NUL character"
        if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
            return "text with a lone surrogate"
        return None
    if type(value) is int:
        return None if _INTEGER_MIN <= value <= _INTEGER_MAX else "an integer of more than 64 bits"
    if type(value) is float:
        return None if value - value == 0 else f"a number that is not finite ({value})"
    return f"a value of type {type(value).__name__}, which is not JSON"


def _not_storable(reason: str, pointer: str) -> Failure:
    return Failure("VALUE_NOT_STORABLE", "ValueNotStorable", f"the code returned {reason} at {pointer or '/'}")


class _DroppedOutput:
    """A host that drops everything."""

    def log(self, level: str, text: str) -> None:
        """Nothing."""

    def ask(self, request: Mapping[str, Any]) -> bool:
        """Nothing."""
        return False

    def answer(self) -> Any:
        """Nothing."""


_SAMPLE = "for a, b in [(1, 2)]:\n    print(a)\nx = {'a': 1}\nx['a'] += 1\nreturn [x, f'{a:.2f}']"


def _warm_up() -> None:
    """Compile and run a sample, so that everything it needs is loaded before the first fork."""
    Python().run({"code": _SAMPLE, "ctx": "{}"}, _DroppedOutput())
    try:
        Python().run({"code": "return 1 / 0", "ctx": "{}"}, _DroppedOutput())
    except Failure:
        python_modules.warm_up()


_warm_up()
