"""Tracing: code that finds the item of another node that belongs to the current one when it runs.

Pure. Used by `node_scope` where that depends on the branch that was taken, or on what nodes made of several items. The
program is as n8n's: an item that was made of several ones leads to those of them that lead anywhere, and they have to
lead to one and the same item. Where they do not, reading fails.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import field

from anabranch.dataclass import dataclass
from anabranch.n8n.exports import Link
from anabranch.n8n.graph import LinkGraph
from anabranch.n8n.job import Exit
from anabranch.n8n.phrases import Untranslatable
from anabranch.n8n.refs import ItemFeed, Moved, PairedByCode, Ref, Traced, first_there


class ItemUnknown(Untranslatable):
    """It cannot be said which item of another node belongs to the current one."""


@dataclass(frozen=True, slots=True)
class InputLinks:
    """The links that lead to one input of a node, by what flows along them."""

    ways: tuple[tuple[ItemFeed, tuple[Link, ...]], ...]
    how: str = "first"
    """Which items flow in: those of the `first` way that was taken, of the first `with items`, or of all, `joined`."""

    def feed(self) -> ItemFeed:
        """The feed of an input."""
        feeds = [feed for feed, _ in self.ways]
        if len(feeds) == 1:
            return feeds[0]
        listed = ", ".join(f"{feed.items.js} ?? []" for feed in feeds)
        templates = [f"({feed.items.template} | default([]))" for feed in feeds]
        if self.how == "with items":
            found = f"([{listed}].find(list => list.length) ?? [])"
            return ItemFeed(Ref(f"({' or '.join(templates)})", found), many=True)
        if self.how == "joined":
            return ItemFeed(Ref(f"({' + '.join(templates)})", f"[{listed}].flat()"), many=True)
        many, loops = any(feed.many for feed in feeds), {feed.loop for feed in feeds}
        files = [(feed.as_list() if many else feed).files for feed in feeds]
        known = [each for each in files if each is not None]
        value = first_there([_as_list(feed) if many else feed.value for feed in feeds])
        return ItemFeed(value, many, next(iter(loops)) if len(loops) == 1 else None,
                        first_there(known) if len(known) == len(files) else None)  # fmt: skip


def _as_list(feed: ItemFeed) -> Ref:
    """The output as a list, which is missing where nothing flows."""
    one = feed.value.js
    return (
        feed.value
        if feed.many
        else Ref(feed.items.template, f"(one => one === undefined || one === null ? null : [one])({one})")
    )


@dataclass(slots=True)
class ItemTrace:
    """The way from a node back to another one. Along a way that never meets it n8n gives nothing, and does not fail."""

    graph: LinkGraph
    input_links: dict[str, dict[int, InputLinks]]
    exits: dict[str, dict[int, Exit]]
    paired: set[str]
    """Code that has to say which items it makes of which: what is needed is added."""
    moved: Callable[[Moved], Ref]
    """By how many places items are moved, where that can be said at the reader."""
    wanted: str
    _ways: dict[str, str] = field(default_factory=dict)

    def js(self, reader: str, index: Ref) -> str:
        """An expression of JavaScript for the item that belongs to one that flows into the reader. Raises ItemUnknown
        where that is not known."""
        self._write(reader)
        ways = ", ".join(f"{json.dumps(name)}: {way}" for name, way in self._ways.items())
        return f"$trace({{{ways}}}, {json.dumps(reader)}, {index.js})"

    def _write(self, name: str) -> None:
        if name in self._ways:
            return
        self._ways[name] = ""
        inputs = self.input_links.get(name, {})
        listed = [
            self._of_input(inputs[number]) if number in inputs else "[]"
            for number in range(max(inputs, default=-1) + 1)
        ]
        self._ways[name] = f"[{', '.join(listed)}]"

    def _of_input(self, joined: InputLinks) -> str:
        if joined.how == "with items":
            raise ItemUnknown(f"which item of {self.wanted} belongs to it depends on the branch")
        made = []
        for feed, links in joined.ways:
            back = any(self.graph.leads_back(link) for link in links)
            leading = {self._leads(link) for link in links}
            if back or len(leading) > 1:
                raise ItemUnknown(f"which item of {self.wanted} belongs to it depends on the branch")
            there = f"({feed.items.js} ?? []).length" if joined.how == "joined" else f"({feed.value.js}) ?? null"
            made.append(f"[() => {there}, at => {self._step(links[0])}]")
        return f"[{', '.join(made)}]"

    def _leads(self, link: Link) -> bool:
        return link.source in self.graph.reachable([self.wanted])

    def _step(self, link: Link) -> str:
        """The item that one along a link belongs to: `[node, pair]`, or `[null, item]` at the end of the way."""
        exit_ = self.exits[link.source][link.output]
        index = "at" if exit_.feed.many else "0"
        if link.source == self.wanted:
            value = exit_.feed.value.js
            return f"[null, {value}{'?.[at]' if exit_.feed.many else ''}]"
        self._write(link.source)
        return f"[{json.dumps(link.source)}, {self._pair(link.source, exit_, index)}]"

    def _pair(self, name: str, exit_: Exit, index: str) -> str:
        match exit_.pairing:
            case "same":
                return index
            case Moved():
                return f"{self.moved(exit_.pairing).js} + {index}"
            case Ref(js=of):
                return f"{of}?.[{index}]"
            case Traced(js=of):
                return f"({of})({index})"
            case PairedByCode(of=pairs):
                self.paired.add(name)
                if pairs is None:
                    raise ItemUnknown(f"which items the code of {name} makes of which is known when it ran")
                return f"{pairs.js}?.[{index}]"
        raise ItemUnknown(f"which item of {self.wanted} belongs to it is not known here")
