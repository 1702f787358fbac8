"""Recorded runs for commands: from a database, a server, or files. Called by `verify`, `replay` and `runs export`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from anabranch.deferred import deferred
from anabranch.engine.rules.run_filter import RunFilter
from anabranch.errors import BadJson, InvalidRequest, NotFound, TooLarge
from anabranch.settings import Settings

if TYPE_CHECKING:
    from anabranch import app
    from anabranch.client.gateway import Gateway
    from anabranch.engine.rules.graph.node_types import NodeTypes
    from anabranch.histories import recorded_history
    from anabranch.histories.recorded_history import RecordedHistory
else:
    app = deferred("anabranch.app")
    recorded_history = deferred("anabranch.histories.recorded_history")

HistoryFiles = Annotated[
    list[Path] | None,
    typer.Option("--history", metavar="FILE", help="A run that `runs export` has written; may be repeated."),
]

# 256 MB: a log has 64 MB of payloads at most (`ANABRANCH_LOG_LIMIT`), and the rest of its rows takes less than that.
FILE_BYTES_MAX = 256 * 1_048_576

# 100 runs a page, as lists give them.
PAGE_RUNS = 100


def find_node_types() -> NodeTypes:
    """The node types that are known here, those of imported code too."""
    return app.build(Settings()).node_types


async def history_of(gateway: Gateway, instance_id: str) -> RecordedHistory:
    """One recorded run. Raises NotFound."""
    return recorded_history.read_history(await gateway.get_history(instance_id), what=f"run {instance_id}")


async def run_ids(gateway: Gateway, wanted: RunFilter, *, limit: int | None = None) -> AsyncIterator[str]:
    """The ids of these runs, newest first, at most `limit`."""
    async for run in listed_runs(gateway, wanted, limit=limit):
        yield run["instanceID"]


async def listed_runs(
    gateway: Gateway, wanted: RunFilter, *, limit: int | None = None
) -> AsyncIterator[dict[str, Any]]:
    """These runs as lists show them, newest first, at most `limit`."""
    cursor, left = None, limit
    while left is None or left > 0:
        size = PAGE_RUNS if left is None else min(PAGE_RUNS, left)
        page = await gateway.list_runs(wanted, limit=size, cursor=cursor)
        for item in page["items"]:
            yield item
        left = None if left is None else left - len(page["items"])
        cursor = page["nextCursor"]
        if cursor is None:
            return


async def histories_of(
    gateway: Gateway, wanted: RunFilter, *, limit: int | None = None
) -> AsyncIterator[RecordedHistory]:
    """These recorded runs, newest first, one in memory at a time; what is removed meanwhile is left out."""
    async for instance_id in run_ids(gateway, wanted, limit=limit):
        try:
            found = await history_of(gateway, instance_id)
        except NotFound:
            continue
        yield found


async def histories_in(files: Sequence[Path]) -> AsyncIterator[RecordedHistory]:
    """The recorded runs in these files. Raises InvalidRequest."""
    for file in files:
        yield recorded_history.read_history(_read(file), what=str(file))


def write_document(folder: Path, instance_id: str, document: dict[str, Any]) -> Path:
    """Write one run to a file in the folder, which is created if needed. Raises InvalidRequest."""
    file = folder / f"{instance_id}.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file.write_bytes(orjson.dumps(document))
    except OSError as refusal:
        raise InvalidRequest(f"{file}: {refusal.strerror}", hint="Name another folder with --output.") from None
    return file


def _read(file: Path) -> Any:
    """The JSON in a file. Values in it may be as deep as a log's, and the whole larger than any input."""
    try:
        if file.stat().st_size > FILE_BYTES_MAX:
            raise TooLarge(f"{file} is larger than {FILE_BYTES_MAX // 1_048_576} MB")
        return orjson.loads(file.read_bytes())
    except OSError as refusal:
        raise InvalidRequest(f"{file}: {refusal.strerror}", hint="Write it with `anabranch runs export`.") from None
    except orjson.JSONDecodeError as wrong:
        raise BadJson(f"{file} is not JSON: line {wrong.lineno}, column {wrong.colno}: {wrong.msg}") from None
