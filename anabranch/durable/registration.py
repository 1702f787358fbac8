"""Register the coded workflows of a worker, so that servers without the code can list and start them."""

from __future__ import annotations

from anabranch.durable.definition import Registry
from anabranch.engine.ports import Store


async def register(store: Store, registry: Registry) -> None:
    """Note every workflow of the registry in the table of definitions. Raises StoreUnavailable."""
    for each in registry:
        await store.register_code(
            name=each.name, version=each.version, definition={"workflowOptions": dict(each.options)}
        )
