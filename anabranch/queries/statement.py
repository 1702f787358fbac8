"""The SQL of a saved query: one statement, its parameters, and what is refused.

Called when a query is saved and again before it runs. Values get into SQL as bound parameters only: templates in the
text are refused, and so is a parameter where a database takes none. The database enforces the limits (read-only
transaction, authorizer, role); the functions that are refused here by name would bypass them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise, zip_longest

from anabranch.dataclass import dataclass
from anabranch.queries.lexing import SourceKind, Token, Unreadable, tokens_of
from anabranch.queries.limits import PARAMETERS_MAX, SQL_BYTES_MAX

# 200 levels of parentheses: databases recurse over them.
_DEPTH_MAX = 200

_READING = frozenset({"select", "with", "values", "table"})
_WRITING = frozenset({*_READING, "insert", "update", "delete", "replace", "merge"})

# Named right before a parameter, these want the name of a thing, which cannot be bound.
_WANTS_A_NAME = frozenset({"from", "join", "into", "update", "table", "as", "by"})
# `f(x FROM y)`: the standard's functions with words between their arguments.
_TAKES_FROM = frozenset({"extract", "substring", "trim", "overlay", "position"})

_LOCKING = frozenset({("for", "update"), ("for", "share"), ("lock", "in")})

_TEMPLATE = re.compile(r"\{\{\s*[A-Za-z_'\"]|\{%|\{#")

# Functions that get around a read-only transaction (files, other connections, SQL made of text that
# is not looked at here, settings and roles of the session) or that other sessions feel.
_DENIED = {
    SourceKind.POSTGRESQL: re.compile(
        r"set_config|dblink\w*|lo_\w+|loread|lowrite|pg_read_\w+|pg_write_\w+|pg_file_\w+|pg_ls_\w+|pg_stat_file"
        r"|pg_logdir_ls|(pg_)?(try_)?\w*advisory_\w+|pg_(terminate|cancel)_backend|pg_reload_conf|pg_rotate_logfile"
        r"|pg_notify|pg_promote|pg_switch_wal|pg_logical_\w+|pg_replication_\w+|pg_create_\w+|pg_drop_\w+"
        r"|pg_backup_\w+|pg_export_snapshot|pg_import_\w+|pg_restore_\w+|pg_clear_\w+|pg_stat_reset\w*|pg_log_\w+"
        r"|pg_execute_\w+|pg_extension_config_dump|(query|cursor|table|schema|database)_to_xml\w*|ts_stat|ts_rewrite"
        r"|crosstab\w*|connectby|xpath_table|xslt_process|postgres_fdw_\w+|binary_upgrade_\w+|brin_\w+|gin_\w+"
    ),
    SourceKind.SQLITE: re.compile(r"load_extension|readfile|writefile|edit|fts3_tokenizer|lsdir|fsdir|zipfile\w*"),
    SourceKind.MYSQL: re.compile(
        r"load_file|sys_exec|sys_eval|sys_get|sys_set|sleep|benchmark|get_lock|release_lock|release_all_locks"
        r"|is_free_lock|is_used_lock|master_pos_wait|source_pos_wait|wait_for_executed_gtid_set"
    ),
}
# Named anywhere: what holds passwords (`pg_read_all_data` reads these too) or shows files, and MySQL's way to them.
_DENIED_NAMES = {
    SourceKind.POSTGRESQL: re.compile(
        r"pg_(authid|shadow|user_mappings?|subscription|foreign_server|largeobject|statistic\w*|hba_file_rules"
        r"|ident_file_mappings|file_settings)|user_mapping_options|foreign_server_options"
    ),
    SourceKind.SQLITE: re.compile(r"(?!)"),
    SourceKind.MYSQL: re.compile(r"outfile|dumpfile|infile"),
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a text is not a query: a code and a sentence."""

    code: str
    message: str


