"""Secrets: values that tenants store encrypted, and that only nodes which send them get to see."""

from anabranch.secrets.box import SecretBox, parse_key
from anabranch.secrets.key import find_key
from anabranch.secrets.safe import Safe, SecretEntry

__all__ = ["Safe", "SecretBox", "SecretEntry", "find_key", "parse_key"]
