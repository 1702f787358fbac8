"""Stores: where instances, their logs and the definitions are kept.

`open_store(url)` gives a SQLite or PostgreSQL store; both keep the promises of `ports.Store`.
`SecretTable` keeps the sealed secrets, `DataQueries` the data sources and saved queries, `ScheduleTable` and
`TopicTable` what starts runs by itself, in the same database.
"""

from anabranch.engine.store.data_queries import DataQueries
from anabranch.engine.store.opening import open_store
from anabranch.engine.store.schedules import ScheduleTable
from anabranch.engine.store.secrets import SecretTable
from anabranch.engine.store.topics import TopicTable

__all__ = ["DataQueries", "ScheduleTable", "SecretTable", "TopicTable", "open_store"]
