"""Receives the requests of webhooks: authenticate, start the run, answer.

Called by the public routes, on every server. Knows no HTTP but the request and the response. Nothing about a webhook is
kept between two requests but the rate of its calls, so what was published a moment ago counts at once on every server.
A request is answered after its run is durable.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from anabranch.audit.counted_entries import CountedEntries
from anabranch.dataclass import dataclass
from anabranch.engine.rules.duration import parse_duration
from anabranch.engine.rules.events import Status
from anabranch.engine.rules.responses import WebhookResponse, response_of
from anabranch.engine.rules.templates.template import compile_template
from anabranch.errors import (
    MethodNotAllowed,
    NoResponse,
    NotFound,
    ResponseTimeout,
    TemplateError,
    UnknownTrigger,
    WebhookBusy,
)
from anabranch.run_requests import StartedRun, StartOptions
from anabranch.service.runs.run_waits import WAIT_S_MAX, RunWaits
from anabranch.service.workflow_service import WorkflowService
from anabranch.token_bucket import TokenBucket
from anabranch.triggers.armed_triggers import ArmedTrigger, ArmedTriggers
from anabranch.triggers.webhooks import webhook_auth
from anabranch.triggers.webhooks.webhook_requests import (
    BODY_BYTES_MAX,
    HookRequest,
    Incoming,
    payload_of,
    too_large,
)

# 10,000 webhooks whose rate is remembered, one small object each; the longest unused is forgotten first.
RATES_MAX = 10_000

# 255 characters of a tenant and a path: longer ones are not armed.
ADDRESS_CHARACTERS_MAX = 255

# 30 s: below the timeouts of common proxies and senders that wait for an answer.
TIMEOUT_DEFAULT = "30s"

AUDITED = "webhook.refused"


@dataclass(frozen=True, slots=True)
class HookLimits:
    """The default limits of a webhook."""

    rate_per_s: int = 60
    body_bytes_max: int = 1_048_576


class WebhookService:
    """The webhooks of one server."""

    def __init__(
        self,
        *,
        hooks: ArmedTriggers,
        secrets: webhook_auth.Secrets,
        workflows: WorkflowService,
        waits: RunWaits,
        refusals: CountedEntries,
        limits: HookLimits,
        now_s: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._hooks = hooks
        self._secrets = secrets
        self._workflows = workflows
        self._waits = waits
        self._refusals = refusals
        self._limits = limits
        self._now_s = now_s
        self._monotonic = monotonic
        self._rates: OrderedDict[str, TokenBucket] = OrderedDict()
        self.outcomes: Counter[str] = Counter()
        """How many requests have ended in which way, by `OUTCOMES`."""

    async def list_hooks(self, *, tenant_id: str) -> Sequence[ArmedTrigger]:
        """The webhooks that are armed, by path."""
        return await self._hooks.list_hooks(tenant_id=tenant_id)

    async def receive(self, incoming: Incoming) -> WebhookResponse:
        """Start the run of a request, and return the response for its client once it is due.

        Raises NotFound, the same for an unknown webhook and for wrong credentials; MethodNotAllowed, TooLarge,
        WebhookBusy, InvalidInput, BadJson, TooManyPending, ResponseTimeout, NoResponse, StoreUnavailable.
        """
        hook, body, identity = await self._authenticated(incoming)
        try:
            self._check_rate(hook)
            run = await self._start(hook, incoming.request, body, identity)
        except Exception as refusal:
            self.outcomes["limited" if isinstance(refusal, WebhookBusy) else "refused"] += 1
            raise
        self.outcomes["accepted" if run.created else "repeated"] += 1
        return await self.answer(hook.config, run, tenant_id=hook.tenant_id, is_gone=incoming.is_gone)

    async def stop(self) -> None:
        """Write what was counted; may be called twice."""
        await self._refusals.stop()

    # -- who calls ------------------------------------------------------------------------
    async def _authenticated(self, incoming: Incoming) -> tuple[ArmedTrigger, bytes, str | None]:
        """The webhook, the body, and what a copy of the request has in common with it, once it may call."""
        request = incoming.request
        hook = await self._find(request)
        if hook is None:
            check = await webhook_auth.pretend(self._secrets, request.tenant_id)
        else:
            auth = hook.config.get("auth") or {}
            check = await webhook_auth.check_of(auth, request.headers, tenant_id=hook.tenant_id, known=self._secrets)
        limit = self.body_limit({} if hook is None else hook.config)
        kept, size = bytearray(), 0
        async for piece in incoming.body:
            size += len(piece)
            if size > BODY_BYTES_MAX:
                raise too_large(BODY_BYTES_MAX)
            check.update(piece)
            if size <= limit:
                kept += piece
        if not check.is_passed(self._now_s()) or hook is None:
            self._count_refusal(hook, check.reason or "wrong signature")
            raise _nothing_here()
        methods = hook.config.get("methods") or ["POST"]
        if request.method not in methods:
            if (hook.config.get("auth") or {}).get("kind", "none") == "none":
                raise _nothing_here()
            raise MethodNotAllowed(f"this webhook takes {', '.join(methods)}")
        if size > limit:
            self.outcomes["refused"] += 1
            raise too_large(limit)
        return hook, bytes(kept), check.identity

    async def _find(self, request: HookRequest) -> ArmedTrigger | None:
        address = (request.tenant_id, request.path)
        if any(len(part) > ADDRESS_CHARACTERS_MAX or not part.isprintable() for part in address):
            return None
        return await self._hooks.find_hook(request.path, tenant_id=request.tenant_id)

    def _count_refusal(self, hook: ArmedTrigger | None, reason: str) -> None:
        self.outcomes["unknown" if hook is None else "unauthenticated"] += 1
        if hook is None:
            self._refusals.count(AUDITED, reason="unknown")
        else:
            self._refusals.count(AUDITED, tenant_id=hook.tenant_id, target=hook.subject, reason=reason)

    # -- limits ---------------------------------------------------------------------------
    def body_limit(self, config: Mapping[str, Any]) -> int:
        """How many bytes the body of a request to this webhook may have."""
        return min(config.get("bodyLimit") or self._limits.body_bytes_max, BODY_BYTES_MAX)

    def _check_rate(self, hook: ArmedTrigger) -> None:
        """Take one request from the webhook's share. Raises WebhookBusy.

        Only authenticated requests count: unauthenticated callers cannot use up the sender's limit.
        """
        rate = hook.config.get("rateLimit") or self._limits.rate_per_s
        bucket = self._rates.pop(hook.trigger_id, None) or TokenBucket(rate=rate, burst=rate)
        self._rates[hook.trigger_id] = bucket
        if len(self._rates) > RATES_MAX:
            self._rates.popitem(last=False)
        now = self._monotonic()
        if not bucket.covers(1, now):
            raise WebhookBusy(f"this webhook takes {rate} requests a second")
        bucket.use(1, now)

    # -- the run --------------------------------------------------------------------------
    async def _start(self, hook: ArmedTrigger, request: HookRequest, body: bytes, identity: str | None) -> StartedRun:
        auth = hook.config.get("auth") or {}
        hidden = {auth["name"].lower()} if auth.get("kind") == "header" else set()
        payload = payload_of(request, body, hidden=hidden)
        key = _key_of(hook, request, payload, identity)
        # No version: the active one is what was armed, and it is not read again for each request.
        options = StartOptions(trigger=hook.node_id, idempotency_key=f"hook:{hook.trigger_id}:{key}")
        try:
            return await self._workflows.start_triggered_run(
                hook.workflow_id, payload, options, tenant_id=hook.tenant_id
            )
        except UnknownTrigger:  # another version has been published since
            raise _nothing_here() from None

    # -- the answer -----------------------------------------------------------------------
    async def answer(
        self, config: Mapping[str, Any], run: StartedRun, *, tenant_id: str, is_gone: Callable[[], bool]
    ) -> WebhookResponse:
        """The response of a webhook for a run, once it is due. Raises ResponseTimeout, NoResponse, StoreUnavailable."""
        mode = config.get("respond") or "immediately"
        if mode == "immediately":
            return _json(202 if run.created else 200, {"instanceID": run.instance_id})
        node_ids = []
        if mode == "respondNode":
            node_ids = await self._workflows.responding_nodes(run.instance_id, tenant_id=tenant_id)
        wait_s = min(parse_duration(config.get("timeout") or TIMEOUT_DEFAULT) / 1000, WAIT_S_MAX)
        found = await self._waits.responded(
            run.instance_id, node_ids, tenant_id=tenant_id, wait_s=wait_s, is_gone=is_gone
        )
        details = {"instanceID": run.instance_id}
        if found is None:
            raise ResponseTimeout(f"run {run.instance_id} has not answered in time", details=details)
        if found.response is not None:
            try:
                return response_of(found.response.value)
            except ValueError as refusal:
                message = f"the response of run {run.instance_id} cannot be sent: {refusal}"
                raise NoResponse(message, details=details) from None
        assert found.end is not None, "it has responded, or it has ended"
        if mode == "atEnd" and found.end.status is Status.COMPLETED:
            return _json(200, found.end.outcome.value)
        ended = "ended without an answer" if found.end.status is Status.COMPLETED else found.end.status.value.lower()
        raise NoResponse(f"run {run.instance_id} has {ended}", details=details)


def _key_of(hook: ArmedTrigger, request: HookRequest, payload: Mapping[str, Any], identity: str | None) -> str:
    """The end of the idempotency key of the start: the same for a request that repeats another one.

    Of a signed request only what is signed counts. Otherwise a copy of it with another header would start a second run.
    """
    rule = hook.config.get("idempotency") or {}
    chosen = _chosen_key(rule, request.headers, payload)
    if identity is not None:
        covered = webhook_auth.signed_headers(hook.config.get("auth") or {})
        headers = {name: values for name, values in request.headers.items() if name in covered}
        signed = {**payload, "query": {}, "headers": {name: ", ".join(values) for name, values in headers.items()}}
        if chosen is None or chosen != _chosen_key(rule, headers, signed):
            chosen = identity
    return hashlib.sha256((chosen or secrets.token_hex(16)).encode(errors="surrogatepass")).hexdigest()


def _chosen_key(
    rule: Mapping[str, Any], headers: Mapping[str, Sequence[str]], payload: Mapping[str, Any]
) -> str | None:
    """The key that the webhook's own rule finds in a request; None if it has none, or finds none."""
    if rule.get("header"):
        values = headers.get(rule["header"].lower(), ())
        return f"header {values[0]}" if len(values) == 1 and values[0] else None
    if not rule.get("expression"):
        return None
    try:
        found = compile_template(rule["expression"]).resolve({"input": payload})
    except TemplateError:
        return None
    return None if found is None or found == "" else f"key {orjson.dumps(found).decode()}"


def _json(status: int, value: Any) -> WebhookResponse:
    return WebhookResponse(status, {"content-type": "application/json"}, orjson.dumps(value))


def _nothing_here() -> NotFound:
    """The same error for every reason, so that guesses learn nothing."""
    return NotFound(
        "there is no webhook here that takes this request", hint="Check its address, method and credentials."
    )
