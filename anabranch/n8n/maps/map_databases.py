"""Nodes of n8n that query databases, as saved queries whose values are bound.

Pure. Values are never written into SQL; names of tables and columns are, quoted.
"""

from __future__ import annotations

import json
import re
from typing import Any

from anabranch.n8n.job import MappingJob, NotMapped
from anabranch.n8n.maps.rules import maps
from anabranch.n8n.maps.sql_reading import bound, has_in_quotes, writes
from anabranch.n8n.refs import ItemFeed, Ref, variable
from anabranch.n8n.texts import Texts, expression, without_sign

# 128 characters: no database has longer names.
_NAME_MAX = 128

# Since version 2.2 n8n writes values of the type `json`, but not of `jsonb`, as JSON: a text stays a text there.
_JSONB, _ANY_JSON = "'jsonb'::regtype", "'json'::regtype, 'jsonb'::regtype"

_PARAMETER = re.compile(r"\$(\d+)")
_FORMED = re.compile(r"\$\d+(?:[~^#]|:[A-Za-z])")


@maps("postgres", "mySql", becomes="dataQuery")
def query(job: MappingJob) -> None:
    """`postgres`, `mySql`: a query, its values bound as parameters."""
    operation = job.fixed("operation", default="insert")
    texts, feed = job.texts(), job.needed_feed()
    args: dict[str, Any]
    match operation:
        case "executeQuery":
            written = job.option("query", default="")
            if not isinstance(written, str) or not written.strip():
                raise NotMapped("it has no query")
            sql, args = _bound(job, written, texts)
            sql, more = _numbered(job, sql, texts)
            args |= more
        case "select":
            sql, args = _selected(job), {}
        case "insert" if job.node.kind == "postgres" and job.node.version < 2:
            feed = ItemFeed(feed.items.listed(), many=False)
            sql, args = _inserted(job), {"rows": expression(f"{job.needed_feed().items.template} | tojson")}
        case "upsert" if job.node.kind == "postgres" and _has_no_key(job):
            job.always_fails("Column to match on not found in input item")
            return
        case "insert" if job.node.kind == "postgres":
            sql, args, feed = _inserted_by_mapping(job, texts)
        case _:
            raise NotMapped(f"the operation {operation}")
    changes = writes(sql)
    name = f"{job.around.name_of(job.node.name)}"
    source = job.node.credentials.get(job.node.kind) or job.node.kind
    job.secret(job.node.kind, "url")
    job.queries.append({"name": name, "source": source, "kind": job.node.kind, "sql": sql, "writes": changes,
                        "params": dict.fromkeys(args, "any")})  # fmt: skip
    config: dict[str, Any] = {"dataQueryID": name, "args": args}
    if job.node.kind == "postgres":
        config["values"] = "node"
    _name_differences(job, reads=not changes, writes_each=changes and feed.many)
    job.add("dataQuery", config, suffix="rows", each=feed, **job.attempts())
    job.nodes[-1]["name"] = job.node.name
    job.remarks.append("the query has to be saved, and its data source added: see the report")
    rows = variable(job.nodes[-1]["id"])
    found = rows.field("rows")
    if feed.many:
        of_each = f"({rows.js} ?? []).flatMap(each => each?.rows ?? [])"
        found = Ref(f"({rows.template} | map('rows', []) | flatten)", of_each)
    gives_success = _gives_success(job, str(operation), sql)
    if gives_success and feed.many and job.option("options", "queryBatching", default="single") != "single":
        code = f"return ({rows.js} ?? []).flatMap(each => each?.rows?.length ? each.rows : [{{success: true}}]);"
        job.add("javascript", {"code": code}, suffix="items", retry={"maxAttempts": 1})
        job.leave(many=True, pairing=None)
        return
    if gives_success:
        done = f"(rows => rows?.length ? rows : [{{success: true}}])({found.js})"
        found = Ref(f"({found.template} or [{{'success': true}}])", done)
    job.leave(found, many=True, pairing=None)


