"""A cache of OAuth 2 access tokens: requested on first use, and again after they expire.

Used by `http_request`. Tokens are asked for through the same port as the request itself, and kept in memory. Where a
refresh token was entered, what its service gave last is in the store as well, because that may be the only refresh
token that is still good; one renewer at a time asks, among all processes.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import logging
from collections import OrderedDict
from secrets import token_hex
from urllib.parse import urlencode, urlsplit

from anabranch.dataclass import dataclass
from anabranch.engine.handler_contract import Helpers
from anabranch.errors import StoreUnavailable
from anabranch.handlers.types.http.http_answer import reason_of
from anabranch.handlers.types.http.http_auth import OAuthAuth, ServiceAccountAuth, refusal
from anabranch.handlers.types.http.request_signing import assertion
from anabranch.handlers.types.http.token_store import TokenStore
from anabranch.handlers.types.http_port import HttpAnswer, HttpCall, HttpSender

logger = logging.getLogger("anabranch.secrets")

# 1,000 tokens of a few hundred bytes; beyond them the one that was not used for longest is asked for again.
TOKENS_MAX = 1_000

# A minute for a service to give a token.
TOKEN_S_MAX = 60.0

# Services that do not say how long a token lasts mostly mean an hour; 5 minutes are safe.
LIFETIME_S = 300

# A token is renewed a minute before it runs out: a request with it may take that long.
RENEWED_MS_BEFORE = 60_000

# Another process renews: it is asked four times a second, two minutes long, which is more than it may take.
_LOOK_S = 0.25
_LOOKS_MAX = 480

# The database is away when a token has to be stored: 30 times, a second apart. A hold lasts 90 seconds, of which the
# service has had 60.
_KEEP_AGAIN_S = 1.0
_KEEPS_MAX = 30


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens that a service issued."""

    access: str
    renew_at: int
    refresh: str | None = None

    def serves(self, now_ms: int, refused: str | None) -> bool:
        """Whether a request may be sent with it."""
        return now_ms < self.renew_at and self.access != refused


class TokenCache:
    """The tokens of a process."""

    def __init__(self, sender: HttpSender, store: TokenStore) -> None:
        self._sender = sender
        self._store = store
        self._tokens: OrderedDict[str, Tokens] = OrderedDict()
        """By a hash of what was asked with."""
        self._renewals: set[asyncio.Task[Tokens]] = set()
        self._unkept: dict[tuple[str, str], tuple[int, Tokens]] = {}
        """What services gave and the store does not have yet, with the version that was renewed, by tenant and grant.
        None is dropped: it may have the only refresh token that is good."""

    async def tokens_for(
        self, auth: OAuthAuth | ServiceAccountAuth, helpers: Helpers, *, refused: str | None = None
    ) -> tuple[Tokens, bool]:
        """Tokens, and whether they were there already. `refused`: an access token that is no longer good.

        Raises NodeFailure, and what the store raises.
        """
        key = _hash_of([helpers.tenant_id, auth.model_dump_json()])
        known = self._tokens.get(key)
        if known is not None and known.serves(helpers.now_ms, refused):
            self._tokens.move_to_end(key)
            return known, True
        if isinstance(auth, OAuthAuth) and auth.refresh_token:
            made, was_known = await self._renewed(auth, helpers, refused)
        else:
            made, was_known = await self._asked(auth, helpers.now_ms), False
        self._tokens[key] = made
        self._tokens.move_to_end(key)
        if len(self._tokens) > TOKENS_MAX:
            self._tokens.popitem(last=False)
        return made, was_known

    async def _renewed(self, auth: OAuthAuth, helpers: Helpers, refused: str | None) -> tuple[Tokens, bool]:
        """The stored tokens, or those of a renewal; and whether they were stored already."""
        grant, holder = _hash_of([auth.token_url, auth.client_id, auth.refresh_token, auth.scope]), token_hex(8)
        if (helpers.tenant_id, grant) in self._unkept:
            await self._keep(helpers.tenant_id, grant)
        for _ in range(_LOOKS_MAX):
            kept = _read(await self._store.read(helpers.tenant_id, grant))
            if kept is not None and kept.serves(helpers.now_ms, refused):
                return kept, True
            version = await self._store.hold(helpers.tenant_id, grant, holder)
            if version is not None:
                break
            await asyncio.sleep(_LOOK_S)
        else:
            raise refusal("HTTP_STATUS", "another process renews the token, and does not end", retried=True)
        # A task of its own: an attempt that ends meanwhile must not lose what the service gives.
        task = asyncio.create_task(self._renew(auth, helpers, _Hold(grant, holder, version, refused)))
        self._renewals.add(task)
        task.add_done_callback(self._done)
        return await asyncio.shield(task), False

    def _done(self, task: asyncio.Task[Tokens]) -> None:
        self._renewals.discard(task)
        if not task.cancelled():
            task.exception()  # the attempt has it, or has ended

    async def _renew(self, auth: OAuthAuth, helpers: Helpers, hold: _Hold) -> Tokens:
        tenant_id, is_asked = helpers.tenant_id, False
        try:
            # The service is asked only if the database has just answered.
            kept = _read(await self._store.read(tenant_id, hold.grant))
            if kept is not None and kept.serves(helpers.now_ms, hold.refused):
                return kept  # another process has ended between our look and our hold
            refresh = (kept and kept.refresh) or auth.refresh_token
            made = await self._asked(auth, helpers.now_ms, refresh)
            self._unkept[tenant_id, hold.grant] = hold.version, made
            is_asked = True
        finally:
            if not is_asked:
                await self._store.drop(tenant_id, hold.grant, hold.holder)
        await self._keep_patiently(tenant_id, hold.grant, urlsplit(auth.token_url).hostname)
        return made

    async def _keep_patiently(self, tenant_id: str, grant: str, service: str | None) -> None:
        """Store what a service gave, also if the database is away for a moment. Raises StoreUnavailable if it is away
        for longer: the next attempt of this process goes on."""
        for number in range(_KEEPS_MAX):
            if number:
                await asyncio.sleep(_KEEP_AGAIN_S)
            try:
                return await self._keep(tenant_id, grant)
            except StoreUnavailable:
                if not number:
                    logger.error(
                        "the database is away: the token that %s gave tenant %s is only in memory. It is stored when "
                        "the database is back; if this process ends before, a new refresh token has to be entered",
                        service, tenant_id,
                    )  # fmt: skip
        raise StoreUnavailable("the token that the service gave is kept in memory: the database is away to store it")

    async def _keep(self, tenant_id: str, grant: str) -> None:
        """Store what a service gave; nothing if it was stored meanwhile."""
        unkept = self._unkept.get((tenant_id, grant))
        if unkept is None:
            return
        version, made = unkept
        text = json.dumps({"access": made.access, "renewAt": made.renew_at, "refresh": made.refresh})
        await self._store.keep(tenant_id, grant, version, text)
        if self._unkept.get((tenant_id, grant)) is unkept:
            del self._unkept[tenant_id, grant]

    async def _asked(self, auth: OAuthAuth | ServiceAccountAuth, now_ms: int, refresh: str | None = None) -> Tokens:
        call = _asking(auth, refresh) if isinstance(auth, OAuthAuth) else _asserting(auth, now_ms)
        answer = await self._sender.fetch(call, timeout_s=TOKEN_S_MAX)
        return _tokens_in(answer, now_ms, refresh)


