"""Stores: where instances, their logs and the definitions are kept.

`open_store(url)` gives a SQLite or PostgreSQL store; both keep the promises of `ports.Store`.
"""

from anabranch.engine.store.opening import open_store

__all__ = ["open_store"]
