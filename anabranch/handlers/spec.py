"""The SPEC of a node type, the handler and node type made of it, and the registry of all types.

Used by the modules of types, by `declare` and by `registry`. One pydantic model checks a config twice: at save, where
values with templates are accepted, and when an attempt starts, with all templates resolved.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import Any, Protocol, TypeAlias

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from anabranch.dataclass import dataclass
from anabranch.engine.handler_contract import HandlerResult, HandlerReturn, Helpers
from anabranch.engine.rules.events import ERROR_HANDLE
from anabranch.engine.rules.graph.node_types import (
    ConfigProblem,
    DynamicHandles,
    HandleDescription,
    NodeType,
    NodeTypeDescription,
    SideEffects,
)
from anabranch.engine.rules.graph.plan import Evaluator
from anabranch.engine.rules.templates.budget import TemplateBudget
from anabranch.engine.rules.templates.template import (
    CompiledConfig,
    Resolve,
    compile_config,
    compile_fields,
    config_problems,
    has_expressions,
)
from anabranch.errors import NonRetryable, TemplateError
from anabranch.handlers.config_schema import schema_with_templates
from anabranch.handlers.masking import Masker

# 4,096 configs compiled at once: the nodes of the few hundred workflows that run at a time.
CONFIGS_KEPT_MAX = 4_096

# 30 seconds, the default timeout of a handler.
DEFAULT_TIMEOUT_MS = 30_000

Problem: TypeAlias = ConfigProblem


ConfigModel: TypeAlias = type[BaseModel]


class NodeConfig(BaseModel):
    """Base of the built-in types' configs: JSON kinds are not converted, unknown fields are refused.

    The validator of a type is built when the type is first used: a run needs a few of them.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)


class SecretReader(Protocol):
    """Reads the secrets of an attempt."""

    async def read(self, tenant_id: str, names: Collection[str]) -> Mapping[str, str]:
        """The values of all these secrets. Raises SecretUnknown, naming those that are not there."""


