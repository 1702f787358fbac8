"""Templates: text with `{{ … }}` in it, compiled once and resolved against a context.

Pure. The validator compiles all texts of a config when a workflow is saved, the task worker resolves configs when an
attempt starts, loops evaluate their `while` and `yield`. This is not Jinja2 rendering: `expression` evaluates over
plain data, so nothing can be called and no Python object can be reached; `budget` bounds the cost of a resolution. A
result is never scanned for templates again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from anabranch.deferred import deferred
from anabranch.engine.rules.templates.budget import Refused, SecretMisplaced, TemplateBudget, check_size
from anabranch.engine.rules.templates.text import WORKFLOW_EXPRESSIONS_MAX, ExpressionCount, ExpressionSource, split
from anabranch.engine.rules.values import VALUE_DEPTH_MAX
from anabranch.errors import SecretNotAllowed, TemplateError, TemplatePathMissing

# Needed only for texts with expressions; it imports Jinja2:
if TYPE_CHECKING:
    from anabranch.engine.rules.templates import expression as language
    from anabranch.engine.rules.templates.expression import Expression
    from anabranch.engine.rules.templates.path import Path
else:
    language = deferred("anabranch.engine.rules.templates.expression")

# Plans keep their compiled templates. This cache serves validation rules that look up the same texts one after the
# other, so that each text is compiled once. Short texts only: the cache stays within a few tens of megabytes.
_CACHE_SIZE = WORKFLOW_EXPRESSIONS_MAX
_CACHE_LENGTH_MAX = 1_024

# An error quotes its expression, shortened to a readable line.
_SHOWN_LENGTH_MAX = 120


class Template:
    """A compiled text. `resolve` gives its value in a context."""

    __slots__ = ("_parts", "has_expressions", "is_constant", "is_expression", "needs", "only", "secret_names", "text")

    def __init__(self, text: str, *, secrets: bool = False) -> None:
        """Raises TemplateError that names the expression; prefer `compile_template`."""
        self.text = text
        self._parts = _compile_parts(text, secrets=secrets)
        expressions = [part for part in self._parts if not isinstance(part, str)]
        self.has_expressions = bool(expressions)
        self.only = expressions[0] if len(self._parts) == len(expressions) == 1 else None
        self.is_expression = self.only is not None
        """The text is exactly one `{{ … }}`: its value keeps its type."""
        self.is_constant = not any(expression.reads_context for expression in expressions)
        """It has the same value in every context."""
        self.needs: frozenset[Path] = frozenset(path for each in expressions for path in each.needs)
        """What it cannot do without, as far as written out: `("orders", "id")` for `ctx.orders.id`."""
        self.secret_names: frozenset[str] = frozenset(name for each in expressions for name in each.secret_names)
        """The secrets that it inserts: `work` must bring them."""

    def __repr__(self) -> str:
        return f"Template({_shown(self.text)})"

    def resolve(self, ctx: Mapping[str, Any], work: TemplateBudget | None = None) -> Any:
        """The value in this context; parts of the context are shared, not copied.

        One expression alone keeps its type. In longer text, text values are inserted as they are and other values as
        JSON (`true`, `null`, `[1,2]`). `work` is a budget shared by several templates. Raises TemplatePathMissing, or
        TemplateError for every other failure; both name the expression, never a value.
        """
        work = TemplateBudget() if work is None else work
        if self.only is not None:
            return _evaluate(self.only, ctx, work)
        try:
            return _text_of(self._parts, ctx, work)
        except Refused as refusal:
            raise TemplateError(f"{_shown(self.text)}: {refusal}") from None


def compile_template(text: str, *, secrets: bool = False) -> Template:
    """The compiled form of a text; `secrets` makes `secret.NAME` available.

    Raises TemplateError that names the expression, or SecretNotAllowed.
    """
    if len(text) <= _CACHE_LENGTH_MAX:
        return _compile_cached(text, secrets)
    return Template(text, secrets=secrets)


Resolve: TypeAlias = Callable[[Mapping[str, Any], TemplateBudget], Any]


class CompiledConfig:
    """A JSON value whose texts are templates, compiled once; keys are not resolved."""

    __slots__ = ("is_constant", "resolve_within", "secret_names")

    def __init__(self, value: Any, resolve: Resolve | None, secret_names: frozenset[str] = frozenset()) -> None:
        self.resolve_within: Resolve = (lambda ctx, work: value) if resolve is None else resolve
        """As `resolve`, with the caller's budget."""
        self.secret_names = secret_names
        """The secrets that its templates insert."""
        self.is_constant = resolve is None
        """There is nothing to resolve in it."""

    def resolve(self, ctx: Mapping[str, Any], secrets: Mapping[str, str] | None = None) -> Any:
        """The value with every template resolved; the same object if it has none.

        `secrets` has the values for `secret_names`. Raises TemplateError or TemplatePathMissing, which name the
        expression and its pointer.
        """
        return self.resolve_within(ctx, TemplateBudget(secrets or {}))


