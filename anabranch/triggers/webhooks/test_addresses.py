"""Test addresses of the webhooks of drafts: one for each draft and node, always the same under one secret key.

Called by `test_hook_service`. An address names tenant, draft and node, and is signed: nobody can guess one.
"""

from __future__ import annotations

import hashlib
import struct
import uuid
from collections.abc import Callable

from anabranch.dataclass import dataclass
from anabranch.triggers.webhooks.signed_tokens import MessageSigner, SignedTokens

TEST_PATH = "/test-hooks/"

_NODE = struct.Struct(">16s16s")


@dataclass(frozen=True, slots=True)
class TestAddress:
    """The draft that an address stands for."""

    __test__ = False

    tenant_id: str
    draft_id: str
    node: bytes
    """The digest of the node's id: ids may be longer than addresses should be."""

    def is_of(self, node_id: str) -> bool:
        """Whether it is the address of this node."""
        return self.node == _digest(node_id)


class TestAddresses:
    """Makes addresses, and reads those that it made."""

    __test__ = False

    def __init__(self, find_signer: Callable[[], MessageSigner | None], *, base_url: str) -> None:
        self._tokens = SignedTokens(find_signer, purpose=b"anabranch test addresses 1\x00")
        self._base_url = base_url.rstrip("/")

    def address(self, draft_id: str, node_id: str, *, tenant_id: str) -> str:
        """The test address of a webhook of a draft. Raises SecretKeyMissing."""
        message = _NODE.pack(uuid.UUID(draft_id).bytes, _digest(node_id)) + tenant_id.encode()
        return f"{self._base_url}{TEST_PATH}{self._tokens.token(message)}"

    def read(self, token: str) -> TestAddress | None:
        """The address of a token; None for one that was not made here."""
        message = self._tokens.message(token)
        if message is None:
            return None
        draft, node = _NODE.unpack_from(message)
        return TestAddress(message[_NODE.size :].decode(), str(uuid.UUID(bytes=draft)), node)


def _digest(node_id: str) -> bytes:
    return hashlib.blake2b(node_id.encode(errors="surrogatepass"), digest_size=16).digest()
