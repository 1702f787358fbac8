"""Node types of the simulated world: the built-in ones and `work`, every execution entered in a ledger.

The ledger is the outside world that handlers have effects on. It survives every crash, so it knows
what the log cannot know: what was really executed, how often, and with which key and context.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from anabranch.engine.handler_contract import Handler, HandlerRegistry, HandlerResult, HandlerReturn, Helpers
from anabranch.engine.rules.graph.node_types import NodeType
from anabranch.errors import NonRetryable
from tests.oracle.script import FATAL
from tests.simulation.network import SENDER

WORK = NodeType(
    type="work",
    title="Work",
    config_schema={"type": "object"},
    handles=lambda config: ("default",),
    check=lambda config: (),
)
"""Takes up to `config.ms`, or `config.exactlyMs`; fails as `config.fails` says (so many first attempts, or FATAL) in
scopes that end with `config.where`. With `config.poison` it kills the process that executes it."""

EffectKey = tuple[str, str, str]
"""(instance id, node id, scope): one activation."""


@dataclass(slots=True)
class Effects:
    """What the world has seen of one activation."""

    key: str
    context: bytes
    """As it was at that moment: encoded, since its values are shared."""
    executions: list[tuple[int, str]] = field(default_factory=list)
    """(attempt, worker id) in order of their beginnings."""
    under_way: list[tuple[Helpers, str]] = field(default_factory=list)
    """Those that have not returned, with their worker ids."""

    def awaited(self, attempt: int, worker_id: str) -> bool:
        """Is this process executing this attempt, and was not told to stop?"""
        return any(
            helpers.attempt == attempt and by == worker_id and not helpers.cancelled.is_set()
            for helpers, by in self.under_way
        )


class Ledger:
    """All executions of all handlers. `on_begin` is told of each before it does anything."""

    def __init__(self, *, on_begin: Callable[[EffectKey, Helpers, str], None]) -> None:
        self.on_begin = on_begin
        self.effects: dict[EffectKey, Effects] = {}

    def begin(self, helpers: Helpers, worker_id: str) -> Effects:
        """An execution begins."""
        effect_key = (helpers.instance_id, helpers.node_id, helpers.scope)
        self.on_begin(effect_key, helpers, worker_id)
        effects = self.effects.get(effect_key)
        if effects is None:
            effects = self.effects[effect_key] = Effects(helpers.idempotency_key, seen(helpers.context))
        effects.executions.append((helpers.attempt, worker_id))
        effects.under_way.append((helpers, worker_id))
        return effects

    def forget_process(self, worker_id: str) -> None:
        """A process is gone, and with it what it executed."""
        for effects in self.effects.values():
            if effects.under_way:
                effects.under_way = [each for each in effects.under_way if each[1] != worker_id]


def seen(context: Mapping[str, Any]) -> bytes:
    """A context as bytes that two equal ones share."""
    return orjson.dumps(dict(context), option=orjson.OPT_SORT_KEYS)


class SimulatedTypes:
    """The registry of the simulated processes."""

    def __init__(self, builtin: HandlerRegistry, ledger: Ledger, *, seed: int) -> None:
        self._builtin = builtin
        self._ledger = ledger
        self._work = _Work(random.Random(seed))
        self._handlers: dict[str, Handler] = {}

    def let_poison_kill(self, kill: Callable[[str, str], bool]) -> None:
        """`kill` ends the process with this worker id, which executes this run, unless nothing goes wrong any more."""
        self._work.kill = kill

    def get(self, type_name: str) -> NodeType | None:
        """The type, or None if nobody registered it."""
        return WORK if type_name == WORK.type else self._builtin.get(type_name)

    def names(self) -> Sequence[str]:
        """Every registered name, sorted."""
        return sorted([WORK.type, *self._builtin.names()])

    def handler(self, type_name: str) -> Handler | None:
        """The handler of a type, with the ledger before it."""
        known = self._handlers.get(type_name)
        if known is None:
            inner = self._work if type_name == WORK.type else self._builtin.handler(type_name)
            if inner is None:
                return None
            known = self._handlers[type_name] = _Recorded(inner, self._ledger)
        return known


class WithoutWork:
    """The registry of a process that lacks `work`."""

    def __init__(self, types: SimulatedTypes) -> None:
        self._types = types

    def get(self, type_name: str) -> NodeType | None:
        """The type, or None if nobody registered it."""
        return None if type_name == WORK.type else self._types.get(type_name)

    def names(self) -> Sequence[str]:
        """Every registered name, sorted."""
        return [name for name in self._types.names() if name != WORK.type]

    def handler(self, type_name: str) -> Handler | None:
        """The handler of a type, with the ledger before it."""
        return None if type_name == WORK.type else self._types.handler(type_name)


class _Recorded:
    def __init__(self, inner: Handler, ledger: Ledger) -> None:
        self._inner = inner
        self._ledger = ledger

    async def execute(self, config: Any, context: Mapping[str, Any], helpers: Helpers) -> HandlerReturn:
        worker_id = SENDER.get().worker_id
        effects = self._ledger.begin(helpers, worker_id)
        try:
            return await self._inner.execute(config, context, helpers)
        finally:
            effects.under_way = [each for each in effects.under_way if each[0] is not helpers]


class _Work:
    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.kill: Callable[[str, str], bool] = lambda worker_id, instance_id: False

    async def execute(self, config: Any, context: Mapping[str, Any], helpers: Helpers) -> HandlerResult:
        if config.get("poison") and self.kill(SENDER.get().worker_id, helpers.instance_id):
            await asyncio.get_running_loop().create_future()
        takes_ms = config.get("exactlyMs") or self._rng.random() * config.get("ms", 0)
        if takes_ms >= 1:
            await asyncio.sleep(takes_ms / 1000)
        fails = config.get("fails", 0) if helpers.scope.endswith(config.get("where", "")) else 0
        if fails == FATAL:
            raise NonRetryable(f"{helpers.node_id} cannot succeed")
        if helpers.attempt <= fails:
            raise WorkFailed(f"try {helpers.attempt} of {helpers.node_id} fails")
        return HandlerResult({"ok": helpers.node_id})


class WorkFailed(Exception):
    """What `work` raises when its config says so."""
