"""Models of imports from other tools."""

# ruff: noqa: N815 -- the wire's names are camelCase
from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from anabranch.rest.models.base import Query, ResponseModel

Status = Literal["exact", "equal", "placeholder"]


class ImportQuery(Query):
    """How to import."""

    timezone: str = Field("UTC", max_length=64, description="Of workflows that name none: that of your n8n.")
    save: bool = Field(True, description="`false`: no draft is created, and only the report is returned.")


class ExpressionCounts(ResponseModel):
    """How the expressions of a node were imported."""

    rewritten: int = Field(description="Expressions that became templates.")
    asCode: int = Field(description="Expressions that a code node computes.")
    left: list[str] = Field(description="Expressions that are neither, with the reason.")


class ImportedNode(ResponseModel):
    """How a node was imported."""

    name: str
    type: str
    status: Status
    why: str = Field(description="What differs, or why it is a placeholder.")
    remarks: list[str]
    nodes: list[str] = Field(description="The ids of the nodes that it became.")
    expressions: ExpressionCounts


class ImportCounts(ResponseModel):
    """How many nodes have which status."""

    exact: int
    equal: int
    placeholder: int
    notes: int


class CredentialToEnter(ResponseModel):
    """A credential of n8n, whose value an export does not have."""

    type: str
    name: str
    secrets: list[str] = Field(description="The secrets to set.")
    nodes: list[str]


class VariableToSet(ResponseModel):
    """A variable of n8n, or of its environment, which an export does not have."""

    name: str
    nodes: list[str]


class ImportReportModel(ResponseModel):
    """What is the same, what differs, and what was not imported."""

    title: str
    workflow: str
    status: Status
    counts: ImportCounts
    nodes: list[ImportedNode]
    differences: list[str] = Field(description="What behaves differently in the whole workflow.")
    credentials: list[CredentialToEnter]
    variables: list[VariableToSet]


class ImportedWorkflow(ResponseModel):
    """One workflow of an export."""

    draftID: str | None = Field(description="The draft that was made; null with `save=false`.")
    document: dict[str, Any]
    pins: dict[str, Any]
    queries: list[dict[str, Any]] = Field(description="Queries that have to be saved, with their data sources.")
    report: ImportReportModel


class ImportedWorkflows(ResponseModel):
    """The workflows of an export."""

    items: list[ImportedWorkflow]
