"""`waitForWebhook`: waits for a request to a one-time address of its own: an approval by link, or a callback."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from pydantic import Field

from anabranch.engine.handler_contract import Helpers
from anabranch.engine.rules.callbacks import CALLBACK_TIMEOUT_MS, CALLBACK_TYPE, callback_event
from anabranch.engine.rules.stimuli import AwaitsSignal
from anabranch.handlers.config_fields import Duration, x_ui
from anabranch.handlers.spec import HandlerSpec, NodeConfig

# A year: an address works like a key, and other people keep it.
CALLBACK_TIMEOUT_MS_MAX = 366 * 86_400_000


class CallbackKey(Protocol):
    """The key that signs addresses."""

    def check(self) -> None:
        """Raise SecretKeyMissing if there is no key to sign addresses with."""


class WaitForWebhookConfig(NodeConfig):
    """How long to wait."""

    timeout: Duration = Field(
        CALLBACK_TIMEOUT_MS,
        ge=1_000,
        le=CALLBACK_TIMEOUT_MS_MAX,
        description="How long the address can be used, and how long the node waits before it leaves by `timeout`: 1 s"
        " to 366 days, 7 days if not given.",
        json_schema_extra=x_ui(widget="duration", placeholder="7d"),
    )


def wait_for_webhook_spec(key: CallbackKey) -> HandlerSpec:
    """The type, with what signs its addresses."""

    async def execute(config: WaitForWebhookConfig, context: Mapping[str, Any], helpers: Helpers) -> AwaitsSignal:
        key.check()  # nobody could ever call
        return AwaitsSignal(callback_event(helpers.instance_id, helpers.node_id, helpers.scope), None, config.timeout)

    return HandlerSpec(
        type=CALLBACK_TYPE,
        title="Wait for webhook",
        config=WaitForWebhookConfig,
        execute=execute,
        handles=("default", "timeout"),
        fixed=frozenset({"timeout"}),
        category="flow",
        icon="link",
        description="Waits for a request to a one-time address: an approval by link, a callback of a slow service.",
        side_effects="none",
        docs="#waitforwebhook",
    )
