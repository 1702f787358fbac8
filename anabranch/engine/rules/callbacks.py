"""Callbacks: signals that come through a one-time address, and which nodes can be given such an address.

Pure. Called by `compile`, by the task worker for nodes that send an address, by the type `waitForWebhook`, and by what
shows or receives callbacks. Signing an address needs a key and is done elsewhere (`ports.CallbackAddresses`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson

from anabranch.dataclass import dataclass
from anabranch.engine.rules.duration import parse_duration
from anabranch.engine.rules.event_payloads import read_signal, read_wait
from anabranch.engine.rules.events import ENDINGS, ActivationKey, Event, EventType
from anabranch.engine.rules.graph.plan import Body, CallbackInReach, PlanNode

CALLBACK_TYPE = "waitForWebhook"
"""The type of the nodes that wait for a callback."""

CALLBACKS_NAME = "callbacks"
"""What `ctx` has the addresses under: `{{ctx.callbacks.approval}}` is that of the node `approval`."""

CALLBACK_TIMEOUT_MS = 7 * 86_400_000
"""7 days: a person who is asked on Monday and back on Friday can still answer."""

_EVENT = re.compile(r"callback:([0-9a-f]{32})")


def callback_event(instance_id: str, node_id: str, scope: str) -> str:
    """The name of the signal that an activation of `waitForWebhook` waits for."""
    identity = "\x00".join((instance_id, node_id, scope)).encode(errors="surrogatepass")
    return f"callback:{hashlib.blake2b(identity, digest_size=16).hexdigest()}"


def is_callback_event(event: str) -> bool:
    """Whether a signal has such a name."""
    return _EVENT.fullmatch(event) is not None


def event_id(event: str) -> bytes:
    """The part of such a name that tells it from others. Raises ValueError for any other name."""
    found = _EVENT.fullmatch(event)
    if found is None:
        raise ValueError(f"{event!r} is not the event of a callback")
    return bytes.fromhex(found[1])


def event_of_id(given: bytes) -> str:
    """The name that has this part."""
    return f"callback:{given.hex()}"


@dataclass(frozen=True, slots=True)
class CallbackProgress:
    """The state of a callback, from the log."""

    first: Any = None
    """The payload of its first call; None: there was none."""
    is_over: bool = False
    """Whether its wait has ended."""


def callback_progress(rows: Iterable[Event], event: str) -> CallbackProgress:
    """The progress of a callback, from the rows about signals and waits in a log, in their order."""
    waits: set[ActivationKey] = set()
    is_over = False
    for row in rows:
        if row.type is EventType.SIGNAL_RECEIVED:
            signal = read_signal(row.payload)
            if signal.key == event:
                return CallbackProgress(signal.content.value)
        elif row.type is EventType.NODE_WAITING:
            if event in getattr(read_wait(row.payload), "events", ()):
                waits.add((row.node_id, row.scope))
                is_over = False
        elif row.type in ENDINGS and (row.node_id, row.scope) in waits:
            is_over = True
    return CallbackProgress(is_over=is_over)


def callbacks_in_reach(node: PlanNode) -> tuple[CallbackInReach, ...]:
    """The nodes whose addresses this one is given, if its config reads any.

    They are in the same iteration or pass, or in one around it: what waits in an inner one waits many times.
    """
    if CALLBACKS_NAME.encode() not in orjson.dumps(node.config):
        return ()
    bodies = list(_bodies_around(node))
    return tuple(
        CallbackInReach(other.id, depth, timeout_ms_of(other.config))
        for depth, body in zip(range(len(bodies) - 1, -1, -1), bodies, strict=True)
        for other in body.nodes
        if other.type == CALLBACK_TYPE and other.home is body and other is not node
    )


def timeout_ms_of(config: Mapping[str, Any]) -> int:
    """How long a node waits."""
    written = config.get("timeout")
    try:
        return CALLBACK_TIMEOUT_MS if written is None else parse_duration(written)
    except ValueError:
        return CALLBACK_TIMEOUT_MS


def _bodies_around(node: PlanNode) -> Iterator[Body]:
    """The body that a node lives in, and those around it up to the root."""
    body: Body | None = node.home
    while body is not None:
        yield body
        if body.header is not None:
            body = body.outer
        else:
            body = None if body.loop is None else body.loop.home
