"""Test addresses of drafts: each feeds the test run of its draft that waits for a request.

Called by the routes of drafts, and by the public routes. Which test run waits is kept with the draft. That it was fed
is in its log, so it takes one request, on whichever server that arrives.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

from anabranch.dataclass import dataclass
from anabranch.engine.ports import InstanceRow
from anabranch.engine.rules.callbacks import callback_event
from anabranch.engine.rules.entry_points import WEBHOOK_TYPE
from anabranch.engine.rules.responses import WebhookResponse
from anabranch.engine.rules.values import VALUE_BYTES_MAX
from anabranch.errors import CallbackExpired, CallbackUsed, MethodNotAllowed, NotFound, NotListening
from anabranch.run_requests import StartedRun
from anabranch.service.workflow_service import WorkflowService
from anabranch.triggers.webhooks.callback_service import CallbackService
from anabranch.triggers.webhooks.test_addresses import TestAddress, TestAddresses
from anabranch.triggers.webhooks.webhook_requests import Incoming, payload_of
from anabranch.triggers.webhooks.webhook_service import WebhookService


@dataclass(frozen=True, slots=True)
class TestHook:
    """The test address of a webhook of a draft, and the newest test run that has waited for a request there."""

    __test__ = False

    node_id: str
    url: str
    instance_id: str | None


class ListeningDrafts(Protocol):
    """The drafts that listen here."""

    async def read_listening(self, draft_id: str, *, tenant_id: str) -> Mapping[str, str] | None:
        """The newest test run that listens, by the node that it begins at; None if there is no such draft."""

    async def save_listening(
        self, draft_id: str, node_id: str, instance_id: str, *, tenant_id: str, kept: Collection[str]
    ) -> None:
        """Make this the test run that listens at a node, and forget those of nodes that are not `kept`.

        Raises NotFound.
        """


class TestHookService:
    """The test addresses of all drafts."""

    __test__ = False

    def __init__(
        self,
        *,
        addresses: TestAddresses,
        drafts: ListeningDrafts,
        workflows: WorkflowService,
        callbacks: CallbackService,
        webhooks: WebhookService,
    ) -> None:
        self._addresses = addresses
        self._drafts = drafts
        self._workflows = workflows
        self._callbacks = callbacks
        self._webhooks = webhooks

    async def get_test_hook(self, draft_id: str, node_id: str, *, tenant_id: str) -> TestHook:
        """The address of a node. Raises NotFound for an unknown draft, SecretKeyMissing."""
        listening = await self._listening(draft_id, tenant_id)
        url = self._addresses.address(draft_id, node_id, tenant_id=tenant_id)
        return TestHook(node_id, url, listening.get(node_id))

    async def listen(self, draft_id: str, node_id: str, test_run: Mapping[str, Any], *, tenant_id: str) -> TestHook:
        """Start a test run that waits for a request at the address of its node; a request there goes to it from now on.

        `test_run` is the draft's document, with its pins. Raises as `test_workflow` does.
        """
        await self._listening(draft_id, tenant_id)
        url = self._addresses.address(draft_id, node_id, tenant_id=tenant_id)
        instance_id = await self._workflows.test_workflow(
            {**test_run, "trigger": node_id, "listen": True}, tenant_id=tenant_id
        )
        kept = {node["id"] for node in test_run["nodes"]}
        await self._drafts.save_listening(draft_id, node_id, instance_id, tenant_id=tenant_id, kept=kept)
        return TestHook(node_id, url, instance_id)

    async def receive(self, token: str, incoming: Incoming) -> WebhookResponse:
        """Feed the test run that waits, and answer as its webhook says; a request that repeats the one that was taken
        is answered again. The body is read only if one listens, and takes the method.

        Raises NotFound for an address that was not made here, NotListening, MethodNotAllowed, TooLarge, the errors of
        `payload_of`, InvalidInput, and those of `WebhookService.answer`.
        """
        request = incoming.request
        address = self._addresses.read(token)
        if address is None:
            raise NotFound("there is no such address", hint="Use the whole address as it was shown.")
        node_id, instance_id = await self._find_listener(address)
        config = await self._config_of(instance_id, node_id, address.tenant_id)
        methods = config.get("methods") or ["POST"]
        if request.method not in methods:
            raise MethodNotAllowed(f"this webhook takes {', '.join(methods)}")
        body = await incoming.read(self._webhooks.body_limit(config))
        auth = config.get("auth") or {}
        hidden = {auth["name"].lower()} if auth.get("kind") == "header" else set()
        payload = {**payload_of(request, body, hidden=hidden, bytes_max=VALUE_BYTES_MAX), "path": config["path"]}
        await self._workflows.check_test_input(
            payload, config.get("inputSchema"), trigger=node_id, tenant_id=address.tenant_id
        )
        try:
            created = await self._callbacks.hand_over(
                instance_id, callback_event(instance_id, node_id, ""), payload, tenant_id=address.tenant_id
            )
        except (CallbackExpired, CallbackUsed):
            raise _nobody_listens() from None
        run = await self._workflows.get_run_status(instance_id, tenant_id=address.tenant_id)
        return await self._webhooks.answer(
            config, _started(run, created=created), tenant_id=address.tenant_id, is_gone=incoming.is_gone
        )

    # -- within ---------------------------------------------------------------------------
    async def _listening(self, draft_id: str, tenant_id: str) -> Mapping[str, str]:
        found = await self._drafts.read_listening(draft_id, tenant_id=tenant_id)
        if found is None:
            raise NotFound(f"there is no draft {draft_id!r}")
        return found

    async def _find_listener(self, address: TestAddress) -> tuple[str, str]:
        """The node and the newest test run that has listened there. Raises NotFound, NotListening."""
        for node_id, instance_id in (await self._listening(address.draft_id, address.tenant_id)).items():
            if address.is_of(node_id):
                return node_id, instance_id
        raise _nobody_listens()

    async def _config_of(self, instance_id: str, node_id: str, tenant_id: str) -> Mapping[str, Any]:
        """The config of the webhook that a test run begins at. Raises NotListening if the run is gone."""
        try:
            graph = await self._workflows.get_graph(instance_id, tenant_id=tenant_id)
        except NotFound:
            raise _nobody_listens() from None
        found = next(node for node in graph["nodes"] if node["id"] == node_id and node["type"] == WEBHOOK_TYPE)
        config: Mapping[str, Any] = found["config"]
        return config


def _started(run: InstanceRow, *, created: bool) -> StartedRun:
    return StartedRun(run.head.instance_id, run.status, created)


def _nobody_listens() -> NotListening:
    return NotListening("no test run of this draft waits for a request")