@dataclass(frozen=True, slots=True, eq=False)
class HandlerSpec:
    """One node type: what the validator and the editor need to know, and how it is executed."""

    type: str
    title: str
    config: ConfigModel | None
    """The model of its config; None accepts any object unchanged."""
    execute: Callable[[Any, Mapping[str, Any], Helpers], Awaitable[HandlerReturn]] | None = None
    """Given the resolved and checked config, the context and the helpers. None for a pure type."""
    evaluate: Callable[[Any, Mapping[str, Any], TemplateBudget], tuple[Any, str | None]] | None = None
    """For a pure type: computes output and handle from the resolved, checked config and the context. Must not use
    clock, randomness, environment, secrets, logging or I/O, must always return the same, and must keep nothing in the
    config, which may serve other evaluations."""
    handles: Sequence[str] | Callable[[Mapping[str, Any]], Sequence[str]] = ("default",)
    """Ignored with `dynamic_handles`."""
    has_error_handle: bool = True
    unresolved: frozenset[str] = frozenset()
    """Fields whose templates are not resolved beforehand: handler or rules evaluate them in their own time."""
    fixed: frozenset[str] = frozenset()
    """Fields that the plan is compiled from: no templates in them."""
    literal: frozenset[str] = frozenset()
    """Fields that are not templates even if they contain braces: the code of code nodes."""
    inspect: Callable[[Mapping[str, Any]], Iterable[Problem]] = lambda config: ()
    """Additional checks of a config at save."""
    timeout_ms: int | None = DEFAULT_TIMEOUT_MS
    pool: str | None = None
    """The pool of nodes of this type that name none; None: that of their workflow."""
    secrets: SecretReader | None = None
    """The reader of `{{secret.NAME}}` in its config; None: the type gets no secrets."""
    unbounded: Callable[[Mapping[str, Any]], bool] = lambda config: False
    category: str = "custom"
    icon: str | None = None
    """A name of the editor's set of icons; None: it shows initials."""
    description: str = ""
    """One sentence for the palette."""
    side_effects: SideEffects = "unknown"
    """Whether executing it changes anything outside the run."""
    handle_titles: Mapping[str, str] = field(default_factory=dict)
    """Labels of handles whose id is not enough."""
    dynamic_handles: DynamicHandles | None = None
    """Where the config lists the handles, so that an editor can derive them, too."""
    body_handle: str | None = None
    """Of a node that is the frame of a body: the handle that leads into it."""
    docs: str | None = None
    output_schema: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda config: {}
    """JSON Schema of what a node with this config puts out, as far as that is known."""

    def node_type(self) -> NodeType:
        """The node type for the rules."""
        return NodeType(
            type=self.type,
            title=self.title,
            config_schema=self._config_schema(),
            handles=self._handles_of,
            check=self.check,
            has_error_handle=self.has_error_handle,
            default_timeout_ms=self.timeout_ms,
            pool=self.pool,
            unbounded=self.unbounded,
            description=NodeTypeDescription(
                category=self.category,
                icon=self.icon,
                description=self.description,
                docs=self.docs,
                side_effects=self.side_effects,
                handles=self._described_handles(),
                dynamic_handles=self.dynamic_handles,
                handles_computed=callable(self.handles),
                container=self.body_handle,
                output_schema=self.output_schema,
            ),
            evaluator=self.evaluator,
        )

    def evaluator(self, config: Mapping[str, Any]) -> Evaluator | None:
        """The evaluator of a node with this config, if its type is pure. Raises if the config is wrong."""
        evaluate = self.evaluate
        if evaluate is None:
            return None
        fields = compile_fields(config, unresolved=self.unresolved | self.literal)
        if not fields:
            checked = self.checked(config)
            return lambda context, work: evaluate(checked, context, work)
        if all(self._takes_anything(name, config[name]) for name in fields):
            return _evaluator_with(fields, self.checked(config), evaluate)
        return lambda context, work: evaluate(
            self.checked({**config, **{name: resolve(context, work) for name, resolve in fields.items()}}),
            context,
            work,
        )

    def _takes_anything(self, name: str, value: Any) -> bool:
        """Whether a field of the config is valid whatever the templates in this value resolve to."""
        if self.config is None:
            return False
        field, validators = self.config.model_fields.get(name), self.config.__pydantic_decorators__
        if field is None or field.validation_alias is not None or field.metadata:
            return False
        if validators.field_validators or validators.model_validators or self.config.__pydantic_post_init__:
            return False
        return field.annotation is Any or (field.annotation == dict[str, Any] and type(value) is dict)

    def checked(self, resolved: Any) -> Any:
        """A resolved config as `execute` and `evaluate` take it. Raises NonRetryable: NODE_CONFIG_INVALID."""
        if self.config is None:
            return resolved
        try:
            return self.config.__pydantic_validator__.validate_python(resolved)  # as `model_validate` does
        except ValidationError as refusal:
            text = "; ".join(f"config{_pointer(each, resolved)}: {_message(each)}" for each in refusal.errors())
            raise NonRetryable(text, code="NODE_CONFIG_INVALID") from None

    def check(self, config: Mapping[str, Any]) -> Iterator[Problem]:
        """The problems of a config at save; values with templates are not checked."""
        templates = {name: value for name, value in config.items() if name not in self.literal}
        for pointer, problem in config_problems(templates, secrets=self.secrets is not None):
            yield problem.code, pointer, problem.message
        for name in sorted(self.fixed):
            if _holds_template(config.get(name)):
                yield (
                    "TEMPLATE_NOT_ALLOWED",
                    f"/{name}",
                    f"{name} is read when the workflow is saved: no templates in it",
                )
        if self.config is not None:
            try:
                self.config.model_validate(dict(config))
            except ValidationError as refusal:
                yield from _written_problems(refusal, config)
        yield from self.inspect(config)

    def _config_schema(self) -> Mapping[str, Any]:
        if self.config is None:
            return {"type": "object"}
        return schema_with_templates(
            self.config, as_written=self.unresolved, without_templates=self.fixed | self.literal
        )

    def _handles_of(self, config: Mapping[str, Any]) -> Sequence[str]:
        if self.dynamic_handles is not None:
            return self.dynamic_handles.ids(config)
        return self.handles(config) if callable(self.handles) else self.handles

    def _described_handles(self) -> tuple[HandleDescription, ...]:
        """The handles for an empty config; only `error` if the type cannot tell."""
        try:
            ids = list(self._handles_of({}))
        except Exception:  # noqa: BLE001 -- other people's code
            ids = []
        described = [
            HandleDescription(each, self.handle_titles.get(each, _capitalized(each)), "body")
            if each == self.body_handle
            else HandleDescription(each, self.handle_titles.get(each, _capitalized(each)))
            for each in ids
        ]
        error = [HandleDescription(ERROR_HANDLE, "Error", "error")] if self.has_error_handle else []
        return (*described, *error)


