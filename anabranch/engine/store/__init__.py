"""Stores: where instances, their logs and the definitions are kept.

`open_store(url)` gives a SQLite or PostgreSQL store; both keep the promises of `ports.Store`.
`open_hint_line(url)` gives the line between the processes of one PostgreSQL database.
`SecretTable` keeps the sealed secrets, `DataQueries` the data sources and saved queries, `KeyTable` the API keys
and `AuditTable` the audit trail, in the same database.
"""

from anabranch.engine.store.audit import AuditTable
from anabranch.engine.store.data_queries import DataQueries
from anabranch.engine.store.keys import KeyTable
from anabranch.engine.store.opening import open_hint_line, open_store
from anabranch.engine.store.secrets import SecretTable

__all__ = ["AuditTable", "DataQueries", "KeyTable", "SecretTable", "open_hint_line", "open_store"]
