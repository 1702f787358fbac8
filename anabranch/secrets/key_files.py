"""Files with one key each, readable by their owner only.

Called by `key` for the key of secrets, and by `anabranch dev` for its API key.
"""

from __future__ import annotations

import logging
import os
import secrets
from contextlib import suppress
from pathlib import Path

from anabranch.errors import SettingsError

logger = logging.getLogger("anabranch.secrets")

# Our keys have less than 300 characters; a file that is longer is something else.
_FILE_BYTES_MAX = 1_024


def make_key_file(path: Path, text: str, *, hint: str) -> bool:
    """Write a new key; if two processes do so at once, one key wins (True) and both read it. Raises SettingsError."""
    draft = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(text.encode("ascii") + b"\n")
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(draft, path)  # atomic, and never replaces another key
            return True
    except OSError as refusal:
        raise SettingsError(f"{path} cannot be made: {refusal.strerror}", hint=hint) from None
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
    return False


def read_key_file(path: Path) -> str | None:
    """The key as it is written; None if there is no file. Warns if others may read it. Raises SettingsError."""
    try:
        with path.open("rb") as file:
            content = file.read(_FILE_BYTES_MAX)
            open_to_others = os.fstat(file.fileno()).st_mode & 0o077
    except FileNotFoundError:
        return None
    except OSError as refusal:
        raise SettingsError(f"{path} cannot be read: {refusal.strerror}") from None
    if open_to_others:
        logger.warning("other users can read the key %s: `chmod 600 %s`", path, path)
    return content.decode("ascii", "replace").strip()
