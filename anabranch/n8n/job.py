"""The mapping of one n8n node: its inputs, the nodes that it becomes, and what the report says about it.

Made by `importing`, one for each node, and given to the mapping functions. A mapping adds nodes, each behind the one
before, and names the exits. What it cannot map raises NotMapped, and the node becomes a placeholder.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Protocol

from anabranch.dataclass import dataclass
from anabranch.n8n.exports import N8nNode
from anabranch.n8n.js_code import value_code
from anabranch.n8n.js_reading import check_expression, with_calls_on_any_value
from anabranch.n8n.phrases import NameScope, Phrase, Untranslatable
from anabranch.n8n.refs import INDEX, ITEM, ItemFeed, Moved, PairedByCode, Ref, Traced, every, variable
from anabranch.n8n.texts import Counts, Texts, escaped, expression, without_sign

# n8n tries three times and waits a second unless the node says otherwise.
TRIES = 3
WAIT_MS = 1_000

# 100 expressions that code computes: with each of them the code is written anew.
COMPUTED_MAX = 100


Pairing = Ref | Moved | PairedByCode | Traced | str | None
"""Which items of its inputs an item of a node belongs to."""


class NotMapped(Exception):
    """A node has no counterpart; the text says why."""


@dataclass(frozen=True, slots=True)
class Exit:
    """A way out of what a node became."""

    node_id: str
    handles: tuple[str, ...]
    feed: ItemFeed
    pairing: Pairing = "same"
    """Which item of the input an item belongs to: the one with the same number (`same`), the one whose number is in a
    list, the one so many places behind, the one that code says, those that only code can tell, or unknown."""


@dataclass(slots=True)
class Credential:
    """A credential that has to be entered again."""

    node: str
    kind: str
    name: str
    secrets: tuple[str, ...] = ()
    """The secrets that the imported node reads."""


class WorkflowContext(Protocol):
    """The rest of the workflow, for mappings."""

    timezone: str
    aliases: set[str]
    """Loops whose current item has a variable of its own."""
    paired: set[str]
    """Code that says which item of its input each of its items belongs to."""
    reads_files: bool
    """Whether any node reads n8n's binary data."""

    def scope(self, job: MappingJob, feed: ItemFeed | None, *, per_item: bool) -> NameScope:
        """The meaning of n8n's names in a node."""

    def workflow_name(self, workflow_id: str) -> str:
        """The name of an imported workflow by its id in n8n; "" for this one. Empty: it is none of them."""

    def has_followers(self, name: str) -> bool:
        """Whether anything gets what comes out of a node: others, or who asked for it."""

    def always_comes_back(self, name: str) -> bool:
        """Whether in each pass of a loop certainly an item comes back."""

    def gives_one_for_each(self, name: str) -> bool:
        """Whether one item comes back to a loop in each pass."""

    def name_of(self, written: str) -> str:
        """A name for programs, of one for people."""

    def secret_name(self, credential: str, part: str) -> str:
        """The name of the secret for a part of a credential."""

    def code_names(self, job: MappingJob, code: str, *, per_item: bool) -> Mapping[str, tuple[Ref, Ref | None]]:
        """The nodes that code reads: all their items, and the one that belongs to the current item."""

    def code_files(self, job: MappingJob, names: Mapping[str, tuple[Ref, Ref | None]]) -> Mapping[str, tuple[str, str]]:
        """The files of these nodes as JavaScript, where they are known: all, and those of the one item."""


