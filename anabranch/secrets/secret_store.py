"""The secret store: a tenant's secrets by name, encrypted in the database, decrypted for nodes only.

Called by the command line and the service to set, list and delete; by the task worker, through a
port of the handlers, to read. No method for users returns a value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from anabranch.dataclass import dataclass
from anabranch.engine.rules.instants import to_iso
from anabranch.errors import InvalidRequest, SecretKeyMissing, SecretKeyWrong, SecretUnknown
from anabranch.secrets.cipher import SecretCipher
from anabranch.secrets.sealed_secrets import SealedSecret, SecretRows

# 64 characters, as for names; 64 KiB, which holds every key and certificate.
NAME_LENGTH_MAX = 64
VALUE_BYTES_MAX = 65_536

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


@dataclass(frozen=True, slots=True)
class SecretEntry:
    """The part of a secret that people may see."""

    name: str
    version: int
    """1, 2, 3…: how often it was set."""
    created_at: int
    updated_at: int


class SecretStore:
    """The secrets of all tenants, one tenant at a time."""

    def __init__(self, rows: SecretRows, find_box: Callable[[], SecretCipher | None]) -> None:
        """`find_box` is asked at every use. None where there is no key: names can be listed and deleted, no more."""
        self._rows = rows
        self._find_box = find_box

    async def set(self, *, tenant_id: str, name: str, value: str, actor: str | None = None) -> SecretEntry:
        """Store a value under a name, over the one before; with an `actor` that is on record, without the value.

        Raises InvalidRequest, SecretKeyMissing, and SecretKeyWrong while the database has secrets
        that this key does not open: two keys at once would lose one half or the other.
        """
        check_secret(name, value)
        box = self._with_key()
        others = [key_id for key_id in await self._rows.secret_key_ids() if key_id != box.key_id]
        if others:
            raise SecretKeyWrong(
                f"the stored secrets are encrypted with the key {others[0]}, and the key here is {box.key_id}"
            )

        def seal(version: int) -> tuple[str, bytes]:
            return box.key_id, box.seal(tenant=tenant_id, row=_row(name, version), text=value)

        return _entry(await self._rows.put_secret(tenant_id=tenant_id, name=name, seal=seal, actor=actor))

    async def list(self, *, tenant_id: str) -> Sequence[SecretEntry]:
        """Every secret of the tenant, by name; no values."""
        return [_entry(row) for row in await self._rows.list_secrets(tenant_id=tenant_id)]

    async def delete(self, *, tenant_id: str, name: str, actor: str | None = None) -> None:
        """Remove a secret; with an `actor` that is on record. Raises SecretUnknown."""
        if not await self._rows.delete_secret(tenant_id=tenant_id, name=name, actor=actor):
            raise _unknown([name])

    async def read(self, tenant_id: str, names: Collection[str]) -> Mapping[str, str]:
        """The values of all these secrets, for a node that sends them.

        Raises SecretUnknown naming those that are not there, SecretKeyMissing, SecretKeyWrong.
        """
        if not names:
            return {}
        rows = {row.name: row for row in await self._rows.get_secrets(tenant_id=tenant_id, names=sorted(names))}
        missing = sorted(set(names) - set(rows))
        if missing:
            raise _unknown(missing)
        box = self._with_key()
        return {
            name: box.open(tenant=tenant_id, row=_row(name, row.version), sealed=row.sealed)
            for name, row in rows.items()
        }

    def _with_key(self) -> SecretCipher:
        box = self._find_box()
        if box is None:
            raise SecretKeyMissing("there is no key to encrypt secrets with")
        return box


def check_secret(name: str, value: str) -> None:
    """Raise InvalidRequest for a name that no template could write, or a value that cannot be kept."""
    if not _NAME.fullmatch(name):
        raise InvalidRequest(
            f"{name[:NAME_LENGTH_MAX]!r} is not a valid name of a secret",
            hint=f"Up to {NAME_LENGTH_MAX} letters, digits and `_`, no digit first: it is read as {{{{secret.NAME}}}}.",
        )
    _check_value(value)


def _check_value(value: str) -> None:
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise InvalidRequest("the value is not UTF-8 text", hint="Encode bytes as base64.") from None
    if not value or "\x00" in value:
        raise InvalidRequest("a secret's value is text without NUL, and not empty")
    if size > VALUE_BYTES_MAX:
        raise InvalidRequest(f"the value has {size} bytes, the limit is {VALUE_BYTES_MAX}")


def _row(name: str, version: int) -> str:
    return f"secret {name} version {version}"


def _entry(row: SealedSecret) -> SecretEntry:
    return SecretEntry(row.name, row.version, row.created_at, row.updated_at)


def _unknown(names: Sequence[str]) -> SecretUnknown:
    shown = ", ".join(names)
    return SecretUnknown(f"there is no secret {shown}" if len(names) == 1 else f"there are no secrets {shown}")


def secret_as_json(entry: SecretEntry) -> dict[str, Any]:
    """A secret in JSON, without its value."""
    return {
        "name": entry.name,
        "version": entry.version,
        "createdAt": to_iso(entry.created_at),
        "updatedAt": to_iso(entry.updated_at),
    }
