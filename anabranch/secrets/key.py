"""Find the key for secrets: the setting, or a file beside the embedded database.

Called by the composition root. A key is only generated for local work on the default database. Elsewhere it must be
set, because a lost or mixed-up key would lose secrets.
"""

from __future__ import annotations

import base64
import logging
import secrets
from pathlib import Path

from anabranch.errors import SettingsError
from anabranch.secrets.cipher import KEY_BYTES, parse_key
from anabranch.secrets.key_files import make_key_file, read_key_file

logger = logging.getLogger("anabranch.secrets")

KEY_FILE = Path(".anabranch/secret.key")

_HOW_TO_GIVE = "Set ANABRANCH_SECRET_KEY."


def find_key(setting: str | None, *, embedded: bool, makes: bool) -> bytes | None:
    """The key: the setting's, else, for the embedded database, that of the file `.anabranch/secret.key`.

    With `makes`, an absent file is created, readable by its owner only. None: there is no key. Raises SettingsError for
    an invalid key or file.
    """
    if setting is not None:
        return parse_key(setting)
    if not embedded:
        return None
    if makes and not KEY_FILE.exists():
        made = make_key_file(KEY_FILE, base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode(), hint=_HOW_TO_GIVE)
        if made:
            logger.warning("made the key %s: keep a copy, without it the stored secrets are lost", KEY_FILE)
    text = read_key_file(KEY_FILE)
    if text is None:
        return None
    try:
        return parse_key(text)
    except SettingsError as refusal:
        raise SettingsError(f"{KEY_FILE}: {refusal.message}", hint="Restore the file from a copy.") from None
