"""Stores: where instances, their logs and the definitions are kept.

`open_store(url)` gives a SQLite or PostgreSQL store; both keep the promises of `ports.Store`.
`DataQueries` keeps data sources and saved queries in the same database.
"""

from anabranch.engine.store.data_queries import DataQueries
from anabranch.engine.store.opening import open_store

__all__ = ["DataQueries", "open_store"]
