"""Loops with several entries: what lies between a side entry and the cursor of the loop is copied.

Pure. Called by `structure`. A loop that is entered at two nodes has no place where a pass begins. If exactly one cursor
is in it, that is the place: an edge from outside to another node runs what follows from there, up to the cursor, once
before the loop. These runs are nodes of their own, copies, with the ids `NODE@CURSOR` (`@` is in no id of a document).
In compilers this is known as node splitting.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import replace

from anabranch.engine.rules.graph.document import Graph, GraphEdge
from anabranch.engine.rules.graph.loop_config import CURSOR_TYPE, LOOP_TYPE

_MARK = "@"


def is_copy(node_id: str | None) -> bool:
    """Is it the copy of a node that runs before a loop?"""
    return node_id is not None and _MARK in node_id


def original_of(node_id: str) -> str:
    """The id in the document of a node or of its copy."""
    return node_id.partition(_MARK)[0]


def split_entries(graph: Graph, knot: Collection[str], reachable: Collection[str]) -> list[GraphEdge]:
    """Copy what leads from side entries of a knot to its cursor; returns these entries, none if that is not possible.

    `knot`: nodes that reach each other. Nodes and edges of the copies are added to the graph.
    """
    cursors = [node_id for node_id in knot if graph.nodes[node_id].type == CURSOR_TYPE]
    if len(cursors) != 1:
        return []
    cursor, inside = cursors[0], set(knot)
    entries = [
        edge
        for edge in graph.edges
        if edge.target in inside - {cursor} and edge.source not in inside and edge.source in reachable
    ]
    leaving: defaultdict[str, list[GraphEdge]] = defaultdict(list)
    for edge in graph.edges:
        leaving[edge.source].append(edge)
    copied = dict.fromkeys(edge.target for edge in entries)
    stack = list(copied)
    while stack:
        for edge in leaving[stack.pop()]:
            if edge.target in inside and edge.target != cursor and edge.target not in copied:
                copied[edge.target] = None
                stack.append(edge.target)
    if any(graph.nodes[node_id].type == LOOP_TYPE for node_id in copied):
        return []  # its body would have to be copied, too

    def copy_of(node_id: str) -> str:
        return f"{node_id}{_MARK}{cursor}" if node_id in copied else node_id

    for node_id in copied:
        graph.nodes[copy_of(node_id)] = replace(graph.nodes[node_id], id=copy_of(node_id))
    moved = {id(edge) for edge in entries}
    graph.edges = [
        replace(edge, target=copy_of(edge.target)) if id(edge) in moved else edge for edge in graph.edges
    ] + [
        replace(edge, source=copy_of(node_id), target=copy_of(edge.target))
        for node_id in copied
        for edge in leaving[node_id]
    ]
    return entries
