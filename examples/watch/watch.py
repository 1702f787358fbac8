"""Say what a run does, from its first event to its end: `python watch.py INSTANCE_ID`.

Needs python-socketio and aiohttp, which anabranch's own environment has. The server and the key are those of
the command line: ANABRANCH_URL and ANABRANCH_TOKEN.
"""

import asyncio
import json
import os
import sys

import socketio

ENDED = ("COMPLETED", "FAILED", "CANCELLED")


async def watch(instance_id):
    client = socketio.AsyncClient()
    seen = 0  # the `seq` of the last update: after a lost connection it goes on from there

    @client.event
    async def connect():
        await client.emit("workflow_run_join", {"runId": instance_id, "since": seen}, callback=joined)

    async def joined(answer):
        if not answer["ok"]:
            print(answer["code"], answer["message"], file=sys.stderr)
            await client.disconnect()

    @client.on("*")
    async def told(event, data):
        nonlocal seen
        for update in updates_of(event, data):
            seen = update["seq"]
            if update["event"] == "workflow_node_update":
                say(update["nodeID"], update["status"], update["output"])
            elif update["status"] in ENDED:
                say("run", update["status"], update["output"])
                await client.disconnect()

    await client.connect(os.environ["ANABRANCH_URL"], auth={"key": os.environ["ANABRANCH_TOKEN"]})
    await client.wait()


def say(what, status, output):
    # In one piece, so that nothing else that is printed to the same terminal stands in the middle of it.
    sys.stdout.write(f"{what} {status} {json.dumps(output)}\n")
    sys.stdout.flush()


def updates_of(event, data):
    if event == "workflow_updates":  # more than 50 updates a second come together
        return data["updates"]
    if event == "workflow_run_snapshot":  # more than 1,000 were missed: how the nodes stand now
        return [{"event": "workflow_node_update", **node} for node in data["nodes"]]
    return [{"event": event, **data}]


asyncio.run(watch(sys.argv[1]))
