"""The environment that alembic runs for each command: migrate on the connection that `running` holds.

The transaction is already open there, around all migrations and the version table alike.
"""

from __future__ import annotations

from alembic import context

from anabranch.engine.store.schema import metadata
from anabranch.engine.store.sql.revision import VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    transactional_ddl=False,
)
context.run_migrations()