@dataclass(slots=True)
class MappingJob:
    """The mapping of one node."""

    node: N8nNode
    node_id: str
    feeds: Mapping[int, ItemFeed]
    """By input; an input that nothing leads to has none."""
    around: WorkflowContext
    nodes: list[dict[str, Any]] = field(default_factory=list)
    edges: list[tuple[str, str, str]] = field(default_factory=list)
    """(from, handle, to) inside of what the node became."""
    exits: dict[int, Exit] = field(default_factory=dict)
    differences: list[str] = field(default_factory=list)
    """Why it is not exact; empty: it is."""
    remarks: list[str] = field(default_factory=list)
    """What the user should know although it is exact."""
    credentials: list[Credential] = field(default_factory=list)
    queries: list[dict[str, Any]] = field(default_factory=list)
    """Saved queries that it needs."""
    counts: Counts = field(default_factory=Counts)
    takes_list: bool = False
    """Its input is taken as a list even where it is one item, so that failures of items can be told from results."""
    reads_all: bool = False
    """It gets all items although it is told to run for the first alone."""
    chooses: bool = False
    """Of its ways out exactly one is taken."""
    variables: dict[str, None] = field(default_factory=dict)
    """The variables that it reads."""
    reads_all_variables: bool = False
    """It computes their names."""
    keeps: tuple[str, ...] = ()
    """The variables of the workflow that it reads and writes."""
    _computed: dict[str, str] = field(default_factory=dict)

    # -- what it gets ---------------------------------------------------------------------

    @property
    def parameters(self) -> Mapping[str, Any]:
        """As in the export."""
        return self.node.parameters

    @property
    def feed(self) -> ItemFeed | None:
        """The feed of the first input."""
        feed = self.feeds.get(0)
        if feed is not None and feed.many and self.node.settings.get("executeOnce") is True and not self.reads_all:
            feed = feed.alone()
        return feed.as_list() if self.takes_list and feed is not None else feed

    def needed_feed(self) -> ItemFeed:
        """The same, where there has to be one."""
        return self.feed or ItemFeed(Ref("{}", "{}"), many=False)

    @property
    def is_mapped(self) -> bool:
        """Whether it runs once for each of several items."""
        return self.feed is not None and self.feed.many

    def texts(self, *, per_item: bool = True) -> Texts:
        """Writes its parameters: for each item, or once, where expressions read the first item."""
        feed = self.feed
        if feed is not None and feed.many and not per_item:
            feed = feed.alone()
        scope = self.around.scope(self, feed, per_item=per_item)
        is_mapped = feed is not None and feed.many
        return Texts(scope, lambda js: self._compute(js, is_mapped=is_mapped), self.counts)

    def option(self, *path: str, default: Any = None) -> Any:
        """A parameter below others."""
        value: Any = self.parameters
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        return default if value is None else value

    def fixed(self, *path: str, default: Any = None) -> Any:
        """The same, of which an expression would decide what the node is. Raises NotMapped for one."""
        value = without_sign(self.option(*path, default=default))
        if isinstance(value, str) and value.startswith("="):
            raise NotMapped(f"its parameter `{'.'.join(path)}` is computed")
        return value

    # -- what it becomes ------------------------------------------------------------------

    def add(
        self, kind: str, config: Mapping[str, Any], *, suffix: str = "", each: ItemFeed | None = None, **fields: Any
    ) -> str:
        """A node behind the last one, or behind that with the id `behind`; its id. `each`: it runs once for each of
        these items, if they are many."""
        node_id = f"{self.node_id}_{suffix}" if suffix else self.node_id
        made: dict[str, Any] = {"id": node_id, "type": kind}
        made["name"] = f"{self.node.name}: {suffix}" if suffix else self.node.name
        made["config"] = dict(config)
        if fields.pop("writes", True):
            made["outputVariable"] = node_id
        if each is not None and each.many:
            made["forEach"] = expression(each.value.template)
        if self.nodes:
            before = fields.pop("behind", self.nodes[-1]["id"])
            self.edges.append((before, fields.pop("after", "default"), node_id))
        made.update(fields)
        self.nodes.append(made)
        return node_id

    def leave(
        self,
        value: Ref | None = None,
        *,
        many: bool | None = None,
        output: int = 0,
        handles: tuple[str, ...] = ("default",),
        loop: str | None = None,
        pairing: Pairing = "same",
        files: Ref | None = None,
    ) -> None:
        """A way out by the last node; without a value, with its output."""
        node_id = self.nodes[-1]["id"]
        if pairing is None and set(self.feeds) == {0} and not self.feeds[0].many:
            pairing = "same"  # all belong to the only item
        feed = ItemFeed(value or variable(node_id), self.is_mapped if many is None else many, loop, files)
        if self.node.settings.get("alwaysOutputData") is True and feed.many and output == 0:
            value = Ref(f"({feed.value.template} or [{{}}])", f"$orOne({feed.value.js})")
            feed = ItemFeed(value, many=True, files=files)
            pairing = self._or_all(pairing)
        self.exits[output] = Exit(node_id, handles, feed, pairing)

    def _or_all(self, pairing: Pairing) -> Pairing:
        """The same, where an empty item may stand for none: it belongs to all that flowed in."""
        if set(self.feeds) != {0}:
            return pairing
        if not self.feeds[0].many:
            return "same"
        of = pairing.of if isinstance(pairing, PairedByCode) else pairing
        if not isinstance(of, Ref):
            return pairing
        return Traced(f"at => {of.js}?.length ? {of.js}[at] : {every(f'({self.feeds[0].items.js} ?? []).length')}")

    def differs(self, why: str) -> None:
        """It is not exact."""
        if why not in self.differences:
            self.differences.append(why)

    def always_fails(self, message: str) -> None:
        """It fails in n8n, too, as it is written. Raises NotMapped where the run goes on after that."""
        if self.error_way != "stop":
            raise NotMapped(message)
        self.add("stopWithError", {"message": escaped(message)}, writes=False)
        self.remarks.append("as it is written, it fails in n8n, too")

    def passes(self, *, output: int = 0, handles: tuple[str, ...] = ("default",)) -> None:
        """A way out by the last node with what flowed in."""
        feed = self.needed_feed()
        self.leave(feed.value, many=feed.many, loop=feed.loop, output=output, handles=handles, files=feed.files)

    def program(self, code: str, *, suffix: str = "") -> str:
        """A code node that computes what no other node does, of `items`: the list of what flows in."""
        source = f"const $orOne = list => list?.length ? list : [{{}}], items = {self.needed_feed().items.js} ?? [];"
        return self.add("javascript", {"code": f"{source}\n{code}"}, suffix=suffix, retry={"maxAttempts": 1})

    def attempts(self) -> dict[str, Any]:
        """The field `retry`: n8n tries once unless the node says otherwise."""
        settings = self.node.settings
        if settings.get("retryOnFail") is not True:
            return {"retry": {"maxAttempts": 1}}
        tries, wait = settings.get("maxTries", TRIES), settings.get("waitBetweenTries", WAIT_MS)
        tries = tries if isinstance(tries, int) and 2 <= tries <= 5 else TRIES
        wait = wait if isinstance(wait, int) and 0 < wait <= 5_000 else WAIT_MS
        return {"retry": {"maxAttempts": tries, "backoff": {"kind": "fixed", "base": wait, "max": wait}}}

    @property
    def error_way(self) -> str:
        """The way of failed items: nowhere (`stop`), with the others (`beside`), or by a way of their own
        (`apart`)."""
        way = self.node.settings.get("onError")
        if way is None:
            way = "continueRegularOutput" if self.node.settings.get("continueOnFail") is True else ""
        return {"continueRegularOutput": "beside", "continueErrorOutput": "apart"}.get(str(way), "stop")

    def on_error(self) -> dict[str, Any]:
        """The fields for what happens when it fails, of a node whose results are told from failures behind it."""
        return {} if self.error_way == "stop" else {"onItemError": "collect"}

    def secret(self, kind: str, *parts: str) -> list[str]:
        """The names of the secrets for the parts of a credential; it is noted as one to enter."""
        name = self.node.credentials.get(kind) or f"{self.node.name} {kind}"
        names = [self.around.secret_name(name, part) for part in parts]
        self.credentials.append(Credential(self.node.name, kind, name, tuple(names)))
        return names

    def variable(self, *names: str) -> Ref:
        """The variables with these names, or all, as an object: a node in front reads them."""
        self.variables.update(dict.fromkeys(names))
        self.reads_all_variables = self.reads_all_variables or not names
        return variable(f"{self.node_id}_variables")

    # -- expressions that become code -----------------------------------------------------

    def _compute(self, js: str, *, is_mapped: bool) -> Phrase:
        if self.nodes and self.nodes[0]["id"] != f"{self.node_id}_values":
            raise Untranslatable("it would have to be computed in the middle of what the node became")
        scope = self.around.scope(self, self.feed, per_item=is_mapped)
        scope.check_inputs(js)
        scope.check_nodes(js)
        js = with_calls_on_any_value(scope.with_passes(js))
        reason = check_expression(js, self.around.timezone)
        if reason is not None:
            raise Untranslatable(reason)
        if js not in self._computed and len(self._computed) >= COMPUTED_MAX:
            raise Untranslatable(f"more than {COMPUTED_MAX} expressions of the node would be computed by code")
        key = self._computed.setdefault(js, f"v{len(self._computed) + 1}")
        names = self.around.code_names(self, " ".join(self._computed), per_item=is_mapped)
        feed = self.needed_feed()
        item = ITEM if is_mapped else feed.first
        code = value_code({name: source for source, name in self._computed.items()}, item, names,
                          INDEX if is_mapped else None, feed.items)  # fmt: skip
        if not self.nodes:
            self.add("javascript", {"code": code}, suffix="values", each=feed if is_mapped else None,
                     retry={"maxAttempts": 1})  # fmt: skip
        self.nodes[0]["config"] = {"code": code}
        values = variable(self.nodes[0]["id"])
        if is_mapped:
            values = values.at(INDEX)
        return Phrase(values.field(key).template, is_path=True)


_WORD = re.compile(r"[^A-Za-z0-9]+")


def word_of(name: str) -> str:
    """A name as an identifier in small letters."""
    return _WORD.sub("_", name).strip("_").lower()
