"""Server values: large values and configs with secrets, which an executor asks of a server with its own key.

Called by `job_executor` before the handler begins. While no server answers it asks again: the run waits, and does not
fail. The key goes to the named server only: no redirect is followed, and no proxy of the environment is used.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import orjson

from anabranch.deferred import deferred
from anabranch.errors import ExecutorRefused, SecretKeyMissing, SecretKeyWrong, ValueMissing
from anabranch.transport.job_executor import CompleteJob
from anabranch.transport.job_messages import JobPart, NodeJob
from anabranch.transport.job_parts import put_back

if TYPE_CHECKING:
    import aiohttp
else:
    aiohttp = deferred("aiohttp")

logger = logging.getLogger("anabranch.transport")

# 1 s, then twice as long each time, up to 10 s: as for the broker.
AGAIN_S = 1.0
AGAIN_S_MAX = 10.0

# 60 s for an answer: 8 MB over a slow line.
ANSWER_S_MAX = 60.0

# 16 MB: the values that jobs of one run share.
CACHE_BYTES = 16 * 1_048_576

_OF_KEYS = {each.code: each for each in (SecretKeyMissing, SecretKeyWrong)}


class ServerValues:
    """Asks one server, with one key."""

    def __init__(self, url: str, key: str) -> None:
        self._url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {key}"}
        self._session: aiohttp.ClientSession | None = None
        self._kept: OrderedDict[tuple[str, str], bytes] = OrderedDict()
        self._kept_bytes = 0

    async def complete(self, job: NodeJob) -> CompleteJob:
        """The job with everything that it refers to. Raises ExecutorRefused, ValueMissing, SecretKeyMissing,
        SecretKeyWrong, BadMessage."""
        config, secrets = job.config, {}
        if job.sealed is not None:
            body = {
                "tenantID": job.tenant_id,
                "instanceID": job.instance_id,
                "pool": job.pool,
                "jobID": job.job_id,
                "sealed": job.sealed,
            }
            opened = orjson.loads(await self._answer("POST", "/v1/jobs/config", body=body))
            config, secrets = opened["config"], opened["secrets"]
        values = {part: orjson.loads(await self._value(job, part)) for part in job.parts}
        config, context = put_back(config, job.context, values)
        return CompleteJob(config, secrets, context)

    async def stop(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    async def _value(self, job: NodeJob, part: JobPart) -> bytes:
        key = job.tenant_id, part.sha256
        raw = self._kept.get(key)
        if raw is not None:
            self._kept.move_to_end(key)
            return raw
        query = {"tenantID": job.tenant_id, "instanceID": job.instance_id}
        raw = await self._answer("GET", f"/v1/values/{part.sha256}", query=query)
        if hashlib.sha256(raw).hexdigest() != part.sha256:
            raise ValueMissing(f"the server returned another value for {part.sha256}")
        self._kept[key] = raw
        self._kept_bytes += len(raw)
        while self._kept_bytes > CACHE_BYTES:
            self._kept_bytes -= len(self._kept.popitem(last=False)[1])
        return raw

    async def _answer(self, method: str, path: str, *, query: dict[str, str] | None = None, body: Any = None) -> bytes:
        pause_s = AGAIN_S
        while True:
            try:
                status, raw = await self._asked(method, path, query, body)
            except (aiohttp.ClientError, TimeoutError, OSError) as fault:
                reason = repr(fault)
            else:
                if status == 200:
                    return raw
                refusal = _refusal(status, raw)
                if refusal is not None:
                    raise refusal
                reason = f"status {status}"
            logger.warning("the server does not answer: %s; trying again in %.0f s", reason, pause_s)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, AGAIN_S_MAX)

    async def _asked(self, method: str, path: str, query: dict[str, str] | None, body: Any) -> tuple[int, bytes]:
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=ANSWER_S_MAX)
            self._session = aiohttp.ClientSession(headers=self._headers, timeout=timeout, trust_env=False)
        async with self._session.request(
            method, self._url + path, params=query, json=body, allow_redirects=False
        ) as response:
            return response.status, await response.read()


class NoServer:
    """The values of an executor without a key: it executes only jobs that refer to nothing."""

    async def complete(self, job: NodeJob) -> CompleteJob:
        """Raises ExecutorRefused."""
        what = "its config has secrets" if job.sealed is not None else "it refers to large values"
        raise ExecutorRefused(f"{what}, and this executor has no server and key to ask for them")

    async def stop(self) -> None:
        """Nothing is open."""


def _refusal(status: int, raw: bytes) -> Exception | None:
    """The refusal that a status means; None: ask again."""
    try:
        error = orjson.loads(raw)["error"]
        code, message = str(error["code"]), str(error["message"])
    except (orjson.JSONDecodeError, LookupError, TypeError):
        code, message = "", f"the server answers with status {status}"
    if code in _OF_KEYS:
        return _OF_KEYS[code](message)
    if status == 404:
        return ValueMissing(message)
    if status == 429 or status >= 500:
        return None
    return ExecutorRefused(message)
