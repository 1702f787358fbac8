"""Import a workflow of n8n: a document of ours, pins, and the report on what is the same and what is not.

Pure. Called by the command, the REST API and the benchmark. Nodes are mapped in the order of the items' way, each with
what flows into it; where links lead back, once more, until nothing changes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from typing import Any

from anabranch.dataclass import dataclass
from anabranch.engine.rules.graph.node_types import NodeTypes
from anabranch.engine.rules.graph.problems import Problem
from anabranch.engine.rules.graph.validate import validate
from anabranch.n8n.drawing import (
    NOTE_KIND,
    edge_of,
    gate_behind,
    ids_of,
    notes_of,
    one_start,
    set_positions,
    workflow_name,
)
from anabranch.n8n.exports import Link, N8nWorkflow
from anabranch.n8n.graph import CHOOSING, LOOP_KIND, LinkGraph
from anabranch.n8n.items.node_scope import MappedWorkflow, NodeScope
from anabranch.n8n.items.tracing import InputLinks
from anabranch.n8n.job import Exit, MappingJob, NotMapped
from anabranch.n8n.js_code import VARIABLES, ZONES
from anabranch.n8n.js_reading import (
    names_of_nodes,
    reads_by_position,
    reads_dates,
    reads_item,
    reads_matching,
    zones_of,
)
from anabranch.n8n.kept_data import variables_read
from anabranch.n8n.maps.continue_on_fail import FAILING
from anabranch.n8n.maps.map_flow import batches_as_cursor
from anabranch.n8n.maps.mapping import RULES
from anabranch.n8n.phrases import InvalidExpression, NameScope, NeverBegins, Untranslatable
from anabranch.n8n.refs import ItemFeed, Ref, first_there, variable
from anabranch.n8n.report import ImportReport, NodeReport
from anabranch.n8n.shared_paths import join_webhooks
from anabranch.n8n.texts import CODE_LENGTH_MAX, TEXT_LENGTH_MAX, Counts, expression, longest
from anabranch.n8n.time_zones import zones_code

# 4 rounds: what flows back along a link is known after the second; a nested loop needs one more.
ROUNDS_MAX = 4

# The variables that a template reads.
_OF_NODES = re.compile(r"\bctx\.(\w+)")

# 20 nodes that our validator refuses: more of them are a fault of the import, and the draft says so.
REFUSED_MAX = 20

# What they do with an item has nothing to do with the other items: it is the same in one go or in several.
_PER_ITEM = frozenset({"set", "noOp", "if", "filter", "switch", "httpRequest", "html", "htmlExtract",
                       "markdown", "xml", "crypto",
                       "dateTime", "functionItem", "renameKeys", "splitOut", "postgres", "mySql", "merge"})  # fmt: skip
# Their failures are not told from results, so that they cannot go on as n8n's do.
_FAILS_AS_A_WHOLE = frozenset({"crypto", "xml", "dateTime", "postgres", "mySql"})
# What nodes that read files have in their parameters.
_READS_FILES = re.compile(r"\bbinary|Binary|inputDataFieldName|rawBody")

# What the mapping of a node raises where a parameter is of another kind than n8n writes it.
_OTHER_FORM = (AttributeError, TypeError, ValueError, LookupError, RecursionError)
_STRUCTURE = frozenset({"CYCLE", "LOOP_BORDER", "LOOPS_TOO_DEEP"})


@dataclass(frozen=True, slots=True)
class Imported:
    """The result of an import."""

    document: dict[str, Any]
    pins: dict[str, Any]
    """Pins of the draft, by node."""
    report: ImportReport
    queries: tuple[dict[str, Any], ...] = ()
    """Queries that have to be saved."""
    errors: tuple[Problem, ...] = ()
    """Why the document would be refused; empty: it can be saved."""


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """Options of an import."""

    timezone: str = "UTC"
    """Of workflows that name none: in n8n that of the instance."""
    names: Mapping[str, str] = field(default_factory=dict)
    """The names of workflows that are imported together, by their ids in n8n."""


def import_workflow(workflow: N8nWorkflow, node_types: NodeTypes, options: ImportOptions | None = None) -> Imported:
    """The workflow as a document of ours. What has no counterpart becomes a placeholder; nothing is refused."""
    options = options or ImportOptions()
    cursors: set[str] = set()
    refused: dict[str, str] = {}
    while True:
        importer = _Importer(workflow, options, frozenset(cursors), node_types)
        importer.refused = refused
        made = importer.run()
        errors = validate(made.document, node_types).errors
        loops = importer.loops - cursors
        if loops and {problem.code for problem in errors} & _STRUCTURE:
            cursors |= loops if len(loops) < 2 or cursors else {sorted(loops)[0]}
            continue
        found = {name: problem.message for problem in errors
                 if (name := importer.origin_of(problem.node_id)) is not None and name not in refused}  # fmt: skip
        if not found or len(refused) >= REFUSED_MAX:
            return replace(made, errors=errors)
        refused |= found  # they become placeholders, so that the rest can be saved


class _Importer(MappedWorkflow):
    def __init__(
        self, workflow: N8nWorkflow, options: ImportOptions, cursors: frozenset[str], node_types: NodeTypes
    ) -> None:
        self._attached = {source for source, _, _ in workflow.attachments}
        left_out = {node.name for node in workflow.nodes if node.kind == NOTE_KIND}
        self._subordinate = self._subordinates(workflow)
        graph = LinkGraph(workflow, left_out | self._subordinate)
        zone = workflow.settings.get("timezone")
        super().__init__(
            graph=graph,
            timezone=zone if isinstance(zone, str) and zone not in ("", "DEFAULT") else options.timezone,
            title=workflow.name,
        )
        self.reads_files = any(_READS_FILES.search(json.dumps(node.parameters)) for node in workflow.nodes)
        self._workflow = workflow
        self._options = options
        self.refused: dict[str, str] = {}
        """Nodes that our validator refuses, with the reason."""
        self._node_types = node_types
        self._ids = ids_of(graph.order)
        self.waits = {
            name: self._ids[name] for name, node in graph.nodes.items()
            if node.kind == "wait" and not node.disabled and node.parameters.get("resume") == "webhook"
        }  # fmt: skip
        self._jobs: dict[str, MappingJob] = {}
        self._made: dict[str, set[str]] = {}
        """The ids of the nodes of ours that each became."""
        self._status: dict[str, tuple[str, str]] = {}
        self._single: frozenset[str] = frozenset()
        self._multiple: dict[str, list[str]] = {}
        self._incomplete: dict[str, str] = {}
        """Nodes without a parameter that n8n demands, with the reason."""
        self._secrets: dict[tuple[str, str], str] = {}
        self.loops = {
            name for name, node in graph.nodes.items() if node.kind == LOOP_KIND and graph.returns(name)
        } - cursors
        self.bodies = {name: graph.loop_body(name) for name in self.loops}

    def _subordinates(self, workflow: N8nWorkflow) -> set[str]:
        """Nodes that are attached to others only: models, tools, memories."""
        linked = {link.source for link in workflow.links} | {link.target for link in workflow.links}
        return {node.name for node in workflow.nodes if node.name in self._attached and node.name not in linked}

    def run(self) -> Imported:
        needed: tuple[set[str], set[str]] | None = None
        while needed != (self.aliases, self.paired):  # they are made once somebody needs them
            needed = set(self.aliases), set(self.paired)
            self._map_all()
        return self._document()

    def origin_of(self, node_id: str | None) -> str | None:
        """The node of n8n that a node of ours was made of, unless it is a placeholder already."""
        made = ((name, [each["id"] for each in job.nodes]) for name, job in self._jobs.items())
        name = next((name for name, ids in made if node_id in ids), None)
        return None if name is None or self._status[name][0] == "placeholder" else name

    def _map_all(self) -> None:
        known: Any = None
        for _ in range(ROUNDS_MAX):
            self._jobs, self._status, self._multiple, self._incomplete = {}, {}, {}, {}
            for name in self.graph.order:
                self._map(name)
            now = {name: dict(job.exits) for name, job in self._jobs.items()}
            if now == known:
                break
            known = now

    # -- one node -------------------------------------------------------------------------

    def _map(self, name: str) -> None:
        node = self.graph.nodes[name]
        feeds = self._feeds(name)
        job = MappingJob(node, self._ids[name], feeds, self)
        rule = RULES.get(node.kind)
        if rule is None or name in self.refused:
            self._replace(job, self.refused.get(name, f"there is no counterpart of {node.type}"))
        else:
            try:
                if node.disabled:
                    self._disabled(job)
                elif rule.begins and self.graph.into[name]:
                    raise NotMapped("a trigger that something leads to")
                elif node.kind == LOOP_KIND and name not in self.loops:
                    batches_as_cursor(job)
                else:
                    length_max = CODE_LENGTH_MAX if node.kind in _CODE else TEXT_LENGTH_MAX
                    if longest(job.parameters) > length_max:
                        raise NotMapped(f"one of its texts has more than {length_max} characters")
                    rule.map(job)
                for made in job.nodes:
                    if self._node_types.get(made["type"]) is None:
                        raise NotMapped(f"it would become a node of the type {made['type']}, which is not there")
                self._error_exit(job)
            except NeverBegins as refusal:
                job = MappingJob(node, self._ids[name], feeds, self, counts=job.counts)
                self._never_begins(job, str(refusal))
            except InvalidExpression as refusal:
                job = MappingJob(node, self._ids[name], feeds, self, counts=job.counts)
                self._fails(job, str(refusal))
            except (NotMapped, Untranslatable) as refusal:
                job = MappingJob(node, self._ids[name], feeds, self, counts=job.counts)
                if self._reads_nowhere(node.kind, str(refusal)):
                    self._fails(job, str(refusal))
                else:
                    self._replace(job, str(refusal))
            except _OTHER_FORM:
                job = MappingJob(node, self._ids[name], feeds, self, counts=job.counts)
                self._replace(job, "its parameters have a form that n8n does not write")
            else:
                self._of_passes(job)
                self._read_variables(job)
                self._guard(job, needs_items=rule.needs_items)
                self._status[name] = ("equal" if job.differences else "exact", "; ".join(job.differences))
        self._jobs[name] = job
        self._made[name] = {made["id"] for made in job.nodes}
        self.exits[name] = job.exits
        several = job.takes_list or any(feed.many for feed in feeds.values())
        fails_apart = node.settings.get("onError") == "continueErrorOutput" and not several
        if job.chooses or fails_apart or (node.kind in CHOOSING and not several):
            self._single |= {name}
        else:
            self._single -= {name}

    def _feeds(self, name: str) -> dict[int, ItemFeed]:
        by_input: dict[int, list[Link]] = {}
        node = self.graph.nodes[name]
        returns = set(self.graph.returns(name)) if node.kind == LOOP_KIND else set()
        for link in self.graph.into[name]:
            if link not in returns:
                by_input.setdefault(link.input if node.kind == "merge" or node.kind not in RULES else 0, []).append(
                    link
                )
        self.input_links[name] = {
            number: joined for number, links in sorted(by_input.items())
            if (joined := self._links_of_input(name, links)) is not None
        }  # fmt: skip
        return {number: joined.feed() for number, joined in self.input_links[name].items()}

    def _feed(self, name: str, links: Sequence[Link]) -> ItemFeed | None:
        joined = self._links_of_input(name, links)
        return None if joined is None else joined.feed()

    def _links_of_input(self, name: str, links: Sequence[Link]) -> InputLinks | None:
        by_feed: dict[ItemFeed, tuple[Link, ...]] = {}
        for link in links:
            if link.output in self.exits.get(link.source, {}):
                feed = self.exits[link.source][link.output].feed
                by_feed[feed] = (*by_feed.get(feed, ()), link)
        known = [link for each in by_feed.values() for link in each]
        if not known:
            return None
        how, feeds, back = "first", list(by_feed), [link for link in known if self.graph.leads_back(link)]
        exclusive = self.graph.are_exclusive(known, self._single)
        if (
            not exclusive
            and not back
            and len(feeds) > 1
            and self._answers_once(name)
            and all(each.many for each in feeds)
        ):
            arrived = self.graph.arrivals(name, depth_first=self._workflow.settings.get("executionOrder") == "v1")
            if len(arrived) == len(links):
                first = list(dict.fromkeys(self.exits[link.source][link.output].feed for link in arrived))
                return InputLinks(tuple((each, by_feed[each]) for each in first), "with items")
        if not exclusive and (not back or len(feeds) == 1):
            self._multiple[name] = [link.source for link in known]
            how = "joined" if len(feeds) > 1 else how
        else:
            later = {feed for feed in feeds if set(back) & set(by_feed[feed])}
            feeds = sorted(self._latest_first(feeds), key=lambda feed: feed not in later)
        return InputLinks(tuple((each, by_feed[each]) for each in feeds), how)

    def _latest_first(self, feeds: Sequence[ItemFeed]) -> list[ItemFeed]:
        """Those that later nodes made first: what was made in front of a choice is there whichever way is taken."""
        makers = {node_id: index for index, name in enumerate(self.graph.order) for node_id in self._made.get(name, ())}
        loops = {name: index for index, name in enumerate(self.graph.order)}

        def made_at(feed: ItemFeed) -> int:
            read = [makers[each] for each in _OF_NODES.findall(feed.value.template) if each in makers]
            return max([*read, loops.get(feed.loop or "", -1)])

        return sorted(feeds, key=made_at, reverse=True)

    def _answers_once(self, name: str) -> bool:
        """Whether a node is an answer with nothing behind it, made of its items alone: only the first one is sent."""
        node = self.graph.nodes[name]
        if node.kind != "respondToWebhook" or self.graph.out_of[name]:
            return False
        called = any(each.kind == "executeWorkflowTrigger" for each in self.graph.nodes.values())
        return not called and not _READS_OTHERS.search(json.dumps(dict(node.parameters)))

    def _of_passes(self, job: MappingJob) -> None:
        """Note what n8n knows of the passes of loops and we do not."""
        written, name = "\n".join(_texts_in(job.parameters)), job.node.name
        around = [body for loop in self.graph.nodes if self.graph.nodes[loop].kind == LOOP_KIND
                  and name in (body := self.graph.loop_body(loop))]  # fmt: skip
        if "$runIndex" in written and (around or name in self.graph.in_cycles or job.node.kind == LOOP_KIND):
            job.differs("`$runIndex` is 0 in each pass")
        scope = self.scope(job, job.feed, per_item=job.is_mapped)
        known = written
        if job.node.kind not in _CODE:
            with suppress(Untranslatable):  # in the next round it is known
                known = "\n".join(map(scope.with_passes, _texts_in(job.parameters)))
        if _CONTEXT.search(known):
            job.differs("the state of a loop (`context`) is nothing here")
        size = str(job.parameters.get("batchSize", ""))
        if job.node.kind == LOOP_KIND and size.startswith("=") and _OF_THIS_ITEM.search(size):
            job.differs("the size of its batches is computed once, and not for each pass")
        for other in names_of_nodes(written):
            if any(other in body and self._may_come_without(other, name) for body in around):
                job.differs(f"what {other} gave in the pass before is not known here")

    def _may_come_without(self, other: str, name: str) -> bool:
        """Whether a node may be reached before another one is."""
        return other == name or name in self.graph.reachable(self.graph.entry_points, without=self.graph.out_of[other])

    def _guard(self, job: MappingJob, *, needs_items: bool) -> None:
        """Nothing that n8n would not run for no items is run for none."""
        feed = self._jobs_feed(job)
        once = job.node.settings.get("executeOnce") is True
        if feed is None or not feed.many or not (needs_items or once) or not job.nodes:
            return
        guard = {
            "id": f"{job.node_id}_any",
            "type": "condition",
            "name": f"{job.node.name}: any items?",
            "config": {
                "branches": [{"id": "items", "expression": expression(f"({feed.value.template} | length) > 0")}]
            },
        }
        job.edges.append((guard["id"], "items", job.nodes[0]["id"]))  # type: ignore[arg-type]
        job.nodes.insert(0, guard)

    def _read_variables(self, job: MappingJob) -> None:
        """A node in front that reads the variables of a node."""
        if not job.nodes or not (job.variables or job.reads_all_variables):
            return
        node_id = f"{job.node_id}_variables"
        names = {} if job.reads_all_variables else {"names": sorted(job.variables)}
        job.edges.append((node_id, "default", job.nodes[0]["id"]))
        job.nodes.insert(0, {"id": node_id, "type": "readVariables", "name": f"{job.node.name}: variables",
                             "config": names, "outputVariable": node_id})  # fmt: skip

    def _jobs_feed(self, job: MappingJob) -> ItemFeed | None:
        return job.feeds.get(0)

    def _disabled(self, job: MappingJob) -> None:
        """n8n hands on what flows into a disabled node."""
        if not job.feeds:
            if RULES[job.node.kind].begins:
                RULES[job.node.kind].map(job)
                job.nodes[0]["disabled"] = True
                if job.nodes[0]["type"] == "start":
                    job.nodes.clear()
                    job.exits.clear()
                    job.remarks.append("a disabled manual trigger begins nothing: it is left out")
                return
            job.remarks.append("it is disabled, and nothing flows into it: it is left out")
            return
        feed = job.needed_feed()
        job.add("fields", {"source": expression(feed.value.template)})
        job.remarks.append("it is disabled: what flows in is handed on")
        job.leave()

    def _error_exit(self, job: MappingJob) -> None:
        """The output for items that failed, of a node that has none of its own."""
        if job.error_way == "beside" and job.node.kind in _FAILS_AS_A_WHOLE:
            job.differs("a failure fails the run, where n8n goes on with an item that has the error")
        if job.error_way != "apart" or not job.exits or job.node.kind in FAILING or job.node.kind == "noOp":
            return
        if job.node.kind in CHOOSING and not job.parameters:
            return  # without conditions nothing can fail
        output = max(job.exits) + 1
        if not any(link.output == output for link in self.graph.out_of[job.node.name]):
            job.differs("a failure fails the run, where n8n leaves the item out")
            return
        feed = job.needed_feed()
        for node in job.nodes:
            if node["type"] in ("javascript", "dataQuery", "set"):
                job.exits[output] = Exit(node["id"], ("error",), feed)
        job.differs("after a failure all items take the way for errors, without a field `error`" if job.is_mapped
                    else "the item on the way for errors has no field `error`")  # fmt: skip

    def _fails(self, job: MappingJob, why: str) -> None:
        """A node that fails in n8n, too, once an item reaches it."""
        try:
            job.always_fails(why)
        except NotMapped as refusal:
            self._replace(job, str(refusal))
            return
        self._guard(job, needs_items=True)
        self._status[job.node.name] = ("exact", "")

    def _reads_nowhere(self, kind: str, why: str) -> bool:
        """Whether an expression of a node that resolves all of its parameters begins with a node that is not there:
        n8n fails for it, before anything else of the expression counts."""
        found = _NOWHERE.match(why)
        return (
            kind in ("set", "httpRequest")
            and found is not None
            and found["name"] == found["missing"]
            and all(node.name != found["name"] for node in self._workflow.nodes)
        )

    def _never_begins(self, job: MappingJob, why: str) -> None:
        """A node for which n8n does not execute the workflow at all."""
        job.add("stopWithError", {"message": f"{job.node.name}: {why}"[:500]}, writes=False)
        job.remarks.append(f"{why}: n8n executes no workflow that leads to it")
        self._incomplete[job.node.name] = why
        self._status[job.node.name] = ("exact", "")

    def _gates(self, edges: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Behind each entry point that leads to a node for which n8n would not execute it: nothing else is run."""
        made = []
        for name in self.graph.entry_points:
            found = sorted(self.graph.reachable([name]) & self._incomplete.keys())
            if found and found != [name] and self._jobs[name].nodes:
                why = "; ".join(f"{each}: {self._incomplete[each]}" for each in found)
                made += gate_behind(self._jobs[name].nodes[0], why, edges)
        return made

    # -- placeholders ---------------------------------------------------------------------

    def _replace(self, job: MappingJob, why: str) -> None:
        node = job.node
        outputs = {link.output for link in self.graph.out_of[node.name]} | {0}
        begins = not self.graph.into[node.name] and (RULES[node.kind].begins if node.kind in RULES
                                                     else "trigger" in node.kind.lower())  # fmt: skip
        config: dict[str, Any] = {"was": node.type[:256], "why": why[:1_000], "parameters": self._kept(job)}
        handles = ["default", *(f"out{output}" for output in range(1, max(outputs) + 1))]
        if len(handles) > 1:
            config["handles"] = handles[:32]
        if attached := [(kind, source) for source, kind, target in self._workflow.attachments if target == node.name]:
            config["parameters"] = {**config["parameters"], "attached": [
                {"as": kind, "name": source, "type": self._type_of(source)} for kind, source in attached]}  # fmt: skip
        feed = job.feed
        single = len(handles) > 1
        if begins:
            job.add("start", {}, suffix="begin", writes=False)
            job.nodes[-1]["x-begins"] = True
        job.add("placeholder", config, each=None if single or feed is None else feed)
        for output in range(min(len(handles), 32)):
            value = variable(job.node_id)
            job.leave(value, many=True, output=output, handles=(handles[output],))
        self._read_variables(job)
        self._status[node.name] = ("placeholder", why)

    def _type_of(self, name: str) -> str:
        return next((node.type for node in self._workflow.nodes if node.name == name), "")

    def _kept(self, job: MappingJob) -> dict[str, Any]:
        """The parameters, with what can be said here said in our templates."""
        if job.counts.total:  # they were tried before, and counted then
            return dict(job.node.parameters)
        texts = job.texts()

        def kept(value: Any) -> Any:
            """The value with every expression in it translated that can be; the others stay as they are."""
            if isinstance(value, dict):
                return {key: kept(each) for key, each in value.items()}
            if isinstance(value, list):
                return [kept(each) for each in value]
            if isinstance(value, str) and value.startswith("="):
                try:
                    return texts.value(value)
                except (Untranslatable, InvalidExpression, *_OTHER_FORM):
                    return value
            return value

        before = list(job.nodes)
        made = kept(dict(job.node.parameters))
        job.nodes[:], job.edges[:] = before, []
        return dict(made)

    # -- what mappings ask ----------------------------------------------------------------

    def scope(self, job: MappingJob, feed: ItemFeed | None, *, per_item: bool) -> NameScope:
        return NodeScope(self, job.node.name, feed, per_item, job.variable if self._can_read(job) else None)

    def _can_read(self, job: MappingJob) -> bool:
        """Whether a node that reads variables can be in front of it."""
        rule = RULES.get(job.node.kind)
        return rule is not None and not rule.begins and job.node.name not in self.refused

    def secret_name(self, credential: str, part: str) -> str:
        """The name under which this part of a credential is to be stored as a secret; no two parts share one."""
        key = (credential, part)
        if key not in self._secrets:
            base = re.sub(r"[^A-Z0-9]+", "_", f"{credential} {part}".upper()).strip("_")[:60] or "CREDENTIAL"
            name, number = base if not base[0].isdigit() else f"N8N_{base}", 2
            while name in self._secrets.values():
                name, number = f"{base}_{number}", number + 1
            self._secrets[key] = name
        return self._secrets[key]

    def workflow_name(self, workflow_id: str) -> str:
        if workflow_id == "" or workflow_id == self._workflow.workflow_id:
            return workflow_name(self._workflow.name)
        return self._options.names.get(workflow_id, "")

    def has_followers(self, name: str) -> bool:
        asked = any(node.kind == "executeWorkflowTrigger" or node.parameters.get("responseMode") == "lastNode"
                    for node in self.graph.nodes.values())  # fmt: skip
        return asked or bool(self.graph.out_of[name])

    def always_comes_back(self, name: str) -> bool:
        return self.graph.always_comes_back(name)

    def gives_one_for_each(self, name: str) -> bool:
        feed = self._feed_back(name)
        return feed is not None and not feed.many

    def name_of(self, written: str) -> str:
        return workflow_name(written)

    def code_names(self, job: MappingJob, code: str, *, per_item: bool) -> Mapping[str, tuple[Ref, Ref | None]]:
        """The names that code reads: zones, variables, and of nodes all items and, where it is known, the one."""
        found: dict[str, tuple[Ref, Ref | None]] = {}
        if reads_dates(code):
            found[ZONES] = (Ref("", zones_code(self.timezone, zones_of(code))), None)
        read = variables_read(code)
        if read is None or read:
            found[VARIABLES] = (job.variable(*(read or ())), None)
        for name in names_of_nodes(code):
            if name not in self.graph.nodes:
                continue
            scope = NodeScope(self, job.node.name, job.feed, per_item=per_item, of_code=True)
            everything = scope.node(name, "all")
            if name in scope.ambiguous and reads_by_position(code, name):
                job.differs(f"which output of the node {name} is read is not known here")
            if "isExecuted" in code and not self._shows_that_it_ran(name):
                job.differs(f"whether {name} ran is known only by whether it gave items")
            one = None
            if reads_item(code, name):
                try:
                    one = scope.node(name, "item")
                except Untranslatable as refusal:
                    job.differs(f"{refusal}: reading it fails")
            if reads_matching(code, name) and not scope.is_in_order(name):
                job.differs(
                    f"which item of {name} belongs to another one is not known here: it is that in the same place"
                )
            found[name] = (everything, one)
        return found

    def _shows_that_it_ran(self, name: str) -> bool:
        """Whether a node that ran certainly made items, and one that did not has none."""
        node, exits = self.graph.nodes[name], self.exits.get(name, {})
        if not self.graph.into[name] or 0 not in exits:
            return True
        made = set(_OF_NODES.findall(exits[0].feed.value.template)) <= self._made.get(name, set())
        return made and (self.graph.gives_always(node) or not exits[0].feed.many)

    def code_files(self, job: MappingJob, names: Mapping[str, tuple[Ref, Ref | None]]) -> Mapping[str, tuple[str, str]]:
        """The files of the nodes that the code reads: of all items, and of the one."""
        found: dict[str, tuple[str, str]] = {}
        for name, (everything, one) in names.items():
            feed = next(
                (each.feed for each in self.exits.get(name, {}).values() if each.feed.items == everything), None
            )
            if feed is None or feed.files is None:
                continue
            of_one = "undefined"
            if one is not None and one.js.startswith(feed.value.js):
                of_one = feed.files.js + one.js.removeprefix(feed.value.js)
            found[name] = (feed.as_list().files or feed.files).js, of_one
        return found

    # -- the document ---------------------------------------------------------------------

    def _document(self) -> Imported:
        nodes: list[dict[str, Any]] = []
        edges: list[dict[str, Any]] = []
        for name in self.graph.nodes:
            job = self._jobs[name]
            set_positions(job)
            nodes += job.nodes
            edges += [edge_of(*edge) for edge in job.edges]
        batches = [name for name, node in self.graph.nodes.items() if node.kind == LOOP_KIND]
        returning = {link for name in batches for link in self.graph.returns(name)}
        for link in self.graph.links:
            exit_ = self._jobs[link.source].exits.get(link.output)
            target = self._jobs[link.target]
            if exit_ is None or not target.nodes:
                continue
            entry = target.node_id if link in returning else target.nodes[0]["id"]
            if link in returning and link.target in self.loops and self._hands_on(link):
                back = self._come_back(link, exit_)
                nodes += [back] if back not in nodes else []
                edges += [edge_of(exit_.node_id, handle, back["id"]) for handle in exit_.handles]
                edges.append(edge_of(back["id"], "default", entry))
                continue
            edges += [edge_of(exit_.node_id, handle, entry) for handle in exit_.handles]
        self._yields()
        extra = self._answer_of_last(edges)
        nodes += extra + self._gates(edges)
        nodes = join_webhooks(one_start(nodes, edges), edges)
        document: dict[str, Any] = {
            "name": workflow_name(self._workflow.name),
            "title": self._workflow.name[:200],
            "nodes": nodes,
            "edges": list(
                {
                    (edge["upstreamNodeID"], edge.get("sourceHandle"), edge["downstreamNodeID"]): edge for edge in edges
                }.values()
            ),
        }
        if notes := notes_of(self._workflow):
            document["notes"] = notes
        return Imported(
            document, self._pins(), self._report(), tuple(query for job in self._jobs.values() for query in job.queries)
        )

    def _yields(self) -> None:
        """Let a loop hand on at its end what comes back to it."""
        for name in self.loops:
            job = self._jobs[name]
            loops = [node for node in job.nodes if node["type"] == "loop"]
            feed = self._feed_back(name)
            if loops and feed is not None:
                loops[0]["config"]["yield"] = expression(f"{feed.items.template} | default([])")

    def _feed_back(self, name: str) -> ItemFeed | None:
        links = self.graph.returns(name)
        if name not in self.loops or not any(map(self._hands_on, links)):
            return self._feed(name, links)
        feeds = [ItemFeed(variable(f"{self._ids[link.source]}_back{link.output}"), exit_.feed.many)
                 if self._hands_on(link) else exit_.feed for link in links
                 if (exit_ := self.exits.get(link.source, {}).get(link.output)) is not None]  # fmt: skip
        many = any(feed.many for feed in feeds)
        return ItemFeed(first_there([feed.items if many else feed.value for feed in feeds]), many)

    def _hands_on(self, link: Link) -> bool:
        """Whether what comes along a link was made by an earlier node, so that it does not tell that it came."""
        exit_ = self.exits.get(link.source, {}).get(link.output)
        return exit_ is not None and not self._made[link.source] & set(_OF_NODES.findall(exit_.feed.value.template))

    def _come_back(self, link: Link, exit_: Exit) -> dict[str, Any]:
        """A node that keeps what came back to a loop without being changed."""
        x, y = self.graph.nodes[link.source].position
        node_id = f"{self._ids[link.source]}_back{link.output}"
        return {"id": node_id, "type": "fields", "name": f"{link.source}: back",
                "config": {"source": expression(exit_.feed.value.template)}, "outputVariable": node_id,
                "position": {"x": round(x * 1.5) + 80, "y": round(y * 1.5) + 120}}  # fmt: skip

    def _answer_of_last(self, edges: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The nodes that hand on what the last node made: to the caller of the workflow, or of its webhook."""
        active = [node for node in self.graph.nodes.values() if not node.disabled]
        hooks = [node for node in active
                 if node.kind == "webhook" and node.parameters.get("responseMode") == "lastNode"]  # fmt: skip
        called = any(node.kind == "executeWorkflowTrigger" for node in self.graph.nodes.values())
        leaves = [name for name in self.graph.order if not self.graph.out_of[name] and self._jobs[name].exits
                  and not self._inside_a_loop(name)]  # fmt: skip
        if not (hooks or called) or not leaves:
            return []
        exits = [(self._jobs[name].exits[output], name) for name in leaves for output in sorted(self._jobs[name].exits)
                 if self._jobs[name].exits[output].handles != ("error",)]  # fmt: skip
        feeds = self._latest_first(list(dict.fromkeys(exit_.feed for exit_, _ in exits)))
        x, y = max(self.graph.nodes[name].position for name in leaves)
        value = ItemFeed(first_there([feed.items for feed in feeds]), many=True)
        made: list[dict[str, Any]] = []
        position = {"x": round(x * 1.5) + 300, "y": round(y * 1.5)}
        if hooks:
            data = hooks[0].parameters.get("responseData", "firstEntryJson")
            body = expression(
                f"{value.items.template}" if data == "allEntries" else f"{value.first.template} | default({{}})"
            )
            config = {} if data == "noData" else {"body": body}
            made.append(
                {
                    "id": "answer",
                    "type": "respond",
                    "name": "Answer of the last node",
                    "config": config,
                    "position": position,
                }
            )
        if called:
            output = {"outputParameters": {"n8nItems": expression(f"{value.items.template} | default([])")}}
            made.append(
                {"id": "end", "type": "end", "name": "Output of the last node", "config": output, "position": position}
            )
        for each in made:
            edges += [edge_of(exit_.node_id, handle, each["id"]) for exit_, _ in exits for handle in exit_.handles]
        return made

    def _gets_an_item_twice(self, name: str) -> bool:
        """Whether several outputs of a switch lead to a node by which one item may go at once."""
        sources = self._multiple[name]
        switches = {source for source in sources if self.graph.nodes[source].kind == "switch"}
        return any(sources.count(source) > 1 and self._jobs[source].option("options", "allMatchingOutputs") is True
                   for source in switches)  # fmt: skip

    def _keeps_beside_others(self, name: str) -> bool:
        """Whether another node may be under way that keeps the same data: the later one would undo the earlier."""
        keeps = set(self._jobs[name].keeps)
        others = [other for other, job in self._jobs.items() if other != name and keeps & set(job.keeps)]
        return any(not self._come_in_order(name, other) for other in others)

    def _come_in_order(self, one: str, other: str) -> bool:
        """Whether two nodes never run at the same time in one run."""
        if other in self.graph.reachable([one]) or one in self.graph.reachable([other]):
            return True
        begun = {name for name in self.graph.entry_points if one in self.graph.reachable([name])}
        if not any(other in self.graph.reachable([name]) for name in begun):
            return True
        return all(
            self.graph.are_exclusive([first, second], self._single)
            for first in self.graph.into[one]
            for second in self.graph.into[other]
        )

    def _inside_a_loop(self, name: str) -> bool:
        return any(name in body for body in self.bodies.values())

    def _pins(self) -> dict[str, Any]:
        pins: dict[str, Any] = {}
        for name, items in self._workflow.pins.items():
            job = self._jobs.get(name)
            if job is None or not job.nodes or not job.exits:
                continue
            values = [item.get("json", item) if isinstance(item, dict) else item for item in items]
            node = next(
                (
                    each
                    for each in job.nodes
                    if each["id"] == job.node_id
                    and each["type"]
                    not in ("start", "webhook", "schedule", "workflowCall", "failure", "condition", "loop", "cursor")
                ),
                None,
            )
            first = job.exits[min(job.exits)]
            if node is None or first.feed.value.template not in (f"ctx.{job.node_id}", f"ctx.{job.node_id}.items"):
                continue
            if first.feed.value.template.endswith(".items"):
                pins[job.node_id] = {"output": {"items": values, "of": [0] * len(values)}}
            elif first.feed.many:
                pins[job.node_id] = {"output": values}
            elif values:
                pins[job.node_id] = {"output": values[0]}
        return pins

    def _report(self) -> ImportReport:
        listed = []
        for name in self.graph.nodes:
            job = self._jobs[name]
            status, why = self._status[name]
            differences = list(job.differences) if status != "placeholder" else []
            if (
                name in self._multiple
                and status == "exact"
                and (not _is_the_same_in_one_go(job) or self._gets_an_item_twice(name))
            ):
                status = "equal"
                differences.append("runs once with all items, where n8n runs it once for each branch that arrives")
            if status == "exact" and self._keeps_beside_others(name):
                status = "equal"
                differences.append("it changes data that are kept from run to run while another node may change them")
            listed.append(
                NodeReport(
                    name=name,
                    type=job.node.type,
                    kind=job.node.kind,
                    status=status,
                    why=why if status == "placeholder" else "; ".join(differences),
                    remarks=tuple(job.remarks),
                    nodes=tuple(node["id"] for node in job.nodes),
                    counts=job.counts,
                    credentials=tuple(job.credentials),
                    variables=tuple(sorted(job.variables)),
                )
            )
        for node in self._workflow.nodes:
            if node.name in self._subordinate:
                listed.append(
                    NodeReport(node.name, node.type, node.kind, "placeholder",
                               "it is kept in the node that it is attached to",
                               (), (), Counts(), ())
                )  # fmt: skip
        return ImportReport(self._workflow.name, workflow_name(self._workflow.name), tuple(listed),
                            sum(node.kind == NOTE_KIND for node in self._workflow.nodes), self.timezone,
                            isinstance(self._workflow.settings.get("errorWorkflow"), str))  # fmt: skip


_NOWHERE = re.compile(
    r"""`\$\(\s*+(?P<quote>['"])(?P<name>[^'"\\]++)(?P=quote)\s*+\).*`: there is no node (?P<missing>.++)""", re.DOTALL
)
_READS_OTHERS = re.compile(r"\$(?!json\b|now\b|today\b|execution\b|workflow\b)")


# Names of n8n whose values are others in another pass.
_OF_THIS_ITEM = re.compile(
    r"\$(?:json|input|data|itemIndex|position|runIndex|now|today)\b|\.item\b|\$node\b|Math\.random"
)
_CODE = frozenset({"code", "function", "functionItem"})
_CONTEXT = re.compile(r"\$(?:\([^()]*\)|node\[[^\[\]]*\]|node\.\w+)\s*\??\.\s*context\b")


def _texts_in(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return [text for each in inner for text in _texts_in(each)]


# Of these the first run decides, and it is the same for all items if nothing in them is computed.
_SAME_FOR_ALL = frozenset({"respondToWebhook", "stopAndError", "wait"})
_READS_ITEMS = re.compile(r"\$(?!now\b|today\b|execution\b|workflow\b)")


def _is_the_same_in_one_go(job: MappingJob) -> bool:
    """Whether it makes no difference that it runs once with the items of all branches."""
    if job.node.kind in _PER_ITEM:
        return True
    if job.node.kind not in _SAME_FOR_ALL or job.parameters.get("resume", "timeInterval") != "timeInterval":
        return False
    if job.node.kind == "respondToWebhook" and (
        job.parameters.get("respondWith") not in ("text", "json", "noData", "redirect")
    ):
        return False
    return not _READS_ITEMS.search(json.dumps(dict(job.parameters)))
