"""Stores: where instances, their logs and the definitions are kept.

`open_store(url)` gives a SQLite or PostgreSQL store; both keep the promises of `ports.Store`.
`open_hint_line(url)` gives the line between the processes of one PostgreSQL database.
The other rooms of the same database: `SecretTable` (sealed secrets), `DataQueries` (data sources and saved
queries), `KeyTable` (API keys), `AuditTable` (the audit trail), `ScheduleTable` and `TopicTable` (what starts runs
by itself).
"""

from anabranch.engine.store.audit import AuditTable
from anabranch.engine.store.data_queries import DataQueries
from anabranch.engine.store.keys import KeyTable
from anabranch.engine.store.opening import open_hint_line, open_store
from anabranch.engine.store.schedules import ScheduleTable
from anabranch.engine.store.secrets import SecretTable
from anabranch.engine.store.sql.purging import Purged, PurgeFilter
from anabranch.engine.store.topics import TopicTable

__all__ = [
    "AuditTable",
    "DataQueries",
    "KeyTable",
    "PurgeFilter",
    "Purged",
    "ScheduleTable",
    "SecretTable",
    "TopicTable",
    "open_hint_line",
    "open_store",
]
