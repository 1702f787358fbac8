"""Where the key comes from: the setting, or for the embedded database a file beside it.

Called by the composition root. A key is made only for a person at work on the default database;
everywhere else losing or mixing keys would lose secrets, so it has to be given.
"""

from __future__ import annotations

import base64
import logging
import os
import secrets
from contextlib import suppress
from pathlib import Path

from anabranch.errors import SettingsError
from anabranch.secrets.box import KEY_BYTES, parse_key

logger = logging.getLogger("anabranch.secrets")

KEY_FILE = Path(".anabranch/secret.key")

# A key has 44 characters; a file that is longer is something else.
_FILE_BYTES_MAX = 1_024


def find_key(setting: str | None, *, embedded: bool, makes: bool) -> bytes | None:
    """The key: the setting's, else, for the embedded database, that of the file `.anabranch/secret.key`.

    With `makes` the file is made where it is absent, for its owner's eyes only. None: there is no
    key. Raises SettingsError for a key or file that is none.
    """
    if setting is not None:
        return parse_key(setting)
    if not embedded:
        return None
    if makes and not KEY_FILE.exists():
        _make(KEY_FILE)
    return _read(KEY_FILE)


def _make(path: Path) -> None:
    """Write a new key; of two processes at once, one key wins and both use it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(base64.b64encode(secrets.token_bytes(KEY_BYTES)) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(draft, path)  # whole or not at all, and never over another key
            logger.warning("made the key %s: keep a copy, without it the stored secrets are lost", path)
    except OSError as refusal:
        raise SettingsError(f"{path} cannot be made: {refusal.strerror}", hint="Set ANABRANCH_SECRET_KEY.") from None
    finally:
        draft.unlink(missing_ok=True)


def _read(path: Path) -> bytes | None:
    try:
        with path.open("rb") as file:
            content = file.read(_FILE_BYTES_MAX)
            open_to_others = os.fstat(file.fileno()).st_mode & 0o077
    except FileNotFoundError:
        return None
    except OSError as refusal:
        raise SettingsError(f"{path} cannot be read: {refusal.strerror}") from None
    if open_to_others:
        logger.warning("others may read the key %s: `chmod 600 %s`", path, path)
    try:
        return parse_key(content.decode("ascii", "replace"))
    except SettingsError as refusal:
        raise SettingsError(f"{path}: {refusal.message}", hint="Restore the file from a copy.") from None