def compile_config(value: Any, *, unresolved: frozenset[str] = frozenset(), secrets: bool = False) -> CompiledConfig:
    """Compile every text in a config, except in its top-level fields named `unresolved`.

    Raises TemplateError, with expression and pointer, for the first text that does not compile.
    """
    resolve = _compile_value(value, "", unresolved, secrets=secrets)
    names = frozenset(name for _, template in config_templates(value) for name in template.secret_names)
    return CompiledConfig(value, resolve, names if secrets else frozenset())


def compile_fields(config: Mapping[str, Any], *, unresolved: frozenset[str] = frozenset()) -> dict[str, Resolve]:
    """The fields of a config that have templates, each with what resolves it.

    Raises TemplateError, with expression and pointer, for the first text that does not compile.
    """
    compiled = {
        name: _compile_value(value, _pointer("", name), secrets=False)
        for name, value in config.items()
        if name not in unresolved
    }
    return {name: resolve for name, resolve in compiled.items() if resolve is not None}


def config_templates(value: Any) -> Iterator[tuple[str, Template]]:
    """Every text with expressions in a config, with its JSON pointer; those that do not compile are left out."""
    for pointer, text in texts_in(value):
        try:
            # `config_problems` reports secrets in the wrong place.
            template = compile_template(text, secrets=True)
        except TemplateError:
            continue
        if template.has_expressions:
            yield pointer, template


def count_expressions(value: Any, count: ExpressionCount) -> None:
    """Add the expressions of every text in a config to a count, until there are too many."""
    for _, text in texts_in(value):
        count.add(text)
        if count.is_too_much:
            return


def has_expressions(value: Any) -> bool:
    """Whether the text contains `{{ … }}`. Raises TemplateError if it does not compile."""
    return isinstance(value, str) and compile_template(value).has_expressions


def config_problems(value: Any, *, secrets: bool = False) -> Iterator[tuple[str, TemplateError]]:
    """Every text in a config that does not compile, with its JSON pointer; `secrets`: `secret.NAME` is available in
    it."""
    for pointer, text in texts_in(value):
        try:
            compile_template(text, secrets=secrets)
        except TemplateError as problem:
            yield pointer, problem


@lru_cache(maxsize=_CACHE_SIZE)
def _compile_cached(text: str, secrets: bool) -> Template:  # noqa: FBT001 -- part of the cache's key
    return Template(text, secrets=secrets)


def _compile_parts(text: str, *, secrets: bool) -> tuple[str | Expression, ...]:
    try:
        pieces = list(split(text))
    except Refused as refusal:
        raise TemplateError(f"{_shown(text)}: {refusal}") from None
    return tuple(piece if isinstance(piece, str) else _compile_expression(piece, secrets=secrets) for piece in pieces)


def _compile_expression(source: ExpressionSource, *, secrets: bool) -> Expression:
    try:
        return language.Expression(source.text, secrets=secrets)
    except Refused as refusal:
        error = SecretNotAllowed if isinstance(refusal, SecretMisplaced) else TemplateError
        raise error(f"{_shown(source.text, braces=True)}: {refusal}") from None


