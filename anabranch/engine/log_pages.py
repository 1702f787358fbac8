"""Read a log page by page, so that only one page is in memory at once.

Called where a whole log is needed: claims and re-reads, sockets, and views.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from anabranch.engine.ports import Loaded, Store
from anabranch.engine.rules.events import Event

# 1,024 events or 4 MB of payloads: folded in some ten milliseconds, then the event loop runs other tasks.
PAGE_EVENTS = 1_024
PAGE_BYTES = 4 * 1_048_576


async def log_pages(
    store: Store, instance_id: str, *, after_seq: int = 0, up_to: int | None = None
) -> AsyncIterator[Sequence[Event]]:
    """The events after a seq, up to another one or to the end. Fewer if the run is removed meanwhile."""
    while up_to is None or after_seq < up_to:
        limit = PAGE_EVENTS if up_to is None else min(PAGE_EVENTS, up_to - after_seq)
        page = await store.read_log(instance_id, after_seq=after_seq, limit=limit, bytes_max=PAGE_BYTES)
        if not page:
            return
        yield page
        after_seq = page[-1].seq


async def pages_of(store: Store, loaded: Loaded, *, after_seq: int = 0) -> AsyncIterator[Sequence[Event]]:
    """The events of a loaded row after that seq, up to its last one: those already loaded, or page by page."""
    if loaded.events:
        yield loaded.events
    elif loaded.row.last_seq > after_seq:
        async for page in log_pages(store, loaded.row.head.instance_id, after_seq=after_seq, up_to=loaded.row.last_seq):
            yield page