@dataclass(frozen=True, slots=True)
class _Hold:
    grant: str
    holder: str
    version: int
    refused: str | None


def _hash_of(parts: list[str | None]) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _read(text: str | None) -> Tokens | None:
    if text is None:
        return None
    given = json.loads(text)
    return Tokens(given["access"], given["renewAt"], given["refresh"])


def _asking(auth: OAuthAuth, refresh: str | None) -> HttpCall:
    form = {"grant_type": "refresh_token" if refresh else "client_credentials"}
    if refresh:
        form["refresh_token"] = refresh
    if auth.scope:
        form["scope"] = auth.scope
    headers = {}
    if auth.client_in == "header":
        pair = f"{auth.client_id}:{auth.client_secret}"
        headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
    else:
        form |= {"client_id": auth.client_id, "client_secret": auth.client_secret}
    return _form_call(auth.token_url, form, headers)


def _asserting(auth: ServiceAccountAuth, now_ms: int) -> HttpCall:
    form = {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": assertion(auth, now_ms)}
    return _form_call(auth.token_url, form, {})


def _form_call(url: str, form: dict[str, str], headers: dict[str, str]) -> HttpCall:
    return HttpCall(
        method="POST",
        url=url,
        headers={"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json", **headers},
        body=urlencode(form).encode(),
        follow_redirects=False,
        private_headers=frozenset({"authorization"}),
        private_body=True,
    )


def _tokens_in(answer: HttpAnswer, now_ms: int, refresh: str | None) -> Tokens:
    """The tokens of an answer; the refresh token is the one before unless there is another one. The answer is not
    shown: it may have a token in it."""
    if answer.status != 200:
        retried = answer.status >= 500 or answer.status == 429
        message = f"the token was refused with {answer.status}{reason_of(answer.status)}"
        raise refusal("HTTP_STATUS", message, retried=retried)
    try:
        given = json.loads(answer.body)
    except ValueError:
        given = None
    token = given.get("access_token") if isinstance(given, dict) else None
    if not isinstance(token, str) or not token or not token.isascii() or not token.isprintable():
        raise refusal("HTTP_RESPONSE_INVALID", "the service for tokens answered without a token")
    lifetime = given.get("expires_in", LIFETIME_S)
    if not isinstance(lifetime, int) or not 0 < lifetime < 2**31:
        lifetime = LIFETIME_S
    replaced = given.get("refresh_token")
    return Tokens(
        token,
        now_ms + lifetime * 1_000 - RENEWED_MS_BEFORE,
        replaced if isinstance(replaced, str) and replaced else refresh,
    )