def _evaluator_with(
    fields: Mapping[str, Resolve], checked: NodeConfig, evaluate: Callable[[Any, Any, Any], tuple[Any, str | None]]
) -> Evaluator:
    """The evaluator of a node whose config is checked once: each evaluation only sets the fields with templates.

    An evaluation awaits nothing, so that one object serves all; what is derived of the fields must not be kept in it.
    """
    templates, values = tuple(fields.items()), checked.__dict__

    def evaluator(context: Mapping[str, Any], work: TemplateBudget) -> tuple[Any, str | None]:
        try:
            for name, resolve in templates:
                values[name] = resolve(context, work)
            return evaluate(checked, context, work)
        finally:
            for name, _ in templates:
                values[name] = None  # plans are kept, and values may be large

    return evaluator


class SpecHandler:
    """Executes the nodes of one type: resolves the config, checks it, calls the type's `execute`."""

    def __init__(self, spec: HandlerSpec) -> None:
        self._spec = spec
        # By identity: a plan keeps one object per node. The config is kept too, for an id is
        # only good while its object lives.
        self._compiled: dict[int, tuple[Any, CompiledConfig]] = {}

    def execute(self, config: Any, context: Mapping[str, Any], helpers: Helpers) -> Awaitable[HandlerReturn]:
        """Run one attempt with the saved config.

        Secrets are read for this attempt and masked in all its output. Raises NonRetryable with NODE_CONFIG_INVALID for
        a resolved config that is invalid, TemplateError for one that does not resolve, SecretUnknown, and the
        exceptions of the type.
        """
        compiled = self._compiled_of(config)
        spec = self._spec
        if compiled.secret_names and spec.secrets is not None:
            return self._execute_with_secrets(compiled, context, helpers)
        resolved = config if compiled.is_constant else compiled.resolve(context)
        if spec.execute is not None:
            return spec.execute(spec.checked(resolved), context, helpers)
        return self._evaluate(resolved, context)

    async def _execute_with_secrets(
        self, compiled: CompiledConfig, context: Mapping[str, Any], helpers: Helpers
    ) -> HandlerReturn:
        assert self._spec.secrets is not None, "the caller has looked"
        secrets = await self._spec.secrets.read(helpers.tenant_id, compiled.secret_names)
        return await self._execute_with(secrets, partial(compiled.resolve, context, secrets), context, helpers)

    async def resolve(
        self, config: Any, context: Mapping[str, Any], *, tenant_id: str
    ) -> tuple[Any, Mapping[str, str]]:
        """The config as another process executes it, with its templates resolved, and the secrets that it has.

        Raises what `execute` raises before it calls the type.
        """
        compiled = self._compiled_of(config)
        secrets: Mapping[str, str] = {}
        if compiled.secret_names and self._spec.secrets is not None:
            secrets = await self._spec.secrets.read(tenant_id, compiled.secret_names)
        try:
            resolved = config if compiled.is_constant else compiled.resolve(context, secrets)
            self._spec.checked(resolved)
        except Exception as failure:
            if not secrets:
                raise
            Masker(secrets.values()).reraise(failure)
        return resolved, secrets

    async def execute_resolved(
        self, resolved: Any, secrets: Mapping[str, str], context: Mapping[str, Any], helpers: Helpers
    ) -> HandlerReturn:
        """Run one attempt with what `resolve` has returned in another process. Raises what `execute` raises."""
        if secrets:
            return await self._execute_with(secrets, lambda: resolved, context, helpers)
        spec = self._spec
        if spec.execute is not None:
            return await spec.execute(spec.checked(resolved), context, helpers)
        return await self._evaluate(resolved, context)

    async def _evaluate(self, resolved: Any, context: Mapping[str, Any]) -> HandlerResult:
        evaluate = self._spec.evaluate
        assert evaluate is not None, "a type has either of them"
        output, next_handle = evaluate(self._spec.checked(resolved), context, TemplateBudget())
        return HandlerResult(output, next_handle=next_handle)

    async def _execute_with(
        self, secrets: Mapping[str, str], resolve: Callable[[], Any], context: Mapping[str, Any], helpers: Helpers
    ) -> HandlerReturn:
        execute = self._spec.execute
        assert execute is not None, "pure types are given no secrets"
        masker = Masker(secrets.values())
        helpers.mask = masker.text
        try:
            return masker.returned(await execute(self._spec.checked(resolve()), context, helpers))
        except Exception as failure:  # noqa: BLE001 -- whatever it is, its message may hold a secret
            masker.reraise(failure)

    def _compiled_of(self, config: Any) -> CompiledConfig:
        known = self._compiled.get(id(config))
        if known is not None:
            return known[1]
        takes_secrets = self._spec.secrets is not None
        unresolved = self._spec.unresolved | self._spec.literal
        compiled = compile_config(config, unresolved=unresolved, secrets=takes_secrets)
        if len(self._compiled) >= CONFIGS_KEPT_MAX:
            del self._compiled[next(iter(self._compiled))]
        self._compiled[id(config)] = (config, compiled)
        return compiled