def _name_differences(job: MappingJob, *, reads: bool, writes_each: bool) -> None:
    """Name the differences from n8n."""
    group, name = ("options", "queryBatching") if job.node.version >= 2 else ("additionalFields", "mode")
    batching = job.option(group, name, default="single")
    if writes_each and (batching == "transaction" or (job.node.kind == "postgres" and batching != "independently")):
        job.differs("each item has a transaction of its own: where one fails, what those before changed stays")
    if job.option(group, "largeNumbersOutput") == "numbers":
        job.differs("64-bit integers and decimals are text")
    if reads and job.node.kind == "mySql" and job.around.has_followers(job.node.name):
        job.differs("dates are ISO 8601 text of another form")


# n8n 2.3 of PostgreSQL and 2.2 of MySQL are the first that say nothing where a query that only reads finds nothing.
_SILENT = {"postgres": 2.3, "mySql": 2.2}
_COMMENT = re.compile(r"/\*(?>(?:[^*\n]|\*(?!/))*)\*/")


def _gives_success(job: MappingJob, operation: str, sql: str) -> bool:
    """Whether n8n hands on `{"success": true}` where there are no rows."""
    if job.node.version < 2:
        if job.node.kind == "mySql" and not _only_selects(sql) and job.around.has_followers(job.node.name):
            job.differs("what MySQL says of a statement that writes is not handed on")
        return False
    if job.option("options", "detailedOutput") is True:
        raise NotMapped("it hands on the SQL, too")
    if job.node.version < _SILENT[job.node.kind]:
        return job.node.kind == "mySql" or operation != "select"
    return not _only_selects(sql)


def _only_selects(sql: str) -> bool:
    """Whether n8n takes SQL for a query that only reads: by the first word of each statement, lines put together."""
    parts = _COMMENT.sub("", sql).replace("\n", "").split(";")
    return all(part.strip().lower().startswith("select") for part in parts if part and not part.startswith("--"))


def _has_no_key(job: MappingJob) -> bool:
    """Whether an `upsert` names no column to tell rows by, which n8n refuses."""
    if job.node.version < 2.2:
        return False
    return not job.option("columns", "matchingColumns", default=[])


def _inserted_by_mapping(job: MappingJob, texts: Texts) -> tuple[str, dict[str, Any], ItemFeed]:
    """`insert` since version 2, of columns that are named: all items in one statement, as n8n's single batch."""
    if job.option("options", "queryBatching", default="single") != "single" or job.error_way != "stop":
        raise NotMapped("it inserts one row after the other")
    mode, values = _columns_given(job)
    if mode != "defineBelow" or not values:
        raise NotMapped("its columns are those of the items")
    if any(not name or name.startswith("=") for name in values):
        raise NotMapped("its columns are computed")
    _name_conversions(job, list(values))
    documents = ""
    if _may_be_documents(job, [name for name, value in values.items() if isinstance(value, str)]):
        documents = _JSONB if job.node.version >= 2.2 else _ANY_JSON
    job.add("set", {"values": {name: texts.value(value) for name, value in values.items()}}, suffix="row",
            each=job.needed_feed())  # fmt: skip
    rows = ItemFeed(variable(job.nodes[-1]["id"]), many=job.is_mapped).items
    wanted = job.option("options", "outputColumns", default=["*"])
    if not isinstance(wanted, list) or any(str(name).startswith("=") for name in wanted):
        raise NotMapped("the columns that come back are computed")
    returned = "*" if "*" in wanted else ", ".join(_quoted(job, str(name)) for name in wanted)
    conflict = " ON CONFLICT DO NOTHING" if job.option("options", "skipOnConflict") is True else ""
    columns = [_quoted(job, name) for name in values]
    sql = _insert_of(_table(job), columns, conflict, returned, documents=documents)
    return sql, {"rows": expression(f"{rows.template} | tojson")}, ItemFeed(rows.listed(), many=False)


