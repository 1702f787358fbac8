"""Ids of child runs: one per activation of a `workflow` node, derived from it.

Pure. Every attempt to start the child uses the same id, also after a crash, and so does a cancel that does not know
whether the child was started.
"""

from __future__ import annotations

import hashlib

WORKFLOW_TYPE = "workflow"
"""The node type whose activations start children."""

# UUID version 8 (RFC 9562: custom content) and the usual variant.
_VERSION_BITS, _VERSION = 0xF << 76, 0x8 << 76
_VARIANT_BITS, _VARIANT = 0x3 << 62, 0x2 << 62


def child_id(instance_id: str, node_id: str, scope: str, generation: int = 0) -> str:
    """The id of the child that this activation starts: always the same UUID.

    With a `generation` of the parent: the id of the child that replaces one whose rows were removed.
    """
    name = "\x00".join((instance_id, node_id, scope, *([str(generation)] if generation else [])))
    digest = hashlib.blake2b(name.encode(errors="surrogatepass"), digest_size=16, person=b"child").digest()
    bits = int.from_bytes(digest, "big") & ~_VERSION_BITS & ~_VARIANT_BITS | _VERSION | _VARIANT
    text = f"{bits:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
