"""The API key of `anabranch dev`: the same at each start, so that open pages and saved addresses keep working."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.deferred import deferred
from anabranch.errors import SettingsError

if TYPE_CHECKING:
    from anabranch.keys import access
    from anabranch.secrets import key_files
else:
    key_files = deferred("anabranch.secrets.key_files")
    access = deferred("anabranch.keys.access")

# Not hashed, because it is printed again. Anyone who can read it can read the database beside it.
DEV_KEY_FILE = Path(".anabranch/dev.key")


def find_dev_key() -> str:
    """The key of the current folder, created on first use. Raises SettingsError."""
    if not DEV_KEY_FILE.exists():
        key_files.make_key_file(DEV_KEY_FILE, access.new_key(), hint="Set ANABRANCH_API_KEY.")
    key = key_files.read_key_file(DEV_KEY_FILE)
    if not key:
        raise SettingsError(f"{DEV_KEY_FILE} holds no key", hint="Remove the file: a new key is made.")
    return key
