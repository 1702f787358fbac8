"""The forms of data sources, saved queries, secrets and keys. See `models`."""

# ruff: noqa: N815 -- the wire's names are camelCase
from __future__ import annotations

from typing import Annotated, Any

from pydantic import AwareDatetime, Field

from anabranch.rest.models.base import Answer, Form, Name, Request
from anabranch.service.access import Role


class SourceForm(Form):
    """A data source as it is saved."""

    name: Name
    url: str = Field(min_length=1, description="sqlite:///path, postgresql://… or mysql://…")


class QueryForm(Form):
    """A saved query as it is saved; docs/data-queries.md explains the fields."""

    name: Name
    dataSourceID: str = Field(min_length=1, description="Id or name.")
    sql: str = Field(min_length=1)
    params: dict[str, Any] | None = None
    writes: bool = False
    timeout: str | int | None = None


class SecretForm(Request):
    """A secret as it is set."""

    name: str = Field(pattern="^[A-Za-z_][A-Za-z0-9_]{0,63}$")
    value: str = Field(min_length=1, max_length=65_536)


class KeyForm(Request):
    """A key as it is made; it belongs to the tenant of who makes it."""

    role: Annotated[Role, Field(strict=False)]


class SourceSummary(Answer):
    """A data source; its URL never comes back."""

    dataSourceID: str
    name: str
    kind: str
    address: str
    createdAt: AwareDatetime
    updatedAt: AwareDatetime


class SourceWarning(Answer):
    """What could not be found out about a data source."""

    code: str
    pointer: str
    message: str


class SavedSource(SourceSummary):
    """A data source that was saved; one that could not be reached has a warning."""

    warnings: list[SourceWarning]


class QuerySummary(Answer):
    """A saved query."""

    dataQueryID: str
    name: str
    dataSourceID: str
    sql: str
    params: dict[str, Any]
    writes: bool
    createdAt: AwareDatetime
    updatedAt: AwareDatetime


class SecretSummary(Answer):
    """What may be known of a secret."""

    name: str
    version: int
    createdAt: AwareDatetime
    updatedAt: AwareDatetime


class KeySummary(Answer):
    """What may be known of a key."""

    keyID: str
    tenant: str
    role: Role
    createdAt: AwareDatetime


class MadeKey(Answer):
    """A key that was made. It is shown this once."""

    key: str
    keyID: str
    tenant: str
    role: Role


class SourceList(Answer):
    """All data sources of the tenant."""

    items: list[SourceSummary]
    nextCursor: str | None


class QueryList(Answer):
    """All saved queries of the tenant."""

    items: list[QuerySummary]
    nextCursor: str | None


class SecretList(Answer):
    """All secrets of the tenant."""

    items: list[SecretSummary]
    nextCursor: str | None


class KeyList(Answer):
    """All keys of the tenant."""

    items: list[KeySummary]
    nextCursor: str | None