def _text_of(parts: tuple[str | Expression, ...], ctx: Mapping[str, Any], work: TemplateBudget) -> str:
    texts, size = [], 0
    for part in parts:
        text = part if isinstance(part, str) else work.text_of(_evaluate(part, ctx, work))
        texts.append(text)
        size += len(text)
        check_size(size)
    work.spend(size)
    return "".join(texts)


def _evaluate(expression: Expression, ctx: Mapping[str, Any], work: TemplateBudget) -> Any:
    try:
        return expression.evaluate(ctx, work)
    except (Refused, TemplatePathMissing) as problem:
        raise _about(expression, problem) from None


def _about(expression: Expression, problem: Refused | TemplatePathMissing) -> TemplateError:
    shown = _shown(expression.text, braces=True)
    if isinstance(problem, TemplatePathMissing):
        return TemplatePathMissing(f"{shown}: {problem.message}")
    return TemplateError(f"{shown}: {problem}")


def _compile_value(
    value: Any, pointer: str, unresolved: frozenset[str] = frozenset(), *, secrets: bool
) -> Resolve | None:
    """A function that resolves a part of a config; None if there is nothing to resolve."""
    if isinstance(value, str):
        return _compile_leaf(value, pointer, secrets=secrets)
    if not isinstance(value, (dict, list)):
        return None
    if pointer.count("/") >= VALUE_DEPTH_MAX:
        raise TemplateError(f"the config is nested more than {VALUE_DEPTH_MAX} levels deep")
    children = [
        (key, child, None if key in unresolved else _compile_value(child, _pointer(pointer, key), secrets=secrets))
        for key, child in (value.items() if isinstance(value, dict) else enumerate(value))
    ]
    if all(resolve is None for _, _, resolve in children):
        return None
    if isinstance(value, list):
        return lambda ctx, work: [item if resolve is None else resolve(ctx, work) for _, item, resolve in children]
    parts = [(key, resolve) for key, _, resolve in children if resolve is not None]

    def resolve_parts(ctx: Mapping[str, Any], work: TemplateBudget) -> dict[str, Any]:
        resolved = {**value}  # for its order
        for key, resolve in parts:
            resolved[key] = resolve(ctx, work)
        return resolved

    return resolve_parts


def _compile_leaf(text: str, pointer: str, *, secrets: bool) -> Resolve | None:
    try:
        template = compile_template(text, secrets=secrets)
    except TemplateError as problem:
        raise _located(problem, pointer) from None
    if not template.has_expressions:
        return None

    only = template.only
    if only is None:

        def resolve(ctx: Mapping[str, Any], work: TemplateBudget) -> Any:
            try:
                return template.resolve(ctx, work)
            except TemplateError as problem:
                raise _located(problem, pointer) from None

        return resolve
    evaluate = only.evaluate

    def resolve_only(ctx: Mapping[str, Any], work: TemplateBudget) -> Any:
        try:
            return evaluate(ctx, work)
        except (Refused, TemplatePathMissing) as problem:
            raise _located(_about(only, problem), pointer) from None

    return resolve_only


def _located(problem: TemplateError, pointer: str) -> TemplateError:
    return type(problem)(f"{problem.message} (config{pointer})", details={"pointer": pointer})


def texts_in(value: Any) -> Iterator[tuple[str, str]]:
    """Every text in a JSON value with its pointer, in order; values nested deeper than any config may be are cut."""
    stack: list[tuple[str, Any, int]] = [("", value, 0)]
    while stack:
        pointer, part, depth = stack.pop()
        if isinstance(part, str):
            yield pointer, part
        elif isinstance(part, (dict, list)) and depth < VALUE_DEPTH_MAX:
            children = part.items() if isinstance(part, dict) else enumerate(part)
            stack.extend(reversed([(_pointer(pointer, key), child, depth + 1) for key, child in children]))


def _pointer(parent: str, key: Any) -> str:
    return f"{parent}/{str(key).replace('~', '~0').replace('/', '~1')}"


def _shown(text: str, *, braces: bool = False) -> str:
    short = text if len(text) <= _SHOWN_LENGTH_MAX else text[:_SHOWN_LENGTH_MAX] + "…"
    return f"`{{{{ {short} }}}}`" if braces else f"`{short}`"
