"""The connections of a workflow of n8n: order, loops, and which branches exclude each other.

Pure. Called by `importing`.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property

from anabranch.n8n.exports import Link, N8nNode, N8nWorkflow

LOOP_KIND = "splitInBatches"

# 2,000 nodes looked at for an order: a workflow has some twenty; branches that meet again and again are left out.
STEPS_MAX = 2_000

# Of these exactly one output is taken for an item; the others' outputs are taken together.
CHOOSING = frozenset({"if", "switch", "filter"})

# They give at least one item where one flows in.
_ALWAYS_GIVES = frozenset({"set", "noOp", "wait", "crypto", "dateTime", "markdown", "renameKeys", "aggregate", "sort",
                           "respondToWebhook"})  # fmt: skip

_ROOT = "\0begin"


class LinkGraph:
    """A workflow's nodes and the links between those that take part in runs."""

    def __init__(self, workflow: N8nWorkflow, left_out: Collection[str]) -> None:
        self.nodes: Mapping[str, N8nNode] = {node.name: node for node in workflow.nodes if node.name not in left_out}
        self.links = [link for link in workflow.links if link.source in self.nodes and link.target in self.nodes]
        self.into: defaultdict[str, list[Link]] = defaultdict(list)
        self.out_of: defaultdict[str, list[Link]] = defaultdict(list)
        for link in self.links:
            self.into[link.target].append(link)
            self.out_of[link.source].append(link)

    def reachable(self, starts: Iterable[str], *, without: Collection[Link] = ()) -> set[str]:
        """The nodes that links lead to from these, themselves included."""
        seen = set(starts)
        ahead, cut = list(seen), set(without)
        while ahead:
            for link in self.out_of[ahead.pop()]:
                if link.target not in seen and link not in cut:
                    seen.add(link.target)
                    ahead.append(link.target)
        return seen

    @cached_property
    def entry_points(self) -> list[str]:
        """The nodes without links into them."""
        return [name for name in self.nodes if not self.into[name]]

    @cached_property
    def order(self) -> Sequence[str]:
        """All nodes, each after those that lead to it, except along the links that lead back."""
        seen: set[str] = set()
        order: list[str] = []
        for start in [*self.entry_points, *self.nodes]:
            stack: list[tuple[str, int]] = [(start, 0)]
            if start in seen:
                continue
            seen.add(start)
            while stack:
                name, at = stack.pop()
                links = self.out_of[name]
                while at < len(links) and links[at].target in seen:
                    at += 1
                if at < len(links):
                    stack.append((name, at + 1))
                    seen.add(links[at].target)
                    stack.append((links[at].target, 0))
                else:
                    order.append(name)
        return order[::-1]

    @cached_property
    def _index(self) -> Mapping[str, int]:
        return {name: index for index, name in enumerate(self.order)}

    def outputs_towards(self, name: str, reader: str) -> set[int]:
        """The outputs of a node from which links lead on to another one."""
        known = self._towards.get((name, reader))
        if known is None:
            known = {link.output for link in self.out_of[name] if not self.leads_back(link)
                     and reader in self.reachable([link.target], without=self._back)}  # fmt: skip
            self._towards[name, reader] = known
        return known

    @cached_property
    def _towards(self) -> dict[tuple[str, str], set[int]]:
        return {}

    @cached_property
    def _back(self) -> frozenset[Link]:
        return frozenset(link for link in self.links if self.leads_back(link))

    def leads_back(self, link: Link) -> bool:
        """Whether a link leads to a node that comes before it."""
        return self._index[link.target] <= self._index[link.source]

    @cached_property
    def in_cycles(self) -> frozenset[str]:
        """Nodes that a link leads back to, and those on the way, but for the loops of batches."""
        found: set[str] = set()
        for link in self.links:
            if self.leads_back(link) and self.nodes[link.target].kind != LOOP_KIND:
                back = self._leading_to(link.source)
                found |= self.reachable([link.target]) & back
        return frozenset(found)

    def _leading_to(self, name: str) -> set[str]:
        seen, ahead = {name}, [name]
        while ahead:
            for link in self.into[ahead.pop()]:
                if link.source not in seen:
                    seen.add(link.source)
                    ahead.append(link.source)
        return seen

    def loop_body(self, name: str) -> set[str]:
        """The nodes between the output `loop` of a node for batches and the links that lead back to it."""
        output = loop_output(self.nodes[name])
        starts = [link.target for link in self.out_of[name] if link.output == output and link.target != name]
        cut = self.into[name] + self.out_of[name]
        inside = self.reachable(starts, without=cut)
        return {each for each in inside if name in {link.target for link in self.out_of[each]}
                or self._comes_back(each, name, cut)}  # fmt: skip

    def _comes_back(self, name: str, loop: str, cut: Collection[Link]) -> bool:
        return any(loop == link.target for each in self.reachable([name], without=cut) for link in self.out_of[each])

    def arrivals(self, name: str, *, depth_first: bool) -> list[Link]:
        """The links into a node in the order in which n8n comes along them, if all branches are taken.

        Its newer order goes down one branch after the other, the uppermost first; the older one goes level by level.
        """
        found: list[Link] = []
        ahead: deque[str] = deque(self.entry_points)
        steps = STEPS_MAX
        while ahead and steps:
            steps -= 1
            each = ahead.popleft()
            links = [link for link in self.out_of[each] if not self.leads_back(link)]
            found += [link for link in links if link.target == name and link not in found]
            if depth_first:
                links.sort(key=lambda link: (self.nodes[link.target].position[1], self.nodes[link.target].position[0]))
                ahead.extendleft(link.target for link in reversed(links))
            else:
                ahead.extend(link.target for link in links)
        return found if steps else []

    def returns(self, name: str) -> list[Link]:
        """The links that lead back to a node for batches."""
        after = self.reachable([link.target for link in self.out_of[name]])
        return [link for link in self.into[name] if link.source in after or link.source == name]

    def always_comes_back(self, loop: str) -> bool:
        """Whether in each pass of a loop certainly an item comes back."""
        output = loop_output(self.nodes[loop])
        starts = [link.target for link in self.out_of[loop] if link.output == output]
        return any(self._leads_on(name, loop, frozenset()) for name in starts)

    def _leads_on(self, name: str, loop: str, seen: frozenset[str]) -> bool:
        node = self.nodes[name]
        if name == loop:
            return True
        if name in seen or node.settings.get("onError") == "continueErrorOutput":
            return False
        always = {0} if self.gives_always(node) else {0, 1}
        if node.kind != "if" and len(always) > 1 and not node.disabled:
            return False
        return all(
            any(self._leads_on(link.target, loop, seen | {name}) for link in self.out_of[name] if link.output == way)
            for way in always
        )

    def gives_always(self, node: N8nNode) -> bool:
        """Whether it gives at least one item where one flows in."""
        return node.kind in _ALWAYS_GIVES or node.settings.get("alwaysOutputData") is True

    def are_exclusive(self, links: Sequence[Link], single: Collection[str]) -> bool:
        """Whether at most one of these links is taken in a run.

        `single` are the nodes that choose one way for one item. Two links exclude each other where some choice has to
        be made differently for each of them; the first choice is the trigger that begins the run.
        """
        return all(self._exclude(one, other, single) for index, one in enumerate(links) for other in links[index + 1 :])

    def _exclude(self, one: Link, other: Link, single: Collection[str]) -> bool:
        for choice, way in self._needed(one, single):
            if any(choice == another and way != further for another, further in self._needed(other, single)):
                return True
        return False

    def _needed(self, link: Link, single: Collection[str]) -> list[tuple[str, object]]:
        """The choices without which a link is not taken: (node, output)."""
        known = self._choices.get((link, frozenset(single)))
        if known is not None:
            return known
        needed: list[tuple[str, object]] = []
        if link.source in single:
            needed.append((link.source, link.output))
        triggers = [name for name in self.entry_points if link.source in self.reachable([name])]
        if len(triggers) == 1:
            needed.append((_ROOT, triggers[0]))
        for choice in single:
            if choice == link.source:
                continue
            outputs = {each.output for each in self.out_of[choice]}
            leading = [output for output in outputs if link.source in self.reachable(
                each.target for each in self.out_of[choice] if each.output == output)]  # fmt: skip
            if len(leading) == 1 and link.source not in self.reachable(
                self.entry_points, without=[each for each in self.out_of[choice] if each.output == leading[0]]
            ):
                needed.append((choice, leading[0]))
        self._choices[link, frozenset(single)] = needed
        return needed

    @cached_property
    def _choices(self) -> dict[tuple[Link, frozenset[str]], list[tuple[str, object]]]:
        return {}


def loop_output(node: N8nNode) -> int:
    """The output of a node for batches that leads into the loop: in its version 3 the second."""
    return 1 if node.version >= 3 else 0
