"""Node scope: the values of ours that n8n's names stand for at a node.

Pure. Used by `importing`. An item of another node is found as n8n finds it, by following which item belongs to which
from node to node back to that one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from anabranch.dataclass import dataclass
from anabranch.n8n.graph import LOOP_KIND, LinkGraph, loop_output
from anabranch.n8n.items.tracing import InputLinks, ItemTrace
from anabranch.n8n.job import Exit
from anabranch.n8n.js_reading import masked, names_of_nodes, reads_inputs
from anabranch.n8n.kept_data import VARIABLE_NAME
from anabranch.n8n.phrases import Untranslatable
from anabranch.n8n.refs import INDEX, ITEM, ItemFeed, Moved, PairedByCode, Ref, Traced, number

# What is read of the state of a loop and is known.
PASS = re.compile(
    r"""\$(?:\(\s*+(?P<quote>['"])(?P<name>[^'"]++)(?P=quote)\s*+\)|node\[\s*+(?P<sign>['"])(?P<other>[^'"]++)(?P=sign)\s*+\])"""
    r"""\.context(?:\.(?P<what>noItemsLeft|currentRunIndex)\b|\[\s*+(?P<mark>['"])(?P<key>noItemsLeft|currentRunIndex)(?P=mark)\s*+\])"""
)  # fmt: skip
# What is read of the parameters of a node by a path that is written out.
_PARAMETERS = re.compile(
    r"""\$\(\s*+(?P<quote>['"])(?P<name>[^'"\\]++)(?P=quote)\s*+\)\.params(?P<path>(?>(?:\.[A-Za-z_]\w*+|\[\d{1,3}\])+))"""
)
# The parameters that are read so, of nodes without parameters that would hide them.
_SHOWN = {"set": "assignments", "code": "jsCode", "httpRequest": "url"}
_STEP = re.compile(r"\.(?P<key>\w++)|\[(?P<index>\d++)\]")


@dataclass(slots=True)
class MappedWorkflow:
    """The workflow around a node, as far as it is mapped."""

    graph: LinkGraph
    timezone: str
    exits: dict[str, dict[int, Exit]] = field(default_factory=dict)
    input_links: dict[str, dict[int, InputLinks]] = field(default_factory=dict)
    """What leads to each input of each node."""
    aliases: set[str] = field(default_factory=set)
    """Loops whose current item has a variable of its own."""
    paired: set[str] = field(default_factory=set)
    """Code that says which item of its input each of its items belongs to."""
    bodies: dict[str, set[str]] = field(default_factory=dict)
    """The bodies of loops: their variables are known in them only."""
    reads_files: bool = False
    """Whether any node reads n8n's binary data."""
    title: str = ""
    """The name of the workflow in n8n."""
    waits: dict[str, str] = field(default_factory=dict)
    """The nodes that wait for a request, with the ids of ours."""


@dataclass(slots=True)
class NodeScope:
    """The names at one node."""

    around: MappedWorkflow
    name: str
    feed: ItemFeed | None
    per_item: bool
    read_variable: Callable[[str], Ref] | None = None
    """What has a node in front read a variable; None: no node can be in front."""
    of_code: bool = False
    """Whether the names are for code, which can fail where nothing is known of an item."""
    ambiguous: set[str] = field(default_factory=set)
    """Nodes of which it is not known which of their outputs is read."""

    @property
    def timezone(self) -> str:
        """In which dates are written."""
        return self.around.timezone

    @property
    def title(self) -> str:
        """The name of the workflow in n8n."""
        return self.around.title

    @property
    def _is_mapped(self) -> bool:
        return self.per_item and self.feed is not None and self.feed.many

    def resume_address(self) -> str:
        """`$execution.resumeUrl`: n8n has one for all nodes of a run that wait, and here each has its own."""
        waits, graph = self.around.waits, self.around.graph
        repeated = graph.in_cycles.union(
            *(graph.loop_body(name) for name, node in graph.nodes.items() if node.kind == LOOP_KIND)
        )
        if len(waits) != 1 or repeated.intersection(waits):
            raise Untranslatable("which node that waits `$execution.resumeUrl` belongs to is not known")
        [node_id] = waits.values()
        return f"ctx.callbacks.{node_id}"

    def json(self) -> Ref:
        """`$json`."""
        if self.feed is None:
            return Ref("{}", "{}")
        return ITEM if self._is_mapped else self.feed.first

    def item_index(self) -> Ref:
        """`$itemIndex`."""
        return INDEX if self._is_mapped else number(0)

    def inputs(self, which: str) -> Ref:
        """The feeds of this node's inputs."""
        if self.feed is None:
            return Ref("{}", "{}")
        self._needs_no_alias(self.feed)
        return _pick(self.feed, which)

    def check_inputs(self, js: str) -> None:
        """Refuses what reads all that flows in where the current item of a loop would hide it. Raises
        Untranslatable."""
        if self.feed is not None and reads_inputs(js):
            self._needs_no_alias(self.feed)

    def _needs_no_alias(self, feed: ItemFeed) -> None:
        """The current item of a loop is no longer that where an item of it is current, or in a loop inside of it."""
        if feed.loop is not None and (self._is_mapped or self._innermost() != feed.loop):
            self.around.aliases.add(feed.loop)
            raise Untranslatable(f"the current item of the loop {feed.loop} is needed where another item is current")

    def files(self) -> Ref:
        """`$binary`."""
        files = None if self.feed is None else self.feed.files
        if files is None:
            raise Untranslatable("which files flow in is not known here")
        return files.at(INDEX) if self._is_mapped else self.feed.first_files or files  # type: ignore[union-attr]

    def variable(self, name: str) -> Ref:
        """`$vars` and `$env`."""
        if self.read_variable is None or not VARIABLE_NAME.fullmatch(name):
            raise Untranslatable("variables cannot be read there")
        return self.read_variable(name).field(name)

    def node(self, name: str, which: str) -> Ref:
        """The items of another node, or one of them."""
        node = self.around.graph.nodes.get(name)
        if node is None:
            raise Untranslatable(f"there is no node {name}")
        read = self._exits_read(name)
        feed = read[0].feed
        for body_of, body in self.around.bodies.items():
            inside = name in body or (name == body_of and feed.loop == name)
            if inside and self.name not in body:
                raise Untranslatable(f"the node {name} is inside of a loop, and its items are not known after it")
        self._needs_no_alias(feed)
        if which == "item":
            is_one = not feed.many and all(each.feed.value == feed.value for each in read)
            return feed.value if is_one else self._paired(name)
        if len(read) > 1:
            self.ambiguous.add(name)
            if not self.of_code:
                raise Untranslatable(f"which output of the node {name} is read is not known here")
        if which == "index":
            return feed.value.at(INDEX if self._is_mapped else number(0)) if feed.many else feed.value
        return _pick(feed, which)

    def _exits_read(self, name: str) -> list[Exit]:
        """The ways out of a node of whose items n8n gives those of one at this node: those that lead here."""
        exits = self.around.exits.get(name)
        if not exits:
            raise Untranslatable(f"nothing comes out of the node {name}")
        if self.around.graph.nodes[name].kind == LOOP_KIND:
            return [self._batch_exit(name, exits)]
        leading = self.around.graph.outputs_towards(name, self.name) or {min(exits)}
        if not leading <= exits.keys():
            raise Untranslatable(f"what comes out of the node {name} is not known here")
        return [exits[output] for output in sorted(leading)]

    def is_in_order(self, name: str) -> bool:
        """Whether the item of another node that belongs to one that flows in always has the same number."""
        feed = self._exits_read(name)[0].feed
        each = Ref("each", "each")
        return not feed.many or self._walk(self.name, each, name, frozenset()) == [feed.value.at(each)]

    def check_nodes(self, js: str) -> None:
        """Refuses what reads a node that is not there: n8n fails. Raises Untranslatable."""
        for name in names_of_nodes(js):
            self.parameters(name)

    def parameters(self, name: str) -> Mapping[str, Any]:
        """The parameters of another node."""
        node = self.around.graph.nodes.get(name)
        if node is None:
            raise Untranslatable(f"there is no node {name}")
        return node.parameters

    def with_passes(self, js: str) -> str:
        """JavaScript with what it reads of the state of the loop around it, by n8n's `context`, and of parameters of
        nodes."""
        if ".params" in js and "`" not in js:
            code = masked(js)
            js = _PARAMETERS.sub(
                lambda found: (code[found.start()] == "$" and self._of_parameters(found)) or found[0], js
            )
        return PASS.sub(lambda found: self._of_pass(found) or found[0], js)

    def _of_parameters(self, found: re.Match[str]) -> str | None:
        """What is written in the parameters of a node: n8n does not resolve expressions there. Of others than these n8n
        may have a default, or leave out what stands in an export."""
        node = self.around.graph.nodes.get(found["name"])
        path = [step["key"] or int(step["index"]) for step in _STEP.finditer(found["path"])]
        if node is None or _SHOWN.get(node.kind) != path[0] or {"mode", "language"} & set(node.parameters):
            return None
        if node.kind == "set" and node.version < 3.3:
            return None
        value: Any = node.parameters
        for steps, key in enumerate(path):
            if isinstance(value, Mapping | list):
                value = _at(value, key)
            else:
                return _written(value, found, steps)
        return None if value is None or isinstance(value, Mapping | list) else _written(value, found, len(path))

    def _of_pass(self, found: re.Match[str]) -> str | None:
        name, what = found["name"] or found["other"], found["what"] or found["key"]
        node, body = self.around.graph.nodes.get(name), self.around.bodies.get(name, ())
        exit_ = self.around.exits.get(name, {}).get(loop_output(node)) if node is not None else None
        if node is None or exit_ is None or self.name not in body or self._innermost() != name:
            return None
        size = node.parameters.get("batchSize", 10 if node.version < 2 else 1)
        if not isinstance(exit_.pairing, Moved) or not isinstance(size, int):
            return None
        offset = self._moved(exit_.pairing).js
        if what == "currentRunIndex":
            return f"({offset} / {size})"
        items = self.around.input_links[name][0].feed().items.js
        return f"({offset} + {size} >= ({items} ?? []).length)"

    def _batch_exit(self, name: str, exits: Mapping[int, Exit]) -> Exit:
        inside = self.name in self.around.bodies.get(name, ()) or name not in self.around.bodies
        output = loop_output(self.around.graph.nodes[name])
        return exits.get(output if inside else 1 - output, exits[min(exits)])

    def _innermost(self) -> str | None:
        around = [(len(body), name) for name, body in self.around.bodies.items() if self.name in body]
        return min(around)[1] if around else None

    def _paired(self, name: str) -> Ref:
        index = INDEX if self._is_mapped else number(0)
        found = self._walk(self.name, index, name, frozenset())
        if None not in found and len(set(found)) == 1:
            return found[0]  # type: ignore[return-value]
        if not self.of_code:
            raise Untranslatable(f"which item of {name} belongs to it is known when it runs")
        around = self.around
        trace = ItemTrace(around.graph, around.input_links, around.exits, around.paired, self._moved, name)
        return Ref("none", trace.js(self.name, index))

    def _walk(self, at: str, index: Ref | None, wanted: str, seen: frozenset[str]) -> list[Ref | None]:
        """The items of `wanted` that belong to the item with this number of what flows into a node.

        None stands for items that are not known.
        """
        found: list[Ref | None] = []
        graph = self.around.graph
        if any(joined.how == "joined" for joined in self.around.input_links.get(at, {}).values()):
            return [None]  # the numbers of its items are others than along each way
        returns = graph.returns(at) if graph.nodes[at].kind == LOOP_KIND else []
        for link in graph.into[at]:
            exit_ = self.around.exits.get(link.source, {}).get(link.output)
            if exit_ is None or link.source in seen or link in returns:
                continue
            item_index = index if exit_.feed.many else number(0)
            if link.source == wanted:
                found.append(
                    None
                    if item_index is None
                    else exit_.feed.value.at(item_index)
                    if exit_.feed.many
                    else exit_.feed.value
                )
                continue
            found += self._walk(link.source, self._before(link.source, exit_, item_index), wanted, seen | {at})
        return found

    def _before(self, name: str, exit_: Exit, index: Ref | None) -> Ref | None:
        """The number of the item, of what flows into a node, that an item out of it belongs to."""
        match exit_.pairing:
            case None | Traced():
                return None
            case _ if index is None:
                return None
            case Moved():
                self._moved(exit_.pairing)
                return exit_.pairing.at(index)
            case PairedByCode():
                self.around.paired.add(name)
                if exit_.pairing.of is None or not self.of_code:
                    raise Untranslatable(f"which items the code of {name} makes of which is known when it ran")
                return exit_.pairing.at(index)
            case Ref():
                return exit_.pairing.at(index)
        return index

    def _moved(self, pairing: Moved) -> Ref:
        """By how many places items are moved, where that is known here."""
        loop = pairing.loop
        if loop is not None and (self._is_mapped or self._innermost() != loop):
            self.around.aliases.add(loop)
            raise Untranslatable(f"the place in the loop {loop} is needed where another item is current")
        return pairing.by


def _pick(feed: ItemFeed, which: str) -> Ref:
    if which == "all":
        return feed.items
    if which == "last" and feed.many:
        return Ref(f"({feed.value.template} | last)", f"{feed.value.js}?.at(-1)")
    return feed.first


def _at(value: Mapping[str, Any] | list[Any], key: str | int) -> Any:
    """The value at a place, or None."""
    if isinstance(value, Mapping):
        return value.get(str(key))
    return value[key] if isinstance(key, int) and key < len(value) else None


def _written(value: Any, found: re.Match[str], steps: int) -> str | None:
    """A value as JavaScript that names no node, and what is read of it."""
    if value is None:
        return None
    rest = "".join(step[0] for step in list(_STEP.finditer(found["path"]))[steps:])
    return f"({json.dumps(value)})".replace("$", "\\u0024") + rest
