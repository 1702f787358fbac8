"""Everything that is not the engine's own doing, brought under the seed's control while a world runs.

Called by `world`. Other dice, other clocks and other threads would make two runs of a seed differ.
"""

from __future__ import annotations

import gc
import logging
import os
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from anabranch.engine import plans
from anabranch.engine.rules import transitions as transition
from anabranch.engine.rules.graph.plan import Plan
from anabranch.transport import job_sender
from tests.simulation.judge import Judge

# Worlds make little garbage that needs a collector: looking for it at every few hundred objects, as is the default,
# costs a sixth of the time.
GARBAGE_THRESHOLDS = (50_000, 20, 100)

# A worker of a world sends some jobs a second; each that waits is a callback for each of its publishers.
PUBLISHERS = 2


@contextmanager
def under_control(judge: Judge, compiled: Mapping[str, Plan], *, seed: int) -> Iterator[None]:
    """The seed's dice for ids, the judge's ear at the log, his eye on decisions; what is compiled stays compiled."""
    dice = random.Random(f"uuid {seed}")
    log, complaints = logging.getLogger("anabranch"), _Complaints(judge)
    thresholds = gc.get_threshold()
    kept = (plans.compile_plan, transition.decide, os.urandom, log.level, log.propagate)
    publishers = job_sender.PUBLISHERS
    job_sender.PUBLISHERS = PUBLISHERS
    plans.compile_plan = lambda document, node_types, *_, **__: compiled[document["name"]]
    transition.decide = judge.checked(transition.decide)
    os.urandom = partial(_thrown, dice)
    log.setLevel(logging.ERROR)
    log.propagate = False
    log.addHandler(complaints)
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        job_sender.PUBLISHERS = publishers
        log.removeHandler(complaints)
        plans.compile_plan, transition.decide, os.urandom, log.level, log.propagate = kept


def _thrown(dice: random.Random, count: int) -> bytes:
    assert count <= 16, "nobody in a world needs more than a UUID does"
    return dice.getrandbits(128).to_bytes(16)[-count:]


class _Complaints(logging.Handler):
    """What the engine logs as an error is one: no exception of its own is an everyday matter."""

    def __init__(self, judge: Judge) -> None:
        super().__init__(level=logging.ERROR)
        self._judge = judge

    def emit(self, record: logging.LogRecord) -> None:
        what = record.getMessage()
        if record.exc_info:
            what += "\n" + logging.Formatter().formatException(record.exc_info)
        self._judge.accuse("the shell meets no exception of its own", what, getattr(record, "instance_id", None))
