"""`merge`: puts several lists together, or takes the first that has arrived."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Literal

from pydantic import Field

from anabranch.engine.rules.templates.budget import ITEM_UNITS, Refused, TemplateBudget
from anabranch.engine.rules.templates.filter_arguments import ABSENT
from anabranch.engine.rules.templates.template import compile_config, has_expressions
from anabranch.errors import TemplatePathMissing
from anabranch.handlers.config_fields import x_ui
from anabranch.handlers.spec import HandlerSpec, NodeConfig
from anabranch.handlers.types.data.items import FIELDS_MAX, FieldPath, identities, object_item, pure, weight

# 16 lists: as many branches as one can still see on a canvas.
LISTS_MAX = 16


class MergeConfig(NodeConfig):
    """The lists and how to put them together."""

    mode: Literal["append", "byKey", "byPosition", "allPairs", "first"] = Field(
        "append",
        description="`append`: one list after the other. `byKey`: objects with equal keys become one."
        " `byPosition`: the first with the first, and so on. `allPairs`: each with each. `first`: the first list"
        " that is there.",
    )
    sources: list[Any] = Field(
        min_length=1,
        max_length=LISTS_MAX,
        description="The lists. One that is missing, because its branch was not taken, counts as empty.",
        json_schema_extra=x_ui(placeholder="{{ ctx.orders }}"),
    )
    key: list[FieldPath] = Field(
        [],
        max_length=FIELDS_MAX,
        description="The fields whose equality makes two objects one.",
        json_schema_extra=x_ui(show_if={"/mode": "byKey"}),
    )
    keep: Literal["all", "matching", "first"] = Field(
        "all",
        description="Which objects stay: `all`, only those in every list (`matching`), or those of the `first` list.",
        json_schema_extra=x_ui(show_if={"/mode": ["byKey", "byPosition"]}),
    )


def evaluate(config: MergeConfig, context: Mapping[str, Any], work: TemplateBudget) -> tuple[Any, None]:
    """The one list; of two objects that become one, the later fields win."""
    found = list(_lists(config.sources, context, work))
    if config.mode == "first":
        return next((each for each in found if each is not ABSENT), []), None
    lists = [[] if each is ABSENT else each for each in found]
    for each in lists:
        if not isinstance(each, list):
            raise Refused("`merge` needs lists, and one of its sources is not a list")
    work.spend(sum(map(len, lists)) * ITEM_UNITS)
    made = list(_MODES[config.mode](config, lists, work))
    return work.built(made, weight(made, work)), None


def _lists(sources: Sequence[Any], context: Mapping[str, Any], work: TemplateBudget) -> Iterator[Any]:
    for source in sources:
        try:
            yield compile_config(source).resolve_within(context, work)
        except TemplatePathMissing:
            yield ABSENT


def _append(config: MergeConfig, lists: Sequence[list[Any]], work: TemplateBudget) -> Iterator[Any]:
    for each in lists:
        yield from each


def _by_key(config: MergeConfig, lists: Sequence[list[Any]], work: TemplateBudget) -> Iterator[Any]:
    if not config.key:
        raise Refused("`merge` by key needs a `key`: the fields that have to be equal")
    columns: list[dict[bytes, dict[str, Any]]] = []
    for each in lists:
        column: dict[bytes, dict[str, Any]] = {}
        for index, (name, item) in enumerate(zip(identities(each, config.key, work), each, strict=True)):
            column[name] = {**column.get(name, {}), **object_item(item, index, "merge")}
        columns.append(column)
    names = dict.fromkeys(name for column in columns for name in column)
    if config.keep == "matching":
        names = {name: None for name in names if all(name in column for column in columns)}
    elif config.keep == "first":
        names = dict.fromkeys(columns[0])
    for name in names:
        yield _joined([column[name] for column in columns if name in column], work)


def _by_position(config: MergeConfig, lists: Sequence[list[Any]], work: TemplateBudget) -> Iterator[Any]:
    lengths = [len(each) for each in lists]
    count = {"all": max(lengths), "matching": min(lengths), "first": lengths[0]}[config.keep]
    for position in range(count):
        present = [each[position] for each in lists if position < len(each)]
        yield _joined([object_item(item, position, "merge") for item in present], work)


def _all_pairs(config: MergeConfig, lists: Sequence[list[Any]], work: TemplateBudget) -> Iterator[Any]:
    total = 0
    for row in product(*lists):
        made = _joined([object_item(item, 0, "merge") for item in row], work)
        total += work.weigh(made)
        # Each pair is checked as it is made: two lists of a thousand have a million pairs.
        work.built([], total)
        yield made


def _joined(parts: Sequence[dict[str, Any]], work: TemplateBudget) -> dict[str, Any]:
    work.spend(ITEM_UNITS * len(parts))
    made: dict[str, Any] = {}
    for part in parts:
        made.update(part)
    work.built(made, sum(work.weigh(part) for part in parts))
    return made


_MODES = {"append": _append, "byKey": _by_key, "byPosition": _by_position, "allPairs": _all_pairs}


def _inspect(config: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    if config.get("mode") == "byKey" and not config.get("key"):
        yield "NODE_CONFIG_INVALID", "/key", "`key` names the fields that have to be equal"
    sources = config.get("sources")
    for position, source in enumerate(sources if isinstance(sources, list) else ()):
        if not isinstance(source, list) and not has_expressions(source):
            yield "NODE_CONFIG_INVALID", f"/sources/{position}", "a source is a list, or an expression that gives one"


SPEC = HandlerSpec(
    type="merge",
    title="Merge",
    config=MergeConfig,
    evaluate=pure(evaluate),
    unresolved=frozenset({"sources"}),
    inspect=_inspect,
    category="data",
    icon="merge",
    description="Puts several lists together, or takes the first that is there.",
    side_effects="none",
    docs="#merge",
    output_schema=lambda config: {} if config.get("mode") == "first" else {"type": "array"},
)
