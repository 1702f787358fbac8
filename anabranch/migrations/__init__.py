"""Migrations: upgrade a database to the schema that this program works with.

`ensure_schema` is called by whatever starts (serve, worker, dev, run), `upgrade` by
`anabranch migrate`. Both wait for other migrators, so any number of processes may start at
once. Nothing here knows tables but the files in `versions`.
"""

from anabranch.migrations.running import current, ensure_schema, refuse_empty, upgrade

__all__ = ["current", "ensure_schema", "refuse_empty", "upgrade"]
