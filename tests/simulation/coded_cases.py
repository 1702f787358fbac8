"""The coded workflows of the simulated world: random programs, and a few written by hand.

Made once in a process and shared by all its worlds, as the drawn cases are. What the clients start
has two versions of every program: a run that changes its version shows it in its output.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from anabranch.durable.definition import Workflow
from anabranch.engine.rules.coded.coded_plan import CODED_KIND, CodedPlan, coded_plan
from tests.simulation.program_functions import StepLedger, play
from tests.simulation.programs import (
    Caught,
    Dice,
    Gather,
    Invoke,
    Look,
    Program,
    Raise,
    Repeated,
    Run,
    Send,
    Sleep,
    Wait,
    nodes_in,
    runs_in,
)

# 150 random programs: many more shapes than one world has room for.
RANDOM_PROGRAMS = 150

CHILDREN = ("coded-works", "coded-asks", "coded-fails", "child-works", "child-asks")
"""What programs invoke: coded workflows and drawn ones."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CodedCase:
    """One version of a coded workflow, ready to be registered and started."""

    name: str
    version: int
    program: Program
    options: Mapping[str, Any]
    plan: CodedPlan
    runs: Mapping[str, Run] = field(default_factory=dict)
    """Its steps that call functions, by name."""

    kind = CODED_KIND
    prediction = None
    """What it must come to depends on signals and children: `program_ends` says it, given these."""

    @property
    def events(self) -> tuple[str, ...]:
        """The signals that it may wait for."""
        return tuple(node.event for node in nodes_in(self.program) if isinstance(node, Wait))

    @property
    def hands_over(self) -> bool:
        """Whether a branch may begin only because another one let it, which rows do not say: a fork in which the other
        one runs again may have a log that the function does not repeat (docs/repair.md).
        """
        return any(
            isinstance(node, Gather) and node.how in ("lock", "semaphore", "queue") for node in nodes_in(self.program)
        )

    def input_beside(self, peer: str | None) -> dict[str, Any]:
        """What it is started with; `peer` is another run."""
        return {"peer": peer}

    def workflow(self, ledger: StepLedger) -> Workflow:
        """The function that a worker of one world knows."""

        async def function(ctx: Any, input_: Any) -> Any:
            return await play(self.program, ctx, input_, ledger)

        return Workflow(self.name, self.version, function, self.options)


@cache
def coded_cases() -> tuple[CodedCase, ...]:
    """Programs by hand: what random ones hit too seldom."""
    return tuple(
        coded_case(name, version, program, options)
        for name, (program, options) in _by_hand().items()
        for version in (1, 2)
    )


@cache
def coded_child_cases() -> tuple[CodedCase, ...]:
    """What programs and drawn nodes start; saved in every world of coded runs."""
    programs: dict[str, Program] = {
        "coded-works": (Run("work", takes_ms=400), Sleep("rest", 1_500), Run("again", takes_ms=50)),
        "coded-asks": (Wait("ask", "shipped", timeout_ms=2_500), Run("note")),
        "coded-fails": (Sleep("rest", 400), Run("fail", fatal=True)),
    }
    return tuple(coded_case(name, 1, program, {}) for name, program in programs.items())


@cache
def random_coded_case(number: int) -> CodedCase:
    """One of the random programs."""
    rng = random.Random(f"program {number}")
    options: dict[str, Any] = {}
    if rng.random() < 0.5:
        backoff = {"kind": "fixed", "base": rng.choice((30, 600, 1_500)), "jitter": 0}
        options["retry"] = {"attempts": rng.randint(2, 3), "backoff": backoff}
    if rng.random() < 0.1:
        options["deadline"] = rng.randint(500, 6_000)
    return coded_case(f"program-{number}", 1, Dice(rng, children=CHILDREN).program(), options)


def coded_case(name: str, version: int, program: Program, options: Mapping[str, Any]) -> CodedCase:
    """A case of a program; in version 2 there is one more step at its beginning."""
    if version > 1:
        program = (Run(f"only-in-version-{version}"), *program)
    runs = {each.name: each for each in runs_in(program)}
    return CodedCase(name, version, program, options, coded_plan(name, version, options), runs)


def _by_hand() -> dict[str, tuple[Program, Mapping[str, Any]]]:
    twice = {"retry": {"attempts": 3, "backoff": {"kind": "fixed", "base": 600, "jitter": 0}}}
    return {
        "coded-line": ((*(Run(f"s{number}", takes_ms=400) for number in range(6)), Look()), {}),
        "coded-nap": ((Run("before"), Sleep("nap", 700), Look(), Sleep("sleep", 2_500), Run("after"), Look()), {}),
        "coded-branches": (
            (
                Gather("gather", ((Wait("one", "paid"), Run("b1")), (Sleep("two", 2_500), Run("b2")), (Run("b3"),))),
                Look(),
                Run("join"),
            ),
            {},
        ),
        "coded-rivals": (
            (Gather("group", tuple((Wait(f"rival-{n}", "paid", timeout_ms=(None, 3_000)[n % 2]),) for n in range(4))),),
            {},
        ),
        "coded-stubborn": (
            (
                Gather(
                    "collect",
                    (
                        (Run("stubborn", takes_ms=50, fails=3, tries=4, base_ms=1_200),),
                        (Run("hopeless", takes_ms=50, fails=9, tries=3, base_ms=400),),
                        (Sleep("meanwhile", 4_000), Run("then")),
                    ),
                ),
                Look(),
            ),
            {},
        ),
        "coded-refused": ((Run("kept"), Gather("gather", ((Sleep("nap", 4_000),), (Raise(below=9),)))), twice),
        "coded-quick-tries": (
            (
                Gather(
                    "collect",
                    tuple((Run(f"quick-{n}", fails=3, tries=5, base_ms=1), Run(f"then-{n}")) for n in range(5)),
                ),
            ),
            {},
        ),
        "coded-again": (
            (Run("kept", takes_ms=50), Sleep("pause", 1_500), Run("better-later", fails_below=3, tries=2), Look()),
            twice,
        ),
        "coded-hopeless": ((Run("kept"), Caught((Run("bad", fatal=True),), (Run("refund"),)), Raise(below=9)), twice),
        "coded-talk": (
            (
                Send("tell-itself", "approved", to_itself=True),
                Wait("hear", "approved", timeout_ms=2_500),
                Repeated(3, (Send("tell-peer", "paid"), Sleep("pause", 400))),
                Wait("asked", "shipped", kind=1),
            ),
            {},
        ),
        "coded-family": (
            (
                Gather(
                    "collect",
                    tuple(
                        (Invoke(f"call-{number}", each), Run(f"after-{number}")) for number, each in enumerate(CHILDREN)
                    ),
                ),
                Look(),
            ),
            {"deadline": 9_000},
        ),
        "coded-guardian": ((Invoke("works", "coded-works"), Invoke("fails", "coded-fails")), {}),
    }
