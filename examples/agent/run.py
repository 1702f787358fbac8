"""Give the agent a task, and answer it as the person would: money back yes, closing accounts no."""

from __future__ import annotations

import asyncio
import tempfile

from agent import agent

from anabranch import Client, Worker
from anabranch.client.client import RunHandle

DECISIONS = {"approve-send-refund": True, "approve-close-account": False}


async def main(url: str) -> None:
    async with Worker(url, workflows=[agent]), Client(url) as client:
        handle = await client.start("agent", {"task": "Customer 17 says that she paid twice."})
        for question, approved in DECISIONS.items():
            await asked(handle, question)
            print(f"the agent asks: {question}? {'yes' if approved else 'no'}")
            answer = {"tool": question.removeprefix("approve-"), "approved": approved}
            await handle.signal("approval", answer, key=question)
        result = await handle.result(timeout=60)
    for each in result["said"]:
        print(f"{each['role']:>5}: {each['text']}")
    print("answer:", result["answer"])


async def asked(handle: RunHandle, question: str) -> None:
    """Return once the agent waits for the answer to this."""
    while True:
        nodes = (await handle.get())["nodes"]
        if any(node["nodeID"] == question and node["status"] == "waiting" for node in nodes):
            return
        await asyncio.sleep(0.05)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(f"sqlite:///{folder}/agent.db"))
