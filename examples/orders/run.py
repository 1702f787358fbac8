"""Three orders: one is paid, one is not, one cannot be shipped. A worker and a client in one process."""

from __future__ import annotations

import asyncio
import tempfile

from orders import fulfil, refunds, stock

from anabranch import Client, Worker


async def main(url: str) -> None:
    async with Worker(url, workflows=[fulfil]), Client(url) as client:
        paid = await client.start("fulfil-order", {"number": "A1", "goods": ["tea", "coffee"], "patience": "1h"})
        unpaid = await client.start("fulfil-order", {"number": "A2", "goods": ["tea"], "patience": "1s"})
        heavy = await client.start("fulfil-order", {"number": "A3", "goods": ["piano"], "patience": "1h"})

        # The key makes a repeated notice of the bank harmless.
        await paid.signal("payment", {"order": "A1", "cents": 1290}, key="payment-1")
        await heavy.signal("payment", {"order": "A3", "cents": 990000}, key="payment-2")

        for handle in (paid, unpaid, heavy):
            print(await handle.result(timeout=60))
        print("stock:", stock)
        print("refunds:", refunds)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(f"sqlite:///{folder}/orders.db"))
