"""Models of the gallery of templates."""

# ruff: noqa: N815 -- the wire's names are camelCase
from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from anabranch.rest.models.base import ResponseModel


class TemplateSummary(ResponseModel):
    """A template: a workflow to start from."""

    name: str = Field(description="Its name for `anabranch new --template`.")
    title: str
    description: str = Field(description="What it does, in one sentence.")
    topic: str = Field(description="Its subject, in one word.")
    kind: Literal["drawn", "coded"] = Field(
        description="`drawn`: an editor can open its document as it is. `coded`: it needs the Python of its project."
    )
    picture: str = Field(description="Its graph, as SVG.")


class TemplateList(ResponseModel):
    """All templates, by name."""

    items: list[TemplateSummary]
    nextCursor: None


class TemplateView(TemplateSummary):
    """A template with its files."""

    change: str = Field(description="What to change before using it.")
    workflow: str = Field(description="The name of the workflow to start.")
    input: Any = Field(description="An input to try it with.")
    document: str | None = Field(description="The text of its drawn workflow, if it has one.")
    code: str | None = Field(description="Its Python, if it has any.")
