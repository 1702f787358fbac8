"""Detect that a data source is anabranch's own database, under any name."""

from __future__ import annotations

OWN_TABLES = ("workflow_instances", "workflow_instance_logs")

OWN_DATABASE = "this database holds anabranch's own tables; such a database is never a data source"
