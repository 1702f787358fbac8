"""The table of drafts."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, PrimaryKeyConstraint, Table, Text

from anabranch.engine.store.columns import Identifier, metadata

# The text of a document that is still worked on, and of the pins of its test runs: both as they were sent, so no JSON.
# `listening`: the newest test run that has waited for a request, by the webhook that it begins at; JSON.
drafts = Table(
    "drafts",
    metadata,
    Column("draft_id", Identifier, nullable=False),
    Column("tenant_id", Text, nullable=False),
    Column("workflow_id", Identifier),
    Column("base_version", Integer),
    Column("revision", Integer, nullable=False),
    Column("title", Text),
    Column("document", Text, nullable=False),
    Column("pins", Text, nullable=False),
    Column("pins_revision", Integer, nullable=False),
    Column("listening", Text),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("updated_by", Text, nullable=False),
    PrimaryKeyConstraint("draft_id", name="pk_drafts"),
)

# One draft of a workflow; NULLs, of workflows that do not exist yet, are all different. Lists of a tenant use it too.
Index("ux_draft_workflow", drafts.c.tenant_id, drafts.c.workflow_id, unique=True)