def _name_conversions(job: MappingJob, columns: list[str]) -> None:
    """Values are given as JSON here, which only texts for columns of texts do not show."""
    if any(kind != "string" for kind in _kinds_of(job, columns)):
        job.differs("numbers, booleans and lists are read as the column reads JSON, where n8n writes them into the SQL")


def _kinds_of(job: MappingJob, columns: list[str]) -> list[str]:
    """The types that the schema in the export gives these columns; `object`, which may be JSON, where it tells none."""
    schema = job.option("columns", "schema", default=[])
    kinds = {str(each.get("id")): each.get("type") for each in schema if isinstance(each, dict)}
    return [str(kinds.get(name, "object")) for name in columns]


def _may_be_documents(job: MappingJob, columns: list[str]) -> bool:
    """Whether one of these columns may be of JSON."""
    return "object" in _kinds_of(job, columns)


def _columns_given(job: MappingJob) -> tuple[Any, dict[str, Any]]:
    """How columns get their values, and the values that are named."""
    if job.node.version < 2.2:
        listed = job.option("valuesToSend", "values", default=[])
        mode = job.fixed("dataMode", default="autoMapInputData")
        return mode, {str(each.get("column", "")): each.get("value") for each in listed}
    given = job.option("columns", "value")
    mode = job.fixed("columns", "mappingMode", default="autoMapInputData")
    return mode, dict(given) if isinstance(given, dict) else {}


def _insert_of(table: str, columns: list[str], conflict: str, returned: str, *, documents: str) -> str:
    """An INSERT of rows that are given as JSON, each of the table's own type.

    `documents`: the types, separated by commas, in whose columns a text is read as a document, as where it stands in
    the SQL; numbers, booleans and lists are refused there. Empty: no column has such a type.
    """
    if not documents:
        named = ", ".join(columns)
        rows = f"json_populate_recordset(NULL::{table}, CAST(:rows AS json))"
        return _sql("INSERT", f"INTO {table} ({named})", f"SELECT {named}", f"FROM {rows}{conflict}",
                    f"RETURNING {returned}")  # fmt: skip
    literal = table.replace("'", "''")
    of_json = _sql(
        "SELECT",
        "a.attname FROM pg_catalog.pg_attribute AS a JOIN pg_catalog.pg_type AS t ON t.oid = a.atttypid",
        f"WHERE a.attrelid = CAST('{literal}' AS regclass) AND a.attnum > 0",
        f"AND CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.oid END IN ({documents})",
    )
    read = (
        "CASE json_typeof(f.value) WHEN 'object' THEN f.value WHEN 'null' THEN f.value"
        " WHEN 'string' THEN CAST(f.value #>> '{}' AS json)"
        " ELSE CAST('a ' || json_typeof(f.value) || ' is not a document' AS json) END"
    )
    field = f"CASE WHEN f.key IN ({of_json}) THEN {read} ELSE f.value END"
    fields = _sql("SELECT", f"json_object_agg(f.key, {field})", "FROM json_each(given.item) AS f")
    return _sql(
        "INSERT",
        f"INTO {table} ({', '.join(columns)})",
        f"SELECT {', '.join(f'made.{each}' for each in columns)}",
        "FROM json_array_elements(CAST(:rows AS json)) AS given (item)",
        f"CROSS JOIN LATERAL json_populate_record(NULL::{table}, ({fields})) AS made{conflict}",
        f"RETURNING {returned}",
    )


def _named(job: MappingJob, parameter: str, default: str = "") -> str:
    """A name of a table or schema, quoted for its database."""
    written = job.option(parameter, default=default)
    name = without_sign(written.get("value", "") if isinstance(written, dict) else written)
    if not isinstance(name, str) or not name or name.startswith("=") or len(name) > _NAME_MAX or "\0" in name:
        raise NotMapped(f"its {parameter} is computed")
    return _quoted(job, name)


def _quoted(job: MappingJob, name: str) -> str:
    if "{{" in name:
        raise NotMapped("the name of a table or column has `{{` in it")
    mark = "`" if job.node.kind == "mySql" else '"'
    return mark + name.replace(mark, mark * 2) + mark


