"""The short cut past Engine.IO's queue never overtakes what is in the queue, or in its writer's hands."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from anabranch.sockets.socketio_adapter import EncodedMessage, SendQueue, SocketOutlet


class Line:
    """A WebSocket that takes everything, or nothing."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.takes = True

    def write(self, frame: bytes) -> bool:
        if self.takes:
            self.frames.append(frame)
        return self.takes


def outlet_on(queue: SendQueue, line: Line | None, *, upgraded: bool = True) -> SocketOutlet:
    queue.websocket = line  # type: ignore[assignment]  # as much of one as is needed
    socket = SimpleNamespace(queue=queue, upgraded=upgraded)
    return SocketOutlet(SimpleNamespace(eio=SimpleNamespace(sockets={"x": socket})), "x")


async def waiting_writer(queue: SendQueue) -> asyncio.Task[Any]:
    writer = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    return writer


async def test_a_parcel_goes_straight_out_where_the_writer_waits() -> None:
    queue, line = SendQueue(), Line()
    writer = await waiting_writer(queue)
    outlet_on(queue, line).put(EncodedMessage('["a",{}]'))
    assert line.frames == [b'\x81\x0a42["a",{}]'] and queue.empty()
    writer.cancel()


async def test_it_queues_behind_what_the_writer_is_about_to_send() -> None:
    queue, line = SendQueue(), Line()
    writer = await waiting_writer(queue)
    queue.put_nowait("an answer")
    outlet = outlet_on(queue, line)
    outlet.put(EncodedMessage('["a",{}]'))
    await writer  # it has the answer in its hands now
    outlet.put(EncodedMessage('["b",{}]'))
    assert line.frames == [] and queue.qsize() == 2


async def test_it_queues_where_the_line_is_full_or_there_is_none_yet() -> None:
    for line, upgraded in ((Line(), False), (None, True), (Line(), True)):
        if line is not None:
            line.takes = not upgraded
        queue = SendQueue()
        writer = await waiting_writer(queue)
        outlet_on(queue, line, upgraded=upgraded).put(EncodedMessage('["a",{}]'))
        assert queue.qsize() == 1
        writer.cancel()


def test_frames_of_every_length_say_how_long_they_are() -> None:
    for size in (0, 110, 130, 65_000, 70_000):
        frame = EncodedMessage("x" * size).frame
        length = frame[1] if frame[1] < 126 else int.from_bytes(frame[2:4] if frame[1] == 126 else frame[2:10])
        assert frame[0] == 0x81 and frame.endswith(b"42" + b"x" * size) and length == size + 2
