"""Forms in parts (multipart/form-data) that webhooks receive: texts and files.

Pure. Called by `webhook_requests`. The body may be hostile: it is cut at its boundary and nowhere else, parts within
parts stay bytes, and both parts and their heads are bounded.
"""

from __future__ import annotations

from dataclasses import dataclass
from email.message import Message
from email.utils import collapse_rfc2231_value

# 70 characters: what RFC 2046 allows.
_BOUNDARY_MAX = 70

# 8 KB for the head of a part, which has a name and a type.
_HEAD_BYTES_MAX = 8_192


@dataclass(frozen=True, slots=True)
class ReceivedPart:
    """One part."""

    name: str
    content: bytes
    file_name: str | None = None
    content_type: str | None = None

    @property
    def is_file(self) -> bool:
        """Whether its sender says that it is one."""
        return self.file_name is not None or self.content_type is not None


class TooManyParts(ValueError):
    """The form has more parts than are read."""


def parts_of(content_type: str, body: bytes, *, parts_max: int) -> list[ReceivedPart] | None:
    """The parts of a form; None if it is none that can be read. Raises TooManyParts."""
    message = Message()
    message["Content-Type"] = content_type
    boundary = message.get_boundary("")
    if not boundary or len(boundary) > _BOUNDARY_MAX or not boundary.isascii():
        return None
    pieces = (b"\r\n" + body).split(b"\r\n--" + boundary.encode(), parts_max + 2)
    if len(pieces) > parts_max + 2:
        raise TooManyParts(f"the form has more than {parts_max} parts")
    if len(pieces) < 2 or not pieces[-1].startswith(b"--"):
        return None
    parts = [_part(piece) for piece in pieces[1:-1]]
    return None if None in parts else [part for part in parts if part is not None]


def _part(piece: bytes) -> ReceivedPart | None:
    """What stands between two boundaries; None if it has no name."""
    head, end, content = piece.partition(b"\r\n\r\n")
    if not end or len(head) > _HEAD_BYTES_MAX or not head.lstrip(b" \t").startswith(b"\r\n"):
        return None
    message = Message()
    for line in head.decode("utf-8", "replace").split("\r\n")[1:]:
        name, colon, value = line.partition(":")
        if colon and name.strip().lower() in ("content-disposition", "content-type"):
            message[name.strip()] = value.strip()
    field = _parameter(message, "name")
    if not field:
        return None
    kind = message.get("content-type", "").split(";", 1)[0].strip()
    return ReceivedPart(field, content, _parameter(message, "filename"), kind or None)


def _parameter(message: Message, name: str) -> str | None:
    value = message.get_param(name, None, header="content-disposition")
    return None if value is None else collapse_rfc2231_value(value).replace("%22", '"')
