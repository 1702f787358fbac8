"""What has been tried against databases through queries, by class, and how the harm shows.

Each item is run twice: on a naive runner (values formatted into the text, one session with every
right, no limits), where it must do its harm, and through the query engine, where it must not.
`{file}`, `{drop}` and `{other}` stand for a file of the server, a directory that it may write, and
another SQLite file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Attack:
    """One item: a query somebody saved, with arguments somebody sent, and the name of the harm."""

    group: str
    sql: str
    harm: str
    args: Mapping[str, Any] = field(default_factory=dict)
    params: Mapping[str, Any] | None = None
    writes: bool = False

    def __str__(self) -> str:
        return f"{self.group}: {self.sql[:60]}"


def _all(group: str, harm: str, *texts: str, writes: bool = False) -> list[Attack]:
    return [Attack(group, text, harm, writes=writes) for text in texts]


BY_NAME = "SELECT id, customer FROM orders WHERE customer = :name"
BY_ID = "SELECT id, customer FROM orders WHERE id = :id"

INJECTIONS = [
    Attack("injection", BY_NAME, "sees all", {"name": "' OR '1'='1"}),
    Attack("injection", BY_NAME, "sees all", {"name": "x' OR 1=1 -- "}),
    Attack("injection", BY_NAME, "sees all", {"name": "x' OR customer LIKE '%"}),
    Attack("injection", BY_NAME, "sees password", {"name": "' UNION SELECT 1, password FROM staff -- "}),
    Attack("injection", BY_NAME, "sees password", {"name": "' UNION ALL SELECT 0, (SELECT password FROM staff) || '"}),
    Attack("injection", BY_NAME, "orders gone", {"name": "'; DELETE FROM orders; -- "}),
    Attack("injection", BY_NAME, "orders gone", {"name": "'; DROP TABLE orders; -- "}),
    Attack("injection", BY_NAME, "orders gone", {"name": "\\'; DELETE FROM orders; -- "}),
    Attack("injection", BY_ID, "sees all", {"id": "1 OR 1=1"}, {"id": "int"}),
    Attack("injection", BY_ID, "sees all", {"id": "id"}, {"id": "int"}),
    Attack("injection", BY_ID, "orders gone", {"id": "1; DELETE FROM orders"}, {"id": "int"}),
    Attack("injection", BY_ID, "sees password", {"id": "0 UNION SELECT 1, password FROM staff"}, {"id": "float"}),
]  # fmt: skip

STACKED = _all(
    "stacked",
    "orders gone",
    "SELECT 1; DELETE FROM orders",
    "SELECT 1; COMMIT; DELETE FROM orders; SELECT 1",
    "COMMIT; DELETE FROM orders",
    "SELECT ';'; DELETE FROM orders",
    "SELECT 1 /* ; */; DELETE FROM orders -- ",
    "SELECT 1 -- '\n; DELETE FROM orders",
    'SELECT 1 AS "a;b"; DELETE FROM orders',
)

_TWO_LINES = "SELECT E'a'\n'\\' || ', "

POSTGRESQL = [
    *INJECTIONS,
    *STACKED,
    *_all(
        "stacked",
        "orders gone",
        "SELECT $a$;$a$; DELETE FROM orders",
        "SELECT E'\\';'; DELETE FROM orders -- '",
        "SELECT 1 /* /* */ ; */; DELETE FROM orders",
        "ROLLBACK; BEGIN; DELETE FROM orders; COMMIT",
        "SELECT 1; SET TRANSACTION READ WRITE; DELETE FROM orders",
        "SELECT 1; PREPARE p AS DELETE FROM orders; EXECUTE p",
    ),
    *_all(
        "writes while reading",
        "orders gone",
        "DELETE FROM orders",
        "UPDATE orders SET customer = 'Mallory'",
        "TRUNCATE orders",
        "DROP TABLE orders",
        "ALTER TABLE orders RENAME TO gone",
        "WITH gone AS (DELETE FROM orders RETURNING id) SELECT * FROM gone",
        "WITH gone AS MATERIALIZED (UPDATE orders SET customer = '' RETURNING id) SELECT count(*) FROM gone",
        "EXPLAIN ANALYZE DELETE FROM orders",
        "DO $$ BEGIN DELETE FROM orders; END $$",
        "SELECT wipe()",
        "SELECT (SELECT wipe())",
        "SELECT * FROM wipe() AS w",
        "SELECT \"wipe\"()",
        "VALUES (wipe())",
        "SELECT set_config('transaction_read_only', 'off', false), wipe()",
    ),
    *_all(
        "makes tables",
        "table made",
        "SELECT * INTO stolen FROM orders",
        "CREATE TABLE stolen AS SELECT * FROM staff",
        "CREATE UNLOGGED TABLE stolen (a int)",
        "CREATE VIEW stolen AS SELECT * FROM staff",
    ),
    *_all(
        "moves a sequence",
        "sequence moved",
        "SELECT nextval('numbers')",
        "SELECT setval('numbers', 99)",
        "SELECT pg_catalog.nextval('numbers'::regclass) FROM orders",
    ),
    *_all(
        "leaves large objects",
        "large object made",
        "SELECT lo_from_bytea(0, 'x')",
        "SELECT lo_create(0)",
        "SELECT lo_import('{file}')",
        "SELECT lo_creat(-1)",
        "SELECT \"lo_create\" (0)",
    ),
    *_all(
        "writes files of the server",
        "file made",
        "COPY (SELECT 1) TO '{drop}/copied'",
        "COPY (SELECT 1) TO PROGRAM 'touch {drop}/run'",
        "SELECT lo_from_bytea(4243, 'x'); SELECT lo_export(4243, '{drop}/exported')",
    ),
    *_all(
        "reads files of the server",
        "sees treasure",
        "SELECT pg_read_file('{file}')",
        "SELECT pg_catalog.pg_read_file('{file}')",
        "SELECT PG_READ_FILE ('{file}')",
        "SELECT \"pg_read_file\"('{file}')",
        "SELECT pg_read_file/**/('{file}')",
        "SELECT U&\"pg\\005fread_file\"('{file}')",
        "SELECT convert_from(pg_read_binary_file('{file}'), 'UTF8')",
        "SELECT lo_import('{file}', 4242); SELECT convert_from(lo_get(4242), 'UTF8')",
        "SELECT word FROM ts_stat('SELECT to_tsvector(''simple'', pg_read_file(''{file}''))')",
        "SELECT set_config('role', 'postgres', false), pg_read_file('{file}')",
    ),
    *_all(
        "lists directories",
        "sees file name",
        "SELECT pg_ls_dir('{drop}/..')",
    ),
    *_all(
        "reads hashes of passwords",
        "sees hash",
        "SELECT rolname, rolpassword FROM pg_authid",
        "SELECT * FROM pg_catalog.\"pg_authid\"",
        "SELECT usename, passwd FROM pg_shadow",
    ),
    # A literal that goes on in the next line keeps its backslashes there.
    *_all("literal of two lines", "sees hash", f"{_TWO_LINES}rolpassword FROM pg_authid --'"),
    *_all("literal of two lines", "sees treasure", f"{_TWO_LINES}pg_read_file('{{file}}') --'"),
    *_all(
        "literal of two lines",
        "victim gone",
        f"{_TWO_LINES}count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity"
        " WHERE application_name = 'victim' --'",
    ),
    *_all(
        "keeps locks",
        "lock kept",
        "SELECT pg_advisory_lock(4711)",
        "SELECT pg_try_advisory_lock(4711)",
        "SELECT pg_advisory_lock_shared(4711)",
        "SELECT \"pg_advisory_lock\"(4711)",
        "SELECT pg_catalog . pg_advisory_lock -- \n (4711)",
        "SELECT U&\"pg\\005fadvisory_lock\"(4711)",
        "SELECT query_to_xml('SELECT pg_advisory_lock(4711)', true, true, '')::text",
        "SELECT leave_traces()",
    ),
    *_all(
        "ends sessions of others",
        "victim gone",
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'victim'",
        "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity WHERE application_name = 'victim'",
    ),
    *_all(
        "leaves settings behind",
        "setting left",
        "SELECT set_config('shop.visitor', 'mallory', false)",
        "SELECT \"set_config\"('shop.visitor', 'mallory', false)",
        "SET shop.visitor = 'mallory'",
        "SELECT word FROM ts_stat($q$SELECT to_tsvector(set_config('shop.visitor', 'mallory', false))$q$)",
        "SELECT leave_traces()",
    ),
    *_all("leaves settings behind", "setting left", "SELECT leave_traces()", writes=True),
    *_all("keeps locks", "lock kept", "SELECT leave_traces()", writes=True),
    *_all(
        "leaves temporary tables",
        "temporary table left",
        "CREATE TEMP TABLE orders AS SELECT 1 AS id, 'Mallory' AS customer",
        "SELECT 1 AS id INTO TEMP orders",
    ),
    *_all(
        "never ends",
        "runs on",
        "SELECT pg_sleep(60)",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n",
        "SELECT count(*) FROM generate_series(1, 100000000000)",
        "SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b",
        "SELECT set_config('statement_timeout', '0', false), pg_sleep(60)",
        "SELECT count(*) FROM orders a, orders b, LATERAL pg_sleep(20) c",
    ),
    *_all(
        "too much",
        "memory filled",
        "SELECT repeat('x', 60000000) AS x",
        "SELECT repeat('x', 30000000) AS a, repeat('y', 30000000) AS b",
        "SELECT repeat('x', 1000) AS x FROM generate_series(1, 60000)",
        "SELECT array_fill('xxxxxxxxxx'::text, ARRAY[2500000]) AS x",
        "SELECT n, repeat('x', 6000000) AS x FROM generate_series(1, 10) AS n ORDER BY n",
    ),
    *_all("too much", "too many rows", "SELECT generate_series(1, 50000) AS n"),
]  # fmt: skip

SQLITE = [
    *INJECTIONS[:7],
    *INJECTIONS[8:],
    # Outside a transaction, as here, SQLite takes COMMIT for a mistake.
    *(attack for attack in STACKED if "COMMIT" not in attack.sql),
    *_all("stacked", "orders gone", "SELECT 1 AS [a;b]; DELETE FROM orders", "SELECT 1 AS `;`; DELETE FROM orders"),
    *_all(
        "writes while reading",
        "orders gone",
        "DELETE FROM orders",
        "UPDATE orders SET customer = 'Mallory'",
        "REPLACE INTO orders SELECT id, 'Mallory', 0 FROM orders",
        "DROP TABLE orders",
        "ALTER TABLE orders RENAME TO gone",
        "WITH ids AS (SELECT id FROM orders) DELETE FROM orders WHERE id IN ids",
        "WITH ids AS (SELECT id FROM orders) UPDATE orders SET customer = ''",
    ),
    *_all(
        "makes tables",
        "table made",
        "CREATE TABLE stolen AS SELECT * FROM staff",
        "CREATE VIEW stolen AS SELECT * FROM staff",
        "CREATE TRIGGER stolen AFTER INSERT ON orders BEGIN DELETE FROM orders; END",
    ),
    *_all(
        "makes tables while writing",
        "table made",
        "CREATE TABLE stolen AS SELECT * FROM staff",
        writes=True,
    ),
    *_all(
        "writes files",
        "file made",
        "ATTACH '{drop}/attached.db' AS a; CREATE TABLE a.t (x)",
        "VACUUM INTO '{drop}/copy.db'",
        "VACUUM main INTO '{drop}/copy.db'",
    ),
    *_all(
        "reads files",
        "sees treasure",
        "ATTACH '{other}' AS o; SELECT * FROM o.treasures",
        "ATTACH 'file:{other}?mode=ro' AS o; SELECT * FROM o.treasures",
        "SELECT 1; ATTACH '{other}' AS o; SELECT * FROM o.treasures",
    ),
    *_all("reads files while writing", "sees treasure", "ATTACH '{other}' AS o; SELECT * FROM o.treasures",
         writes=True),
    *_all(
        "changes settings of the file",
        "settings changed",
        "PRAGMA user_version = 666",
        "PRAGMA main.user_version(666)",
        "PRAGMA application_id = 666",
        "PRAGMA journal_mode = MEMORY; PRAGMA user_version = 666",
        "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = 'CREATE TABLE orders(x)' WHERE name = 'orders'",
    ),
    *_all("changes settings of the file", "settings changed", "PRAGMA user_version = 666", writes=True),
    *_all(
        "never ends",
        "runs on",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION SELECT i + 1 FROM n) SELECT count(*) FROM n",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 100000)"
        " SELECT count(*) FROM n a, n b WHERE a.i <> b.i",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n WHERE i < 0",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 100000000)"
        " SELECT i FROM n ORDER BY i * -1 LIMIT 1",
    ),
    *_all(
        "too much",
        "memory filled",
        "SELECT hex(zeroblob(30000000)) AS x",
        "SELECT zeroblob(60000000) AS x",
        "SELECT randomblob(60000000) AS x",
        "SELECT printf('%.*c', 60000000, 'x') AS x",
        "SELECT replace(hex(zeroblob(3000000)), '0', 'xxxxxxxxxx') AS x",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 600)"
        " SELECT group_concat(hex(zeroblob(50000))) AS x FROM n",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 600)"
        " SELECT hex(zeroblob(50000)) AS x FROM n",
    ),
    *_all(
        "too much",
        "too many rows",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 50000) SELECT i FROM n",
    ),
]  # fmt: skip
