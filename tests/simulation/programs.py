"""Functions of coded workflows as small trees, drawn from a seed: what a simulated function does, written as data.

`program_functions` performs one, `program_ends` says what it must come to. Names are unique within a
program, but where a part is repeated; so what a step is asked for does not hang on who is faster.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

EVENTS = ("approved", "paid", "shipped")


@dataclass(frozen=True, slots=True)
class Run:
    """A step that calls a function: takes up to `takes_ms`, and fails as it is told."""

    name: str
    takes_ms: int = 0
    fails: int = 0
    """So many first attempts fail."""
    fails_below: int = 1
    """Every try fails in attempts of the workflow below this one."""
    fatal: bool = False
    """It fails for good, at the first attempt."""
    tries: int = 3
    base_ms: int = 30
    timeout_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Sleep:
    """A durable pause."""

    name: str
    duration_ms: int


@dataclass(frozen=True, slots=True)
class Wait:
    """A wait for a signal."""

    name: str
    event: str
    kind: int | None = None
    """Only a signal with this `kind` in its payload will do."""
    timeout_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Send:
    """A signal to the run that the input names, or to the run itself; that it is refused is no failure."""

    name: str
    event: str
    to_itself: bool = False


@dataclass(frozen=True, slots=True)
class Invoke:
    """Another workflow, awaited."""

    name: str
    workflow: str


@dataclass(frozen=True, slots=True)
class Look:
    """What the context knows: its clock, a number, an id, the attempt."""


@dataclass(frozen=True, slots=True)
class Raise:
    """The function itself fails, in attempts of the workflow below this one."""

    below: int


@dataclass(frozen=True, slots=True)
class Gather:
    """Branches at once. `collect`: an error is a value; else it ends them all, and only one may fail.

    `lock`, `semaphore`, `queue`: as many at once as that lets in; `shield`, `timeout`, `wait`: within such a one;
    `pause`: each after a pause of asyncio's; `cancel`: the first is cancelled when all others have ended.
    """

    how: str
    branches: tuple[Program, ...]


@dataclass(frozen=True, slots=True)
class Caught:
    """A part whose StepError the function catches, and what it does then."""

    part: Program
    instead: Program


@dataclass(frozen=True, slots=True)
class Repeated:
    """A part that is done so many times: its names come again."""

    times: int
    part: Program


Node: TypeAlias = Run | Sleep | Wait | Send | Invoke | Look | Raise | Gather | Caught | Repeated
Program: TypeAlias = tuple[Node, ...]


def runs_in(program: Program) -> Iterator[Run]:
    """Every step of it that calls a function."""
    for node in nodes_in(program):
        if isinstance(node, Run):
            yield node


def nodes_in(program: Program) -> Iterator[Node]:
    """Every node of it, outer ones first."""
    for node in program:
        yield node
        match node:
            case Gather():
                for branch in node.branches:
                    yield from nodes_in(branch)
            case Caught():
                yield from nodes_in(node.part)
                yield from nodes_in(node.instead)
            case Repeated():
                yield from nodes_in(node.part)


# Most steps are done at once, some outlast a commit, a few a lease of the shorter kind.
TAKES_MS = (0, 0, 5, 50, 400, 1_500)

# Around the limit under which a function stays, and beyond it.
PAUSES_MS = (5, 400, 1_500, 4_000)

DEPTH_MAX = 2

WAYS_TO_GATHER = ("gather", "lock", "semaphore", "queue", "shield", "timeout", "wait", "pause", "cancel")


class Dice:
    """Draws one program; `children` are the workflows that it may invoke."""

    def __init__(self, rng: random.Random, *, children: Sequence[str]) -> None:
        self._rng = rng
        self._children = children
        self._count = 0

    def program(self) -> Program:
        """A function of a few parts; now and then it fails by itself at its end, in its first attempts."""
        parts = self._parts(self._rng.randint(2, 5), depth=0, caught=False)
        if self._rng.random() < 0.15:
            parts += (Raise(below=self._rng.randint(2, 3)),)
        return parts

    def _parts(self, count: int, *, depth: int, caught: bool) -> Program:
        return tuple(self._part(depth=depth, caught=caught) for _ in range(count))

    def _part(self, *, depth: int, caught: bool) -> Node:
        dice = self._rng.random()
        if depth < DEPTH_MAX and dice < 0.3:
            return self._gather(depth, caught=caught)
        if depth < DEPTH_MAX and dice < 0.4:
            part = self._parts(self._rng.randint(1, 2), depth=depth + 1, caught=True)
            return Caught((*part, self._failing()), self._parts(1, depth=depth + 1, caught=caught))
        if depth < DEPTH_MAX and dice < 0.46:
            return Repeated(self._rng.randint(2, 3), self._parts(1, depth=DEPTH_MAX, caught=caught))
        if dice < 0.56 and depth == 0:
            return Look()
        return self._leaf(depth, may_fail=depth == 0 or caught)

    def _gather(self, depth: int, *, caught: bool) -> Gather:
        how = self._rng.choice(("collect", "collect", "gather", "group"))
        width = self._rng.randint(2, 4)
        if how == "collect":
            return Gather(how, tuple(self._parts(self._rng.randint(1, 2), depth=2, caught=True) for _ in range(width)))
        branches = [tuple(self._leaf(2, may_fail=False) for _ in range(self._rng.randint(1, 2))) for _ in range(width)]
        # What is left behind by a failure that is caught goes on beside the function: nobody can say how far it comes.
        if depth == 0 and not caught and self._rng.random() < 0.25:
            branches[0] = (*branches[0], self._failing())
        if how == "gather":
            how = random.Random(f"how {self._count}").choice(WAYS_TO_GATHER)
        return Gather(how, tuple(branches))

    def _leaf(self, depth: int, *, may_fail: bool) -> Node:
        dice = self._rng.random()
        if dice < 0.45:
            return self._run(may_fail=may_fail)
        if dice < 0.6:
            return Sleep(self._name("sleep"), self._rng.choice(PAUSES_MS))
        if dice < 0.8:
            return self._wait()
        if dice < 0.9:
            return Send(self._name("send"), self._rng.choice(EVENTS), to_itself=self._rng.random() < 0.4)
        if self._children and depth < DEPTH_MAX:
            return Caught((Invoke(self._name("call"), self._rng.choice(self._children)),), ())
        return self._run(may_fail=may_fail)

    def _run(self, *, may_fail: bool) -> Run:
        tries = self._rng.randint(1, 4)
        return Run(
            self._name("step"),
            takes_ms=self._rng.choice(TAKES_MS),
            fails=self._rng.choice((0, 0, 1, 2)) if may_fail else self._rng.randrange(tries),
            fails_below=self._rng.choice((1, 1, 1, 2, 3)) if may_fail else 1,
            tries=tries,
            base_ms=self._rng.choice((1, 30, 300, 1_500)),
            timeout_ms=200 if may_fail and self._rng.random() < 0.1 else None,
        )

    def _failing(self) -> Run:
        return Run(self._name("fail"), takes_ms=self._rng.choice(TAKES_MS), fatal=True)

    def _wait(self) -> Wait:
        return Wait(
            self._name("wait"),
            self._rng.choice(EVENTS),
            kind=self._rng.randint(0, 1) if self._rng.random() < 0.3 else None,
            timeout_ms=self._rng.choice((20, 300, 900, 2_500, 7_000)) if self._rng.random() < 0.7 else None,
        )

    def _name(self, stem: str) -> str:
        self._count += 1
        return f"{stem}-{self._count}"