def _table(job: MappingJob) -> str:
    table = _named(job, "table")
    return table if job.node.kind == "mySql" else f"{_named(job, 'schema', 'public')}.{table}"


def _sql(*words: str) -> str:
    return " ".join(words)


def _selected(job: MappingJob) -> str:
    """`select` of version 2: all columns, without conditions and order."""
    if job.node.version < 2 or job.option("where", "values") or job.option("sort", "values"):
        raise NotMapped("it selects by conditions, or in an order")
    if job.option("options", "outputColumns", default=["*"]) != ["*"] or job.option("options", "selectDistinct"):
        raise NotMapped("it selects some columns")
    limit = job.fixed("limit", default=50)
    if job.fixed("returnAll", default=False) is True:
        return _sql("SELECT", "*", "FROM", _table(job))
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise NotMapped("its limit is computed")
    return _sql("SELECT", "*", "FROM", _table(job), f"LIMIT {limit}")


def _inserted(job: MappingJob) -> str:
    """`insert` of version 1: all items in one statement, whose rows come back."""
    if job.option("additionalFields", "mode", default="multiple") != "multiple" or job.error_way != "stop":
        raise NotMapped("it inserts one row after the other")
    columns = [name.strip() for name in str(job.fixed("columns", default="")).split(",") if name.strip()]
    if not columns or any(":" in name for name in columns):
        raise NotMapped("its columns are computed, or converted")
    wanted = str(job.fixed("returnFields", default="*")).strip()
    returned = "*" if wanted == "*" else ", ".join(_quoted(job, name.strip()) for name in wanted.split(","))
    _name_conversions(job, columns)
    documents = _ANY_JSON if _may_be_documents(job, columns) else ""
    return _insert_of(_table(job), [_quoted(job, name) for name in columns], "", returned, documents=documents)


def _bound(job: MappingJob, written: str, texts: Texts) -> tuple[str, dict[str, Any]]:
    """SQL with a parameter in place of each expression."""
    if "{{" not in written:
        return written.removeprefix("="), {}
    is_resolved = job.node.version >= 2
    if not is_resolved and not written.startswith("="):
        return written, {}
    made = bound(written.removeprefix("="), lambda js: texts.phrase(f"={{{{ {js} }}}}"),
                 empty=not is_resolved, is_mysql=job.node.kind == "mySql")  # fmt: skip
    for why in made.differences:
        job.differs(why)
    job.remarks.append("quotes in the values of its query are part of the values, where n8n makes SQL of them")
    return made.sql, dict(made.args)


def _numbered(job: MappingJob, sql: str, texts: Texts) -> tuple[str, dict[str, Any]]:
    """`$1` with the option `queryReplacement` that gives its value."""
    given = job.option("options", "queryReplacement")
    if job.node.version < 2:
        names = str(job.fixed("additionalFields", "queryParams", default="")).split(",")
        given = [f"={{{{ $json[{json.dumps(name.strip())}] }}}}" for name in names] if any(names) else None
    if given is None:
        return sql, {}
    if has_in_quotes(sql, _PARAMETER) or _FORMED.search(sql):
        raise NotMapped("its parameters stand within quotes, or have a form")
    if isinstance(given, str):
        if given.count("{{") > 1:
            job.differs("a comma in a value of its query does not begin the next value")
        pieces = (
            [piece.strip() for piece in given.removeprefix("=").split(",")]
            if given.count("{{") != 1
            else [given.removeprefix("=").strip()]
        )
        values: list[Any] = [texts.value(f"={piece}" if "{{" in piece else piece) for piece in pieces]
    else:
        values = texts.value(given) if isinstance(given, list) else [texts.value(given)]
    numbers = {int(number) for number in _PARAMETER.findall(sql)}
    if numbers and max(numbers) > len(values):
        raise NotMapped("the values of its query are computed as a whole")
    return _PARAMETER.sub(r":a\1", sql), {f"a{number}": values[number - 1] for number in numbers}
