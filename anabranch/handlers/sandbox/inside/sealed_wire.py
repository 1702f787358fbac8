"""The protocol between service, fork server and child: frames of JSON, and their limits.

Imported on both sides, so it knows nothing of either. A frame is four bytes of length, big-endian, and that many bytes
of JSON in UTF-8. The reader sets the largest frame it accepts, and checks the depth of the text before it parses it:
the other side may be hostile.
"""

from __future__ import annotations

import struct
from itertools import accumulate

# 1 MB, as for every output of a node.
RESULT_BYTES_MAX = 1_048_576

# 64 KiB of envelope and escaping around a result; also the largest error and the largest line of log.
ENVELOPE_BYTES_MAX = 65_536

# The largest frame that a child may send.
REPLY_BYTES_MAX = RESULT_BYTES_MAX + ENVELOPE_BYTES_MAX

# 1 MB of JSON for one fetch, with its URL, headers and body: as much as a node may return.
REQUEST_BYTES_MAX = 1_048_576

# 100 fetches in one execution. The child refuses more by itself, and the service refuses them again,
# for the child cannot be trusted to. `prelude.js` has the same number.
FETCHES_MAX = 100

# 16 MB: as large as all outputs of a run together may become.
CONTEXT_BYTES_MAX = 16_777_216

# 256 KiB of code in one node: write a node type for larger programs.
CODE_BYTES_MAX = 262_144

# 64 levels, as for every value; the envelope of a result adds one.
VALUE_DEPTH_MAX = 64
ENVELOPE_DEPTH = 1

# Lines a node may log: 64 KiB or 1,000 of them, 4 KiB each. The child stops sending there, and the
# service stops listening, for the child cannot be trusted to.
LOG_BYTES_MAX = 65_536
LOG_LINES_MAX = 1_000
LOG_LINE_BYTES_MAX = 4_096

# Characters of an error's message, as in the log of a run.
MESSAGE_CHARACTERS_MAX = 4_096

# 256 characters of the names of error types and functions.
NAME_CHARACTERS_MAX = 256

# 20 calls of an error's traceback, the innermost ones, as for handlers.
FRAMES_MAX = 20

LENGTH = struct.Struct("!I")

LIMITS = struct.Struct("!QI")
"""What precedes each job, written by the service: bytes of address space (0: no limit) and seconds of CPU."""

ORDER = struct.Struct("!BI")
"""What the service sends a fork server: an order and a slot; `FORK` carries the child's socket with it."""

FORK = 1
KILL = 2

# The exit code of a child without enough memory to report that.
EXIT_OUT_OF_MEMORY = 77

_NOT_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")
_STEPS = tuple(1 if byte in b"[{" else -1 for byte in range(256))


def frame(body: bytes) -> bytes:
    """A body with its length in front."""
    return LENGTH.pack(len(body)) + body


def is_deeper(text: bytes, levels_max: int) -> bool:
    """Whether JSON text is nested deeper than this. Does not parse; linear time, and any result for text that is not
    JSON."""
    if text.count(b"[") + text.count(b"{") <= levels_max:
        return False
    # Few passes in C each: a megabyte of anything costs some hundredths of a second, where a walk in
    # Python, or a regular expression, would hold up the event loop for half of one.
    unescaped = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    outside_texts = b"".join(unescaped.split(b'"')[::2])
    brackets = outside_texts.translate(None, delete=_NOT_BRACKETS)
    return max(accumulate(map(_STEPS.__getitem__, brackets)), default=0) > levels_max
