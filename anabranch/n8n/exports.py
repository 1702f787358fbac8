"""Exports of n8n as data: workflows, nodes, connections.

Pure. Called by `importing`. An export is JSON that people also edit by hand, so everything in it may be missing or of
another kind; what cannot be used is left out, and nothing here fails but for what is not an export at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any, TypeGuard

from anabranch.dataclass import dataclass
from anabranch.errors import InvalidRequest

_VENDOR = re.compile(r"^(?:@n8n/)?n8n-nodes-base\.")


@dataclass(frozen=True, slots=True)
class N8nNode:
    """A node of an export."""

    name: str
    type: str
    """As written: `n8n-nodes-base.set`."""
    version: float
    parameters: Mapping[str, Any]
    position: tuple[float, float]
    disabled: bool = False
    credentials: Mapping[str, str] = field(default_factory=dict)
    """The names of credentials by their types."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """`retryOnFail`, `onError` and the like."""
    notes: str = ""

    @property
    def kind(self) -> str:
        """The type without the name of n8n's own package; types of others have their whole name."""
        return _VENDOR.sub("", self.type)


@dataclass(frozen=True, slots=True)
class Link:
    """One connection: from an output of a node to an input of another."""

    source: str
    output: int
    target: str
    input: int


@dataclass(frozen=True, slots=True)
class N8nWorkflow:
    """A workflow of an export."""

    name: str
    nodes: tuple[N8nNode, ...]
    links: tuple[Link, ...]
    """Of the kind `main`: what items flow along."""
    attachments: tuple[tuple[str, str, str], ...]
    """(source, kind, target): models, tools and the like that are attached to a node."""
    settings: Mapping[str, Any]
    pins: Mapping[str, list[Any]]
    """Pinned items by the names of nodes."""
    workflow_id: str = ""


def read_exports(document: Any) -> list[N8nWorkflow]:
    """The workflows of a document: one, a list of them, or one in a field `workflow` as templates have it.

    Raises InvalidRequest for anything else.
    """
    found = list(_workflows(document, depth=0))
    if not found:
        raise InvalidRequest(
            "this is not an export of n8n: an export has `nodes` and `connections`",
            hint="In n8n, open the workflow and choose Download; the file that you get is read here.",
        )
    return [_workflow(each) for each in found]


def is_export(document: Any) -> bool:
    """Whether `read_exports` reads it."""
    return next(_workflows(document, depth=0), None) is not None


def _workflows(document: Any, *, depth: int) -> Iterator[Mapping[str, Any]]:
    if depth > 3:
        return
    if isinstance(document, list):
        for each in document:
            yield from _workflows(each, depth=depth + 1)
    elif isinstance(document, dict):
        if _has_nodes(document):
            yield document
        else:
            for name in ("workflow", "data", "workflows"):
                yield from _workflows(document.get(name), depth=depth + 1)


def _has_nodes(document: Mapping[str, Any]) -> bool:
    nodes, connections = document.get("nodes"), document.get("connections")
    if not isinstance(nodes, list) or "edges" in document:  # with edges it is one of ours
        return False
    if connections is None:
        return any(isinstance(node, dict) and "n8n-nodes" in str(node.get("type")) for node in nodes)
    return isinstance(connections, dict)


def _workflow(written: Mapping[str, Any]) -> N8nWorkflow:
    nodes = tuple(_nodes(written["nodes"]))
    names = {node.name for node in nodes}
    by_id = {str(each["id"]): str(each.get("name")) for each in written["nodes"]
             if isinstance(each, dict) and each.get("id")}  # fmt: skip
    links: dict[Link, None] = {}
    attachments: dict[tuple[str, str, str], None] = {}
    for source, kind, output, edge in _edges(written.get("connections")):
        target, into = edge.get("node"), edge.get("index")
        if not isinstance(target, str):
            continue
        target = by_id.get(target, target) if target not in names else target
        source = by_id.get(source, source) if source not in names else source
        if source not in names or target not in names:
            continue
        if kind == "main":
            links[Link(source, output, str(target), into if isinstance(into, int) and 0 <= into < 64 else 0)] = None
        else:
            attachments[source, kind, str(target)] = None
    return N8nWorkflow(
        name=_text(written.get("name")) or "Imported workflow",
        nodes=nodes,
        links=tuple(links),
        attachments=tuple(attachments),
        settings=_object(written.get("settings")),
        pins={
            name: items
            for name, items in _object(written.get("pinData")).items()
            if name in names and isinstance(items, list)
        },
        workflow_id=_text(written.get("id")),
    )


def _nodes(written: list[Any]) -> Iterator[N8nNode]:
    seen: set[str] = set()
    for number, each in enumerate(written, 1):
        if not isinstance(each, dict) or not isinstance(each.get("type"), str):
            continue
        name = _text(each.get("name")) or f"Node {number}"
        if name in seen:  # n8n itself keeps the last of them; a name is what connections are by
            continue
        seen.add(name)
        version = each.get("typeVersion")
        yield N8nNode(
            name=name,
            type=each["type"],
            version=float(version) if isinstance(version, (int, float)) else 1.0,
            parameters=_object(each.get("parameters")),
            position=_position(each.get("position")),
            disabled=each.get("disabled") is True,
            credentials={
                kind: _text(credential.get("name")) if isinstance(credential, dict) else _text(credential)
                for kind, credential in _object(each.get("credentials")).items()
            },
            settings={name: each[name] for name in _SETTINGS if name in each},
            notes=_text(each.get("notes")),
        )


_SETTINGS = ("retryOnFail", "maxTries", "waitBetweenTries", "onError", "continueOnFail", "executeOnce",
             "alwaysOutputData")  # fmt: skip


def _edges(connections: Any) -> Iterator[tuple[str, str, int, Mapping[str, Any]]]:
    for source, kinds in _object(connections).items():
        for kind, outputs in _object(kinds).items():
            for output, edges in enumerate(outputs if isinstance(outputs, list) else ()):
                for edge in edges if isinstance(edges, list) else [edges]:
                    if isinstance(edge, dict):
                        yield source, _text(edge.get("type")) or kind, output, edge


# A million steps of the canvas: what is farther away was not drawn by anybody.
_LENGTH_MAX = 1_000_000


def is_length(value: Any) -> TypeGuard[float]:
    """Whether it is a number that something can be placed with: neither NaN nor beyond the canvas."""
    return isinstance(value, (int, float)) and abs(value) <= _LENGTH_MAX


def _position(written: Any) -> tuple[float, float]:
    if isinstance(written, dict):
        written = [written.get("x"), written.get("y")]
    if isinstance(written, list) and len(written) == 2 and all(map(is_length, written)):
        return float(written[0]), float(written[1])
    return 0.0, 0.0


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)
