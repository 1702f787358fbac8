"""Secrets: values that tenants store encrypted, and that only nodes which send them get to see."""

from anabranch.secrets.box import SecretBox, parse_key
from anabranch.secrets.key import find_key
from anabranch.secrets.safe import Safe, SecretEntry, check_secret

__all__ = ["Safe", "SecretBox", "SecretEntry", "check_secret", "find_key", "parse_key"]
