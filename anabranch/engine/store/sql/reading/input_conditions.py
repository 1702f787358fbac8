"""Filters on the input of runs as SQL conditions, one form per database.

Called by the dialects for `run_listing`. A condition looks into the first event of a run, by primary key, once for each
row that a listing visits. Paths and values are parameters; the text depends only on their number and JSON types.
"""

# Conditions are put together from words of this file alone; paths and values are always parameters.
# ruff: noqa: S608

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import orjson
from sqlalchemy import TextClause, text

from anabranch.engine.rules.run_filter import WantedInput, index_of
from anabranch.engine.rules.values import Payload

# Texts that `#>` accepts as a list index (from the end, with blanks or signs), but we do not.
_ALMOST_INDEX = re.compile(r"\s*[+-]?\d+\s*")

# SQLite's integers end here; beyond, its JSON has floating-point numbers.
_SQLITE_INTEGER_MAX = 2**63 - 1


# Between the steps of a path that is compared as one text; no key of a JSON object has one unescaped.
_STEP_END = "\x1f"

# At most one large part holds what a path leads to. It is put in its place for the comparison, and found by hash.
_WHOLE_IN_POSTGRESQL = """CASE WHEN l.parts IS NULL THEN l.payload ELSE coalesce((
    SELECT CAST(jsonb_set(CAST(l.payload AS jsonb), at.path, CAST(v.body AS jsonb)) AS json)
    FROM json_array_elements(CAST(l.parts AS json)) AS x(part)
    CROSS JOIN LATERAL (SELECT ARRAY(SELECT json_array_elements_text(x.part -> 0)) AS path) AS at
    JOIN stored_values AS v ON v.sha256 = x.part ->> 1 AND v.tenant_id = workflow_instances.tenant_id
    WHERE array_to_string(at.path, chr(31)) = ANY(CAST(:above_{number} AS text[]))), l.payload) END"""

_WHOLE_IN_SQLITE = """CASE WHEN l.parts IS NULL THEN l.payload ELSE coalesce((
    SELECT json_set(l.payload, (
        SELECT '$' || group_concat(CASE type WHEN 'integer' THEN '[' || value || ']'
                                   ELSE '.' || json_quote(value) END, '')
        FROM json_each(x.value -> 0)), json(v.body))
    FROM json_each(l.parts) AS x
    JOIN stored_values AS v ON v.sha256 = x.value ->> 1 AND v.tenant_id = workflow_instances.tenant_id
    WHERE (SELECT group_concat(value, char(31)) FROM json_each(x.value -> 0))
        IN (SELECT value FROM json_each(:above_{number}))), l.payload) END"""


def _above(path: Sequence[str]) -> list[str]:
    """The paths of what is around a path, and itself."""
    return [_STEP_END.join(path[:length]) for length in range(1, len(path) + 1)]


def postgresql_condition(wanted: WantedInput, number: int) -> TextClause:
    """Equality as `jsonb` has it: numbers by value, objects in any key order.

    A scalar subselect, which the planner cannot turn into a join with the whole log.
    """
    path = ["input", *wanted.path]
    parameters: dict[str, Any] = {f"path_{number}": path, f"above_{number}": _above(path)}
    whole = _WHOLE_IN_POSTGRESQL.format(number=number)
    guards = ""
    for position, step in enumerate(path):
        if _ALMOST_INDEX.fullmatch(step) and index_of(step) is None:
            parameters[f"path_{number}_{position}"] = path[:position]
            guards += f" AND json_typeof(({whole}) #> CAST(:path_{number}_{position} AS text[])) <> 'array'"
    names = [f"value_{number}_{index}" for index in range(len(wanted.values))]
    parameters |= {name: value.raw.decode() for name, value in zip(names, wanted.values, strict=True)}
    return text(f"""
        CAST((SELECT ({whole}) #> CAST(:path_{number} AS text[]) FROM workflow_instance_logs AS l
              WHERE l.instance_id = workflow_instances.instance_id AND l.seq = 1{guards}) AS jsonb)
        IN ({", ".join(f"CAST(:{name} AS jsonb)" for name in names)})
    """).bindparams(**parameters)


def sqlite_condition(wanted: WantedInput, number: int) -> TextClause:
    """Step by step through `json_each`, whose keys need no quoting; containers are compared leaf by leaf.

    No function calls back into Python, so a listing of many runs does not need the interpreter lock.
    """
    path = ["input", *wanted.path]
    parameters: dict[str, Any] = {f"above_{number}": orjson.dumps(_above(path)).decode()}
    whole = _WHOLE_IN_SQLITE.format(number=number)
    sources, conditions = ["workflow_instance_logs AS l"], []
    for position, step in enumerate(path):
        above = f"s{position - 1}"
        source = whole if position == 0 else _container(above)
        sources.append(f"json_each({source}) AS s{position}")
        parameters[f"key_{number}_{position}"] = step
        key = f":key_{number}_{position}"
        if position > 0 and (index := index_of(step)) is not None:
            parameters[f"index_{number}_{position}"] = index
            key = f"CASE {above}.type WHEN 'array' THEN :index_{number}_{position} ELSE {key} END"
        conditions.append(f"s{position}.key = {key}")
    equal = []
    for index, value in enumerate(wanted.values):
        name = f"value_{number}_{index}"
        condition, parameter = _sqlite_equality(f"s{len(path) - 1}", value, name)
        equal.append(condition)
        parameters[name] = parameter
    return text(f"""
        EXISTS (SELECT 1 FROM {" CROSS JOIN ".join(sources)}
                WHERE l.instance_id = workflow_instances.instance_id AND l.seq = 1
                  AND {" AND ".join(conditions)} AND ({" OR ".join(equal)}))
    """).bindparams(**parameters)


def _sqlite_equality(row: str, wanted: Payload, name: str) -> tuple[str, Any]:
    """The condition that a row of `json_each` has this value, and the parameter of it."""
    match wanted.value:
        case str() as words:
            return f"({row}.type = 'text' AND {row}.value = :{name})", words
        case None | bool():
            return f"{row}.type = :{name}", wanted.raw.decode()
        case int() | float() as value:
            number = value if abs(value) <= _SQLITE_INTEGER_MAX else float(value)
            return f"({row}.type IN ('integer', 'real') AND {row}.value = :{name})", number
        case _:
            kind = "object" if isinstance(wanted.value, dict) else "array"
            theirs, ours = _leaves(_container(row)), _leaves(f":{name}")
            differs = f"EXISTS ({theirs} EXCEPT {ours}) OR EXISTS ({ours} EXCEPT {theirs})"
            return f"({row}.type = '{kind}' AND NOT ({differs}))", wanted.raw.decode()


def _leaves(document: str) -> str:
    return f"SELECT fullkey, CASE type WHEN 'integer' THEN 'real' ELSE type END, atom FROM json_tree({document})"


def _container(row: str) -> str:
    """The value of a row of `json_each` if it is a list or object; a bare text would not be JSON."""
    return f"CASE WHEN {row}.type IN ('object', 'array') THEN {row}.value ELSE '[]' END"
