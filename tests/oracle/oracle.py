"""The judge: what a run of a drawn workflow must come to, computed in one sequential walk.

Written from the contract alone, and nothing of the engine is imported, so that the engine and its
judge cannot share a mistake. Called by the tests that run random graphs and real shapes.

The walk visits each scope in topological order and lets every activation happen as if nothing ever
stopped the run. Each activation knows its `past`: what has certainly ended when it has ended. What
stops an iteration or the instance (an unhandled failure, a terminate) is noted on the way; whatever
is not in the past of the stop is then uncertain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from tests.oracle.activation import Activation, Errors, Iteration, Passes, base_of
from tests.oracle.expressions import UNKNOWN, Missing, Undetermined, resolve
from tests.oracle.mapped import expanded, shown
from tests.oracle.prediction import ABSENT, ActivationKey, AtLeast, Ending, Prediction
from tests.oracle.regions import Edge
from tests.oracle.script import Script, planned_failure, planned_handle
from tests.oracle.shape import Shape
from tests.oracle.splitting import split
from tests.oracle.values import Values

# The exit of a node whose failure is ignored, and of a disabled one; all others leave by `default`.
_IGNORED = {"loop": "done", "cursor": "done", "condition": "else"}


def predict(document: Mapping[str, Any], given: Any, script: Script, trigger: str | None = None) -> Prediction:
    """What a run with this input must come to that begins at a trigger, or at the start. Raises Undetermined if even
    its course depends on timing."""
    shape = Shape(expanded(split(document)))
    start = next((name for name in shape.entry_points if shape.nodes[name]["type"] == "start"), None)
    walk = _Walk(shape, script, trigger or start)
    walk.run("", "", {"input": given}, frozenset())
    return _conclude(walk.activations, walk.regions, Values(walk.shape, walk.activations))


def _conclude(activations: list[Activation], regions: list[Activation], values: Values) -> Prediction:
    stops = [a for a in activations if a.stops]
    surely_stopped = any(a.certain for a in stops)
    common = frozenset.intersection(*(a.past for a in stops)) if stops else frozenset(activations)
    # A terminate transitions open activations into skipped ones; a failure of the instance writes no more rows.
    others = frozenset({ABSENT, "skipped"} if any(a.stops == "COMPLETED" for a in stops) else {ABSENT})
    must: dict[ActivationKey, Ending] = {}
    may: dict[ActivationKey, frozenset[str]] = {}
    for a in activations:
        key = shown((a.node["id"], a.scope))
        if not (a.certain and a in common) or a.outcome == "open":
            may[key] = others | ({a.outcome} - {"open"}) | (set() if a.certain else {"skipped"})
        elif a.outcome == "skipped":
            must[key] = Ending("skipped")
        else:
            must[key] = Ending(a.outcome, a.attempt, values.written(a))
    for region in regions:  # one that may be stopped may be stopped before it begins
        key = shown((region.node["id"], region.scope))
        first = f"{region.scope}/{region.node['id']}#1".lstrip("/")
        if key not in must and any(a.scope == first and not (a.certain and a in common) for a in activations):
            may[key] = may.get(key, others) | {"skipped"}
    ends = [a for a in activations if a.node["type"] == "end" and not base_of(a.scope) and a.outcome == "completed"]
    ends = [a for a in ends if not a.node.get("disabled")]
    output = values.merge(ends) if not stops else UNKNOWN
    if surely_stopped and len(stops) == 1 and stops[0].stops == "COMPLETED":
        output = values.merge(stops) if set(ends) <= set(stops) else AtLeast(values.merge(stops))
    return Prediction(
        statuses=frozenset([a.stops for a in stops if a.stops] + ([] if surely_stopped else ["COMPLETED"])),
        codes=frozenset(code for a in stops for code, _ in a.errors),
        output=output,
        must=must,
        may=may,
        others=others,
    )


class _Walk:
    def __init__(self, shape: Shape, script: Script, entry_point: str | None) -> None:
        self.shape = shape
        self._entry_point = entry_point
        self.activations: list[Activation] = []
        self.regions: list[Activation] = []
        """Those that began, each as its header in the scope around it."""
        self._script = script

    def run(self, home: str, scope: str, frame: Mapping[str, Any], before: frozenset[Activation]) -> Iteration:
        """Walk one scope: the root, or an iteration of the loop `home`."""
        mark = len(self.activations)
        walked = self._members(home, scope, frame, before)
        here, undecided, regions = walked
        breaking = [a for a in here.values() if a.outcome == "failed" and a.has_no_verdicts and not a.stops]
        for region in regions.values():
            breaking += region.breaking
            undecided = undecided + region.undecided
        stuck = not breaking and (
            bool(undecided)
            or any(a.stops or a.outcome == "open" for a in here.values())
            or any(region.is_open for region in regions.values())
        )
        past = before.union(*(a.past for a in here.values()), *(region.past for region in regions.values()))
        if breaking:  # the iteration fails: what is not in the past of its failure may have been stopped
            past = frozenset.intersection(*(a.past for a in breaking))
            for a in self.activations[mark:]:
                a.certain = a.certain and a in past
        for a in undecided if scope else ():
            a.outcome, a.certain, a.past = "skipped", bool(breaking) and not a.iterations, past | {a}
            self.activations.append(a)
        errors = tuple(error for a in breaking for error in a.errors)
        ended = past.union(undecided if breaking else ())
        return Iteration(scope, frame, here, self.activations[mark:], ended, errors, stuck)

    def _members(
        self, container: str, scope: str, frame: Mapping[str, Any], before: frozenset[Activation]
    ) -> tuple[dict[str, Activation], list[Activation], dict[str, Passes]]:
        """Walk what is directly in a container: its activations, those that are never decided, its regions."""
        here: dict[str, Activation] = {}
        regions: dict[str, Passes] = {}
        undecided: list[Activation] = []
        for name in self.shape.members(container):
            node = name.removeprefix("#")
            if f"#{node}" == container:  # the header itself: its pass begins with it
                decision, ready = "dispatch", [before]
            else:
                decision, ready = self._join(node, container, here, regions, before)
            a = Activation(self.shape.nodes[node], scope, frame, ready)
            if decision == "undecided":
                undecided.append(a)
                continue
            a.past, a.outcome = a.before | {a}, "skipped"
            if name.startswith("#") and decision == "dispatch":
                regions[name] = self._passes(a)
                continue
            here[name] = a
            self.activations.append(a)
            if decision == "dispatch":
                self._execute(a)
        return here, undecided, regions

    def _passes(self, outer: Activation) -> Passes:
        """Run a region: pass after pass, while an edge back to its header is live."""
        header, scope = outer.node["id"], outer.scope
        region, found = self.shape.regions[header], Passes()
        self.regions.append(outer)
        past = outer.before
        number = 0
        while True:
            number += 1
            path = f"{scope}/{header}#{number}".lstrip("/")
            here, undecided, inner = self._members(f"#{header}", path, outer.frame, past)
            past = past.union(*(a.past for a in here.values()), *(each.past for each in inner.values()))
            live = {edge for each in inner.values() for edge in each.live}
            live |= {edge for edge in self.shape.edges if edge[0] in here and here[edge[0]].handle == edge[1]
                     and here[edge[0]].outcome in ("completed", "failed")}  # fmt: skip
            found.live |= live & {*region.exits}
            found.undecided += undecided
            for each in inner.values():
                found.undecided += each.undecided
                found.breaking += each.breaking
            found.breaking += [a for a in here.values() if a.outcome == "failed" and a.has_no_verdicts and not a.stops]
            is_stuck = any(a.has_no_verdicts for a in here.values()) or any(each.is_open for each in inner.values())
            found.past = past
            if undecided or is_stuck:
                # Whether the region has an ending of its own, if the iteration around it fails, is a matter of timing.
                found.is_open = True
                outer.iterations.append(Iteration(path, outer.frame, here, [], past, (), True))
                found.undecided.append(outer)
                return found
            if not live & {*region.again}:
                return found
            if number >= self.shape.nodes[header].get("maxPasses", 1_000):
                found.live.clear()
                self.activations.append(outer)
                outer.past, outer.attempt = past | {outer}, None
                self._fail(outer, (("LOOP_LIMIT", None),), leaves=region.exits)
                found.past = outer.past
                found.live = {e for e in region.exits if e[0] == header and e[1] == outer.handle}
                found.is_open = outer.has_no_verdicts
                found.breaking = [outer] if outer.has_no_verdicts and not outer.stops else []
                return found

    def _join(
        self,
        name: str,
        home: str,
        here: Mapping[str, Activation],
        regions: Mapping[str, Passes],
        before: frozenset[Activation],
    ) -> tuple[str, list[frozenset[Activation]]]:
        live, dead, is_open = list[frozenset[Activation]](), list[frozenset[Activation]](), False
        for edge in (edge for edge in self.shape.forward if edge[2] == name):
            source, handle, _ = edge
            if source == home:
                live.append(before)
                continue
            inside = [h for h in self.shape.around(source) if name not in self.shape.regions[h].nodes]
            member = f"#{inside[-1]}" if inside else source
            skipped = here.get(member)  # the node, or a region that nothing led to
            region = regions.get(member)
            if region is not None:
                if region.is_open:
                    is_open = True
                else:
                    (live if edge in region.live else dead).append(region.past)
            elif skipped is None or skipped.has_no_verdicts:
                is_open = True
            else:
                is_live = skipped.handle == handle and not member.startswith("#")
                (live if is_live else dead).append(skipped.past)
        if live and self.shape.nodes[name].get("joinMode") == "any":
            return "dispatch", live
        if is_open:
            return "undecided", [before]
        dispatched = live or name == self._entry_point
        return "dispatch" if dispatched else "skip", [before.union(*live, *dead)]

    def _execute(self, a: Activation) -> None:
        config = a.node.get("config", {})
        a.outcome, a.handle = "completed", "default"
        if a.node.get("disabled"):
            a.handle = _IGNORED.get(a.node["type"], "default")
            return
        try:
            match a.node["type"]:
                case "loop":
                    self._loop(a, config)
                case "cursor":
                    self._cursor(a, config)
                case "condition":
                    true = (b["id"] for b in config["branches"] if self._decide(b["expression"], a.frame) is True)
                    a.handle = next(true, "else")
                case "flaky":
                    self._flaky(a, planned_failure(self._script, a.node.get("shown", a.node["id"]), a.scope))
                case "pick":
                    a.handle = planned_handle(config["handles"], a.node["id"], a.scope)
                case _:
                    resolve(config, partial(self._read, a.frame))
                    a.stops = "COMPLETED" if config.get("terminate") else None
        except Missing:
            self._fail(a, (("TEMPLATE_PATH_MISSING", 1),))

    def _cursor(self, a: Activation, config: Mapping[str, Any]) -> None:
        """It goes on behind what it has handed out in the passes of the region that it is directly in."""
        source = self._decide(config["source"], a.frame)
        if not isinstance(source, list):
            a.attempt = None
            return self._fail(a, (("LOOP_SOURCE_NOT_A_LIST", None),))
        region = a.scope.rpartition("#")[0] if a.scope != base_of(a.scope) else None
        before = (b for b in self.activations if b.node is a.node and b.scope.rpartition("#")[0] == region)
        position = sum(len(b.batch) for b in before if b.outcome == "completed" and b is not a)
        a.batch = source[position : position + config.get("batchSize", 1)]
        a.handle = "loop" if a.batch else "done"
        return None

    def _flaky(self, a: Activation, fails: int | str) -> None:
        tries = a.node.get("retry", {}).get("maxAttempts", 3)
        a.attempt = 1 if isinstance(fails, str) else min(fails + 1, tries)
        if isinstance(fails, str) or fails >= tries:
            self._fail(a, (("HANDLER_ERROR", a.attempt),))

    def _fail(self, a: Activation, errors: Errors, leaves: Sequence[Edge] | None = None) -> None:
        """A region fails like its header, and only edges out of it (`leaves`) can handle that."""
        handling = a.node.get("errorHandling", "continue")
        a.outcome, a.errors, a.handle = "failed", errors, None
        edges = self.shape.edges if leaves is None else leaves
        ignored = _IGNORED.get(a.node["type"], "default")
        if handling == "ignore" and (leaves is None or any(e[:2] == (a.node["id"], ignored) for e in edges)):
            a.handle = ignored
        elif handling == "continue" and any(e[:2] == (a.node["id"], "error") for e in edges):
            a.handle = "error"
        elif handling == "fail_workflow" or not base_of(a.scope):
            a.stops = "FAILED"

    def _loop(self, a: Activation, config: Mapping[str, Any]) -> None:
        a.outcome = "open"
        repeats, policy = "while" in config, config.get("onItemError", "fail")
        items = [] if repeats else self._decide(config["source"], a.frame)
        if "batchSize" in config and isinstance(items, list):
            size = config["batchSize"]
            items = [items[at : at + size] for at in range(0, len(items), size)]
        limit = config.get("maxIterations", 1_000 if repeats else 100_000)
        if not isinstance(items, list) or len(items) > limit:
            a.attempt = None  # the contract does not say whether a bad source is tried again
            return self._fail(a, (("LOOP_LIMIT" if isinstance(items, list) else "LOOP_SOURCE_NOT_A_LIST", None),))
        sequential, past = config.get("concurrency", 1) == 1, a.before
        while repeats or len(a.iterations) < len(items):
            index, kept = len(a.iterations), [i for i in a.iterations if policy != "skip" or not i.errors]
            own = {"results": [UNKNOWN] * len(kept)} if repeats else {"item": items[index]}
            frame = {**a.frame, **own, "index": index, "count": None if repeats else len(items)}
            if repeats and not self._decide(config["while"], frame):
                break
            if index >= limit:
                a.past = past | {a}
                return self._fail(a, (("LOOP_LIMIT", None),))
            scope = f"{a.scope}/{a.node['id']}[{index}]".lstrip("/")
            iteration = self.run(a.node["id"], scope, frame, past if sequential else a.before)
            a.iterations.append(iteration)
            past |= iteration.past
            if sequential and (iteration.stuck or (iteration.errors and policy == "fail")):
                break
        failed = [i for i in a.iterations if i.errors]
        if failed and policy == "fail":  # open iterations are ended: how far they came is a matter of timing
            for b in (b for i in a.iterations if not sequential and failed != [i] for b in i.created):
                b.certain = False
            a.past = frozenset.intersection(*(i.past for i in failed)) | {a}
            return self._fail(a, tuple(error for i in failed for error in i.errors))
        if not any(i.stuck for i in a.iterations):
            a.outcome, a.handle, a.past = "completed", "done", past | {a}
        return None

    def _decide(self, template: Any, frame: Mapping[str, Any]) -> Any:
        value = resolve(template, partial(self._read, frame))
        if value is UNKNOWN:
            raise Undetermined(f"the course hangs on {template}")
        return value

    def _read(self, known: Mapping[str, Any], name: str) -> Any:
        """What steers the walk: the input and the loops. Variables are read later, with their order known."""
        if name in known:
            return known[name]
        if any(self.shape.nodes[node].get("outputVariable") == name for node in self.shape.home):
            return UNKNOWN
        raise Missing(name)
