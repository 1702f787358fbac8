"""Configs of jobs with secrets: sealed by workers, opened by servers for the executors of a pool.

A worker that sends a job to executors seals its config with the key of the secrets, which executors do not have. An
executor sends it to a server with an API key of its own. What is sealed is bound to its tenant, pool, run and job: for
another one it cannot be opened.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from anabranch.dataclass import dataclass
from anabranch.errors import SecretKeyMissing, SecretKeyWrong
from anabranch.secrets.cipher import SecretCipher


@dataclass(frozen=True, slots=True)
class JobIdentity:
    """The job that a sealed config belongs to."""

    tenant_id: str
    instance_id: str
    pool: str
    job_id: str

    @property
    def row(self) -> str:
        """Its row for the cipher."""
        return orjson.dumps(["job", self.pool, self.instance_id, self.job_id]).decode()


class JobSeals:
    """Seals and opens configs with the key of this process."""

    def __init__(self, find_cipher: Callable[[], SecretCipher | None]) -> None:
        """`find_cipher` returns the cipher, or None as long as there is no key."""
        self._find_cipher = find_cipher

    def seal(self, identity: JobIdentity, config: Any, secrets: Mapping[str, str]) -> str:
        """The sealed form of a config and its secrets, in base64. Raises SecretKeyMissing."""
        text = orjson.dumps({"config": config, "secrets": dict(secrets)}).decode()
        return base64.b64encode(self._cipher().seal(tenant=identity.tenant_id, row=identity.row, text=text)).decode()

    def open(self, identity: JobIdentity, sealed: str) -> dict[str, Any]:
        """`config` and `secrets`. Raises SecretKeyMissing, SecretKeyWrong."""
        try:
            raw = base64.b64decode(sealed, validate=True)
        except binascii.Error:
            raise SecretKeyWrong("the sealed config is not base64") from None
        opened: dict[str, Any] = orjson.loads(
            self._cipher().open(tenant=identity.tenant_id, row=identity.row, sealed=raw)
        )
        return opened

    def _cipher(self) -> SecretCipher:
        cipher = self._find_cipher()
        if cipher is None:
            raise SecretKeyMissing("secrets leave this process only encrypted, and there is no key for it")
        return cipher
