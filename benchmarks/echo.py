"""The bare counterpart of an executor: `python -m benchmarks.echo BROKER_URL QUEUE`.

Publishes each message of the queue, as it is, to the queue that its `reply_to` names. It keeps what an executor keeps:
as many unacknowledged messages, confirmed publications, and an acknowledgement only after the confirmation. Says
`ready`; ends with its standard input.
"""

from __future__ import annotations

import asyncio
import sys

import aio_pika
from aio_pika.abc import AbstractIncomingMessage

from anabranch.app import tune_interpreter

CONCURRENCY = 64
"""Of the executor as well."""


async def echo(url: str, queue_name: str) -> None:
    """Answer until nobody holds the other end of standard input any more."""
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        await channel.set_qos(prefetch_count=CONCURRENCY)

        async def answer(message: AbstractIncomingMessage) -> None:
            assert message.reply_to is not None
            reply = aio_pika.Message(message.body, delivery_mode=aio_pika.DeliveryMode.NOT_PERSISTENT)
            await channel.default_exchange.publish(reply, message.reply_to)
            await message.ack()

        queue = await channel.get_queue(queue_name)
        await queue.consume(answer)
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    tune_interpreter()
    asyncio.run(echo(*sys.argv[1:]))
