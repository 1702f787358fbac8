"""Expressions: the text between `{{` and `}}`, compiled into closures over plain data.

Pure. Used by `template` only. Jinja2's parser reads the text. Of its syntax tree only the nodes in `_COMPILERS` are
accepted, and they are evaluated here on dicts, lists and scalars: no attribute of a Python object can be reached, and
nothing can be called. To allow another form, add its compiler here and its attacks in
`tests/spec/test_template_attacks`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jinja2 import Environment, TemplateSyntaxError, nodes
from jinja2.parser import Parser

from anabranch.engine.rules.templates.budget import (
    BudgetExceeded,
    Evaluate,
    Refused,
    SecretMisplaced,
    TemplateBudget,
    check_number,
    check_size,
    look_up,
)
from anabranch.engine.rules.templates.builtin_variables import NOW, PATHS, facts_of, now_of
from anabranch.engine.rules.templates.filter_arguments import ABSENT, Filter
from anabranch.engine.rules.templates.filters import DEFAULT_PARAMETERS, FILTERS
from anabranch.engine.rules.templates.operators import BINARY, COMPARISONS, UNARY, Binary
from anabranch.engine.rules.templates.path import (
    MISSING,
    ROOT,
    SECRETS_ROOT,
    Path,
    leading_names,
    missing_path,
    path_text,
    static_key,
    static_path,
    unwind,
)
from anabranch.engine.rules.templates.secrets import check_secrets, secret_name
from anabranch.engine.rules.templates.text import EXPRESSION_DEPTH_MAX
from anabranch.engine.rules.values import kind_of
from anabranch.errors import TemplatePathMissing


class Expression:
    """A compiled expression: `evaluate(ctx, work)`, the paths that it requires, and the secrets that it reads."""

    __slots__ = ("evaluate", "needs", "reads_context", "secret_names", "text")

    def __init__(self, text: str, *, secrets: bool = False) -> None:
        """`secrets`: `secret.NAME` is available here. Raises Refused with the reason."""
        compiler = _ExpressionCompiler()
        self.text = text
        tree = _parse(text)
        self.evaluate = compiler.compile(tree, 1)
        self.needs = frozenset(compiler.needs)
        self.secret_names = frozenset(compiler.secret_names)
        self.reads_context = compiler.reads_context or bool(compiler.secret_names)
        if compiler.secret_names:
            check_secrets(tree, given=secrets)


ENVIRONMENT = Environment(autoescape=False)  # noqa: S701 - only its grammar is used, nothing is rendered


def _parse(text: str) -> nodes.Expr:
    try:
        parser = Parser(ENVIRONMENT, text, state="variable")
        tree = parser.parse_expression()
        if not parser.stream.eos:
            raise Refused(f"it continues after its end, with {parser.stream.current.value!r}")
    except TemplateSyntaxError as refusal:
        raise Refused(f"it cannot be read: {refusal.message}") from None
    except RecursionError:
        raise Refused(f"it is nested more than {EXPRESSION_DEPTH_MAX} levels deep") from None
    return tree


class _ExpressionCompiler:
    """Compiles one expression and collects what it reads."""

    def __init__(self) -> None:
        self.needs: set[Path] = set()
        """Paths that no `default` stands behind: without one of them it fails."""
        self.secret_names: set[str] = set()
        self.reads_context = False
        self._defaults = 0
        """How many `default` filters are around what is being compiled."""

    def compile(self, node: nodes.Node, depth: int) -> Evaluate:
        """The closure of a node. Raises Refused for a node that is not on the list."""
        if depth > EXPRESSION_DEPTH_MAX:
            raise Refused(f"it is nested more than {EXPRESSION_DEPTH_MAX} levels deep")
        compiler = _COMPILERS.get(type(node))
        if compiler is None:
            raise Refused(_REFUSALS.get(type(node), f"a {type(node).__name__} is not allowed in a template"))
        return compiler(self, node, depth)

    def defaulted(self, node: nodes.Node, depth: int) -> Evaluate:
        """Like `compile`, for the operand of `default`: none of its paths is required."""
        self._defaults += 1
        try:
            return self.compile(node, depth)
        finally:
            self._defaults -= 1

    def reads(self, names: Path) -> None:
        """Note a path that the expression requires."""
        if names and not self._defaults:
            self.needs.add(names)

    def operand(self, node: nodes.Node, depth: int) -> Evaluate:
        """Like `compile`, but a bare `ctx` stays a view, which suffices for `in`, `length` and `keys`."""
        if isinstance(node, nodes.Name) and node.name == ROOT:
            self.reads_context = True
            return lambda ctx, work: ctx
        return self.compile(node, depth)


# -- literals -----------------------------------------------------------------------------


def _constant(compiler: _ExpressionCompiler, node: nodes.Const, depth: int) -> Evaluate:
    value = check_number(node.value)
    return lambda ctx, work: value


def _list(compiler: _ExpressionCompiler, node: nodes.List, depth: int) -> Evaluate:
    items = [compiler.compile(item, depth + 1) for item in node.items]

    def evaluate(ctx: Mapping[str, Any], work: TemplateBudget) -> Any:
        values = [item(ctx, work) for item in items]
        return work.built(values, 2 + sum(work.weigh(value) + 1 for value in values))

    return evaluate


def _dict(compiler: _ExpressionCompiler, node: nodes.Dict, depth: int) -> Evaluate:
    pairs = [(compiler.compile(pair.key, depth + 1), compiler.compile(pair.value, depth + 1)) for pair in node.items]

    def evaluate(ctx: Mapping[str, Any], work: TemplateBudget) -> Any:
        values, weight = {}, 2
        for key_of, value_of in pairs:
            key, value = key_of(ctx, work), value_of(ctx, work)
            if not isinstance(key, str):
                raise Refused(f"the keys of an object are text, this one is {kind_of(key)}")
            values[key] = value
            weight += work.weigh(key) + work.weigh(value) + 2
        return work.built(values, weight)

    return evaluate


# -- paths --------------------------------------------------------------------------------


def _context(compiler: _ExpressionCompiler, node: nodes.Name, depth: int) -> Evaluate:
    if node.name == "null":
        return _fixed(None)  # JSON's word; Jinja2 itself only knows `none`
    if node.name == NOW:
        compiler.reads_context = True
        return now_of
    _check_root(node)
    compiler.reads_context = True

    def evaluate(ctx: Mapping[str, Any], work: TemplateBudget) -> Any:
        values, weight = {}, 2
        for name, value in ctx.items():
            values[name] = value
            weight += work.weigh(name) + work.weigh(value) + 2
            check_size(weight)
        return work.built(values, weight)

    return evaluate


def _path(compiler: _ExpressionCompiler, node: nodes.Getattr | nodes.Getitem, depth: int) -> Evaluate:
    base, steps = unwind(node)
    keys = [static_key(step) for step in steps]
    if isinstance(base, nodes.Name) and base.name == SECRETS_ROOT:
        return _secret(compiler, keys)
    from_context = isinstance(base, nodes.Name) and base.name != NOW
    shown = path_text(keys, from_context=from_context)
    if isinstance(base, nodes.Name) and from_context:
        _check_root(base)
        compiler.reads_context = True
        if tuple(keys) in PATHS:
            return _fact(tuple(keys), shown)
        compiler.reads(leading_names(keys))
        start: Evaluate | None = None
    else:
        start = compiler.compile(base, depth + 1)
    if start is None and MISSING not in keys:
        return static_path(keys, shown)
    moves = [
        compiler.compile(step, depth + 1) if key is MISSING and isinstance(step, nodes.Expr) else _fixed(key)
        for step, key in zip(steps, keys, strict=True)
    ]

    def evaluate(ctx: Mapping[str, Any], work: TemplateBudget) -> Any:
        value: Any = None if start is None else start(ctx, work)
        for index, move in enumerate(moves):
            key = move(ctx, work)
            if start is None and index == 0:
                value = ctx.get(key, MISSING) if isinstance(key, str) else MISSING
            else:
                value = look_up(value, key, MISSING)
            if value is MISSING:
                raise missing_path(shown, keys[: index + 1], from_context=from_context)
        return value

    return evaluate


def _fact(keys: Path, shown: str) -> Evaluate:
    """A path to a fact of the run, unless a variable has its name."""
    of_variable, read = static_path(keys, shown), PATHS[keys]

    def evaluate(ctx: Mapping[str, Any], work: TemplateBudget) -> Any:
        return of_variable(ctx, work) if keys[0] in ctx else read(facts_of(ctx, shown))

    return evaluate


def _fixed(key: Any) -> Evaluate:
    return lambda ctx, work: key


def _check_root(node: nodes.Name) -> None:
    if node.name == SECRETS_ROOT:
        raise SecretMisplaced("secrets are read one by one, as `secret.NAME`")
    if node.name != ROOT:
        raise Refused(f"`{node.name}` is unknown here: write `{ROOT}.{node.name}`, or quote it as text")


# -- secrets ------------------------------------------------------------------------------


def _secret(compiler: _ExpressionCompiler, keys: Sequence[Any]) -> Evaluate:
    name = secret_name(keys)
    compiler.secret_names.add(name)

    def evaluate(ctx: Mapping[str, Any], work: TemplateBudget) -> Any:
        value = work.secrets.get(name)
        if value is None:
            raise SecretMisplaced(f"there is no secret {name} here")
        return value

    return evaluate


# -- logic --------------------------------------------------------------------------------


def _and(compiler: _ExpressionCompiler, node: nodes.And, depth: int) -> Evaluate:
    left, right = compiler.compile(node.left, depth + 1), compiler.compile(node.right, depth + 1)
    return lambda ctx, work: left(ctx, work) and right(ctx, work)


def _or(compiler: _ExpressionCompiler, node: nodes.Or, depth: int) -> Evaluate:
    left, right = compiler.compile(node.left, depth + 1), compiler.compile(node.right, depth + 1)
    return lambda ctx, work: left(ctx, work) or right(ctx, work)


def _not(compiler: _ExpressionCompiler, node: nodes.Not, depth: int) -> Evaluate:
    inner = compiler.compile(node.node, depth + 1)
    return lambda ctx, work: not inner(ctx, work)


def _inline_if(compiler: _ExpressionCompiler, node: nodes.CondExpr, depth: int) -> Evaluate:
    test = compiler.compile(node.test, depth + 1)
    chosen = compiler.compile(node.expr1, depth + 1)
    other = _fixed(None) if node.expr2 is None else compiler.compile(node.expr2, depth + 1)
    return lambda ctx, work: chosen(ctx, work) if test(ctx, work) else other(ctx, work)


def _compare(compiler: _ExpressionCompiler, node: nodes.Compare, depth: int) -> Evaluate:
    first = compiler.compile(node.expr, depth + 1)
    if len(node.ops) == 1 and node.ops[0].op in ("in", "notin"):
        return _binary_closure(COMPARISONS[node.ops[0].op], first, compiler.operand(node.ops[0].expr, depth + 1))
    rest = [(COMPARISONS[link.op], compiler.compile(link.expr, depth + 1)) for link in node.ops]

    def evaluate(ctx: Mapping[str, Any], work: TemplateBudget) -> Any:
        left = first(ctx, work)
        for holds, right_of in rest:
            right = right_of(ctx, work)
            if not holds(left, right, work):
                return False
            left = right
        return True

    return evaluate


# -- arithmetic and text ------------------------------------------------------------------


def _binary(compiler: _ExpressionCompiler, node: nodes.BinExpr, depth: int) -> Evaluate:
    left, right = compiler.compile(node.left, depth + 1), compiler.compile(node.right, depth + 1)
    return _binary_closure(BINARY[node.operator], left, right)


def _binary_closure(apply: Binary, left: Evaluate, right: Evaluate) -> Evaluate:
    return lambda ctx, work: apply(left(ctx, work), right(ctx, work), work)


def _sign(compiler: _ExpressionCompiler, node: nodes.UnaryExpr, depth: int) -> Evaluate:
    inner, apply = compiler.compile(node.node, depth + 1), UNARY[node.operator]
    return lambda ctx, work: apply(inner(ctx, work))


def _concatenate(compiler: _ExpressionCompiler, node: nodes.Concat, depth: int) -> Evaluate:
    parts = [compiler.compile(part, depth + 1) for part in node.nodes]

    def evaluate(ctx: Mapping[str, Any], work: TemplateBudget) -> Any:
        texts, size = [], 0
        for part in parts:
            texts.append(work.text_of(part(ctx, work)))
            size += len(texts[-1])
            check_size(size)
        work.spend(size)
        return "".join(texts)

    return evaluate


# -- filters ------------------------------------------------------------------------------


def _filter(compiler: _ExpressionCompiler, node: nodes.Filter, depth: int) -> Evaluate:
    if node.name not in FILTERS and node.name not in _FALLBACKS:
        raise Refused(f"there is no filter `{node.name}`; there are {', '.join((*_FALLBACKS, *FILTERS))}")
    names = [str(pair.key) for pair in node.kwargs]
    if node.node is None or node.dyn_args is not None or node.dyn_kwargs is not None or len(set(names)) < len(names):
        raise Refused(f"the filter `{node.name}` takes plain arguments, each once")
    positional = [compiler.compile(argument, depth + 1) for argument in node.args]
    named = {str(pair.key): compiler.compile(pair.value, depth + 1) for pair in node.kwargs}
    if node.name in _FALLBACKS:
        return _FALLBACKS[node.name](compiler.defaulted(node.node, depth + 1), positional, named)
    chosen = FILTERS[node.name]
    if chosen.takes_missing:
        inner = _absent_where_missing(compiler.defaulted(node.node, depth + 1))
    else:
        inner = (compiler.operand if chosen.takes_view else compiler.compile)(node.node, depth + 1)
    return _apply(chosen, inner, positional, named)


def _default(inner: Evaluate, positional: Sequence[Evaluate], named: Mapping[str, Evaluate]) -> Evaluate:
    """`default(value, boolean=false)`: for missing paths; with `true` also for empty, zero and null values."""
    arguments = {**dict(zip(DEFAULT_PARAMETERS, positional, strict=False)), **named}
    if len(positional) > len(DEFAULT_PARAMETERS) or not set(arguments) <= set(DEFAULT_PARAMETERS):
        raise Refused("the filter `default` takes a value, and `true` to replace empty values too")
    fallback = arguments.get("default_value", _fixed(""))
    also_empty = arguments.get("boolean", _fixed(False))

    def evaluate(ctx: Mapping[str, Any], work: TemplateBudget) -> Any:
        try:
            value = inner(ctx, work)
        except TemplatePathMissing:
            return fallback(ctx, work)
        return fallback(ctx, work) if not value and also_empty(ctx, work) else value

    return evaluate


def _otherwise(inner: Evaluate, positional: Sequence[Evaluate], named: Mapping[str, Evaluate]) -> Evaluate:
    """`otherwise(value)`: for missing paths, and where a value is of a kind that cannot be computed with."""
    arguments = {**dict(zip(("value",), positional, strict=False)), **named}
    if len(positional) > 1 or set(arguments) != {"value"}:
        raise Refused("the filter `otherwise` needs a default value")
    fallback = arguments["value"]

    def evaluate(ctx: Mapping[str, Any], work: TemplateBudget) -> Any:
        try:
            return inner(ctx, work)
        except TemplatePathMissing:
            return fallback(ctx, work)
        except (BudgetExceeded, SecretMisplaced):
            raise
        except Refused:
            return fallback(ctx, work)

    return evaluate


_FALLBACKS = {"default": _default, "otherwise": _otherwise}
"""Filters that catch what happens before them."""


def _absent_where_missing(inner: Evaluate) -> Evaluate:
    def evaluate(ctx: Mapping[str, Any], work: TemplateBudget) -> Any:
        try:
            return inner(ctx, work)
        except TemplatePathMissing:
            return ABSENT

    return evaluate


def _apply(chosen: Filter, inner: Evaluate, positional: Sequence[Evaluate], named: Mapping[str, Evaluate]) -> Evaluate:
    given = [*chosen.parameters[: len(positional)], *named]
    fits = len(positional) <= len(chosen.parameters) and len(set(given)) == len(given)
    if not fits or not set(chosen.required) <= set(given) <= set(chosen.parameters):
        raise Refused(f"the filter takes `{chosen.name}({', '.join(chosen.parameters)})`")
    arguments = dict(zip(given, [*positional, *named.values()], strict=True))
    run = chosen.run

    def evaluate(ctx: Mapping[str, Any], work: TemplateBudget) -> Any:
        value = inner(ctx, work)
        return run(value, work, **{name: argument(ctx, work) for name, argument in arguments.items()})

    return evaluate


# -- the list of what is allowed ----------------------------------------------------------

_COMPILERS: Mapping[type[nodes.Node], Callable[[_ExpressionCompiler, Any, int], Evaluate]] = {
    nodes.Const: _constant,
    nodes.List: _list,
    nodes.Dict: _dict,
    nodes.Name: _context,
    nodes.Getattr: _path,
    nodes.Getitem: _path,
    nodes.And: _and,
    nodes.Or: _or,
    nodes.Not: _not,
    nodes.CondExpr: _inline_if,
    nodes.Compare: _compare,
    nodes.Add: _binary,
    nodes.Sub: _binary,
    nodes.Mul: _binary,
    nodes.Div: _binary,
    nodes.FloorDiv: _binary,
    nodes.Mod: _binary,
    nodes.Neg: _sign,
    nodes.Pos: _sign,
    nodes.Concat: _concatenate,
    nodes.Filter: _filter,
}

_REFUSALS: Mapping[type[nodes.Node], str] = {
    nodes.Call: "nothing can be called in a template; use a filter, or a code node before this one",
    nodes.Test: "tests (`is …`) are not available; compare with `==`, ask `in`, or give a `default(…)`",
    nodes.Pow: "`**` is not available; multiply",
    nodes.Tuple: "write a list in brackets, `[a, b]`",
    nodes.Slice: "slices are not available; take single items by index",
}