_Entry = tuple[HandlerSpec, NodeType, SpecHandler]


class NodeTypeRegistry:
    """Node types and their handlers, by name. Types declared later are found as soon as they are."""

    def __init__(self, specs: Mapping[str, HandlerSpec], *, declared: Mapping[str, HandlerSpec] | None = None) -> None:
        self._specs = specs
        self._names = frozenset(specs)
        self._builtin: dict[str, _Entry] = {}
        """The entries of those that were asked for."""
        self._declared: Mapping[str, HandlerSpec] = {} if declared is None else declared
        self._entries: dict[str, _Entry] = {}

    def get(self, type_name: str) -> NodeType | None:
        """The type, or None if it is not registered."""
        entry = self._entry(type_name)
        return None if entry is None else entry[1]

    def handler(self, type_name: str) -> SpecHandler | None:
        """The handler of a type, or None if it is not registered."""
        entry = self._entry(type_name)
        return None if entry is None else entry[2]

    def names(self) -> Sequence[str]:
        """Every registered name, sorted."""
        return sorted({*self._names, *self._declared})

    def _entry(self, type_name: str) -> _Entry | None:
        entry = self._builtin.get(type_name)
        if entry is not None:
            return entry
        spec = self._declared.get(type_name)
        if spec is None:
            spec = self._specs.get(type_name)
            if spec is not None:
                entry = self._builtin[type_name] = (spec, spec.node_type(), SpecHandler(spec))
            return entry
        entry = self._entries.get(type_name)
        if entry is None or entry[0] is not spec:
            entry = self._entries[type_name] = (spec, spec.node_type(), SpecHandler(spec))
        return entry


def _written_problems(refusal: ValidationError, config: Mapping[str, Any]) -> Iterator[Problem]:
    for each in refusal.errors():
        # Codes of our own (EXPRESSION_EXPECTED) are about what is written, templates included; everything
        # else is about values, and what a template will be is not known yet.
        if each["type"].isupper():
            yield each["type"], _pointer(each, config), _message(each)
        elif not _is_template(each["input"]):
            yield "CONFIG_INVALID", _pointer(each, config), _message(each)


def _is_template(value: Any) -> bool:
    return isinstance(value, str) and _holds_template(value)


def _capitalized(handle: str) -> str:
    return handle[:1].upper() + handle[1:]


def _holds_template(value: Any) -> bool:
    """Expressions somewhere in it, also ones that do not compile (those are reported by themselves)."""
    try:
        return has_expressions(value)
    except TemplateError:
        return True


def _pointer(problem: ErrorDetails, config: Any) -> str:
    """The JSON pointer of a problem in the config, without steps that only the model knows (members of a union)."""
    pointer, holder = "", config
    for position, step in enumerate(problem["loc"], start=1):
        known = (isinstance(holder, Mapping) and step in holder) or (isinstance(holder, list) and isinstance(step, int))
        if known or (problem["type"] == "missing" and position == len(problem["loc"])):
            pointer += f"/{str(step).replace('~', '~0').replace('/', '~1')}"
        if known:
            holder = holder[step]
    return pointer


def _message(problem: ErrorDetails) -> str:
    return problem["msg"].removeprefix("Value error, ")
