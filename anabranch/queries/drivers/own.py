"""How a database is known as one of anabranch's own, whatever name it was reached by."""

from __future__ import annotations

OWN_TABLES = ("workflow_instances", "workflow_instance_logs")

OWN_DATABASE = "this database holds anabranch's own tables; such a database is never a data source"
