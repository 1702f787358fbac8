"""Messages to clients: names, updates, and encoding.

Called by all modules of this package. A message is encoded once for all clients, when the first one takes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import orjson

from anabranch.dataclass import dataclass
from anabranch.engine.console.console_rows import Line
from anabranch.sockets.socketio_adapter import EncodedMessage

NODE_UPDATE = "workflow_node_update"
STATUS_UPDATE = "workflow_status_update"
UPDATES = "workflow_updates"
SNAPSHOT = "workflow_run_snapshot"
CONSOLE = "workflow_console"

# 256 KB of lines in one message.
CONSOLE_BYTES_MAX = 262_144

# An update without its output, about. A batch is cut at 1 MB: clients refuse messages of several.
UPDATE_BYTES = 200
BATCH_BYTES_MAX = 1_048_576


@dataclass(frozen=True, slots=True)
class Update:
    """One change of a run, sent as a message or as a part of a batch."""

    event: str
    data: dict[str, Any]
    is_last: bool = False
    """The run has ended with it: nothing follows."""
    size: int = UPDATE_BYTES
    """Bytes, about."""

    @property
    def seq(self) -> int:
        """The seq of the row that it is about."""
        return int(self.data["seq"])

    def as_part(self) -> dict[str, Any]:
        """Its form within a batch."""
        return {"event": self.event, **self.data}


@dataclass(frozen=True)
class SocketMessage:
    """A message on its way; the same object for every client that gets it."""

    event: str
    data: dict[str, Any]
    updates: int
    """How many updates it is worth: what a client is behind by while it waits."""
    is_last: bool = False

    @classmethod
    def of(cls, update: Update) -> SocketMessage:
        """One update alone."""
        return cls(update.event, update.data, 1, update.is_last)

    @classmethod
    def batches(cls, instance_id: str, updates: Sequence[Update]) -> list[SocketMessage]:
        """Many updates of a run together, in log order: one message, or several if they are large."""
        groups: list[list[Update]] = [[]]
        room = BATCH_BYTES_MAX
        for update in updates:
            if update.size > room and groups[-1]:
                groups.append([])
                room = BATCH_BYTES_MAX
            groups[-1].append(update)
            room -= update.size
        return [
            cls(
                UPDATES,
                {"instanceID": instance_id, "updates": [update.as_part() for update in group]},
                updates=len(group),
                is_last=group[-1].is_last,
            )
            for group in groups
        ]

    @classmethod
    def console(cls, instance_id: str, lines: Sequence[Line]) -> list[SocketMessage]:
        """Console lines of a run, in one or several messages. They are not rows of the log, so `seq` is null."""
        groups: list[list[Line]] = [[]]
        room = CONSOLE_BYTES_MAX
        for line in lines:
            if line.size > room:
                groups.append([])
                room = CONSOLE_BYTES_MAX
            groups[-1].append(line)
            room -= line.size
        return [
            cls(
                CONSOLE,
                {"instanceID": instance_id, "lines": [line.as_json() for line in group], "seq": None},
                updates=len(group),
            )
            for group in groups
        ]

    @cached_property
    def encoded(self) -> EncodedMessage:
        """The encoded packet. (The library would encode it with the slower `json` of Python.)"""
        return EncodedMessage(orjson.dumps([self.event, self.data]).decode())