class StatementRefused(Exception):
    """The SQL of a query is refused; `refusals` lists why."""

    def __init__(self, refusals: Sequence[Refusal]) -> None:
        super().__init__("; ".join(refusal.message for refusal in refusals))
        self.refusals = refusals


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement that has been looked at."""

    kind: SourceKind
    verb: str
    """Its first word, in lower case."""
    pieces: tuple[str | Token, ...]
    parameters: tuple[str, ...]
    """The names, each once, in the order of first occurrence."""


def read_statement(sql: str, kind: SourceKind, *, writes: bool) -> Statement:
    """The statement of a query. Raises StatementRefused with everything that is wrong with it."""
    size = len(sql.encode(errors="replace"))
    if size > SQL_BYTES_MAX:
        raise StatementRefused([Refusal("SQL_REFUSED", f"the SQL has {size} bytes; the limit is {SQL_BYTES_MAX}")])
    if _TEMPLATE.search(sql):
        message = (
            "the SQL holds a template; values are bound as parameters: write `:name` in the SQL"
            " and give the template to the node's args"
        )
        raise StatementRefused([Refusal("TEMPLATE_NOT_ALLOWED", message)])
    try:
        tokens = list(tokens_of(sql, kind))
    except Unreadable as problem:
        raise StatementRefused([Refusal("SQL_REFUSED", str(problem))]) from None
    tokens, end = _without_last_semicolon(tokens, len(sql))
    refusals = [*_form(tokens, writes=writes), *_parameters_as_names(tokens), *_denied(tokens, kind)]
    if kind is SourceKind.MYSQL and not writes:
        refusals += _locks(tokens)
    parameters = tuple(dict.fromkeys(token.value for token in tokens if token.kind == "parameter"))
    if len(parameters) > PARAMETERS_MAX:
        refusals.append(Refusal("SQL_REFUSED", f"{len(parameters)} parameters; the limit is {PARAMETERS_MAX}"))
    if refusals:
        raise StatementRefused(refusals)
    return Statement(kind, _verb(tokens), _pieces(sql[:end], tokens), parameters)


def _without_last_semicolon(tokens: list[Token], end: int) -> tuple[list[Token], int]:
    """People end a statement with a semicolon; everything behind it is a comment at most."""
    if tokens and tokens[-1].value == ";" and tokens[-1].kind == "mark":
        return tokens[:-1], tokens[-1].start
    return tokens, end


def _form(tokens: Sequence[Token], *, writes: bool) -> list[Refusal]:
    """Check that it is one statement of an allowed kind, with matching parentheses."""
    refusals = []
    verb = _verb(tokens)
    if verb not in (_WRITING if writes else _READING):
        allowed = ", ".join(sorted(word.upper() for word in (_WRITING if writes else _READING)))
        advice = "" if writes or verb not in _WRITING else "; declare the query as writing (`writes: true`)"
        shown = verb.upper() or "nothing that is known"
        refusals.append(Refusal("SQL_REFUSED", f"the SQL begins with {shown}; it may be one of {allowed}{advice}"))
    if any(token.value == ";" and token.kind == "mark" for token in tokens):
        refusals.append(Refusal("SQL_REFUSED", "the SQL has several statements; a query has one"))
    depth = deepest = 0
    for token in tokens:
        if token.kind == "mark" and token.value in "()":
            depth += 1 if token.value == "(" else -1
            deepest = max(deepest, depth)
            if depth < 0:
                break
    if depth != 0:
        refusals.append(Refusal("SQL_REFUSED", "the parentheses of the SQL do not match"))
    if deepest > _DEPTH_MAX:
        refusals.append(Refusal("SQL_REFUSED", f"more than {_DEPTH_MAX} levels of parentheses"))
    return refusals


def _verb(tokens: Sequence[Token]) -> str:
    first = next((token for token in tokens if token.value != "("), None)
    return "" if first is None or first.kind != "word" else first.value.lower()


def _parameters_as_names(tokens: Sequence[Token]) -> list[Refusal]:
    """Parameters in places where only the name of a table or column is possible."""
    refusals, inside = [], [""]
    before = Token("mark", "", 0, 0)
    for position, token in enumerate(tokens):
        if token.kind == "mark" and token.value == "(":
            inside.append(before.value.lower() if before.kind == "word" else "")
        elif token.kind == "mark" and token.value == ")" and len(inside) > 1:
            inside.pop()
        elif token.kind == "parameter":
            earlier = tokens[position - 2].value.lower() if position >= 2 else ""
            if _needs_a_name(before, earlier, inside[-1]):
                message = (
                    f"`:{token.value}` stands behind `{before.value}`, where a name has to be written:"
                    " parameters are values"
                )
                refusals.append(Refusal("PARAMETER_NOT_ALLOWED", message))
        before = token
    return refusals


def _needs_a_name(before: Token, earlier: str, function: str) -> bool:
    if before.kind == "mark":
        return before.value == "."
    word = before.value.lower() if before.kind == "word" else ""
    if word == "from" and (earlier == "distinct" or function in _TAKES_FROM):
        return False
    return word in _WANTS_A_NAME


def _denied(tokens: Sequence[Token], kind: SourceKind) -> list[Refusal]:
    refusals = []
    before: Token | None = None
    for token, following in zip_longest(tokens, tokens[1:]):
        # PostgreSQL calls a function of one argument in this form too: `(x).f`.
        is_attribute = kind is SourceKind.POSTGRESQL and before is not None and before.value == "."
        before = token
        if token.kind not in ("word", "name"):
            continue
        # A quoted name keeps its case; folded all the same, for a refusal too many is only a nuisance.
        name = token.value.lower()
        is_call = following is not None and following.value == "(" and following.kind == "mark"
        if ((is_call or is_attribute) and _DENIED[kind].fullmatch(name)) or _DENIED_NAMES[kind].fullmatch(name):
            refusals.append(
                Refusal("SQL_REFUSED", f"{token.value} is not allowed in saved queries: its effects outlast the query")
            )
    return refusals


def _locks(tokens: Sequence[Token]) -> list[Refusal]:
    """Locks that MySQL and MariaDB take in a read-only transaction too."""
    words = [token.value.lower() if token.kind == "word" else "" for token in tokens]
    found = [pair for pair in pairwise(words) if pair in _LOCKING]
    return [
        Refusal("SQL_REFUSED", f"`{' '.join(pair).upper()}` locks rows; a reading query does not") for pair in found
    ]


def _pieces(sql: str, tokens: Sequence[Token]) -> tuple[str | Token, ...]:
    pieces: list[str | Token] = []
    position = 0
    for token in tokens:
        if token.kind == "parameter":
            pieces += [sql[position : token.start], token]
            position = token.end
    return (*pieces, sql[position:])
