"""Secrets: values that tenants store encrypted, and that only nodes which send them get to see."""

from anabranch.secrets.cipher import SecretCipher, parse_key
from anabranch.secrets.key import find_key
from anabranch.secrets.secret_store import SecretEntry, SecretStore, check_secret

__all__ = ["SecretCipher", "SecretEntry", "SecretStore", "check_secret", "find_key", "parse_key"]
