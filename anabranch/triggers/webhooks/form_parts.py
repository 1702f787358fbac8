"""Multipart forms (multipart/form-data) that webhooks receive: texts and files.

Pure. Called by `webhook_requests`. The body may be hostile: it is cut at its boundary and nowhere else, nested
parts stay bytes, and the size of parts and of their headers is limited.
"""

from __future__ import annotations

from anabranch.dataclass import dataclass
from anabranch.triggers.webhooks.header_parameters import TooManyParameters, parameters_of

# 70 characters: what RFC 2046 allows.
_BOUNDARY_MAX = 70

# 2 KB for the head of a part, which has a type and two names: those of files have at most 255 characters.
HEAD_BYTES_MAX = 2_048


@dataclass(frozen=True, slots=True)
class ReceivedPart:
    """One part."""

    name: str
    content: bytes
    file_name: str | None = None
    content_type: str | None = None

    @property
    def is_file(self) -> bool:
        """Whether the sender marked it as a file."""
        return self.file_name is not None or self.content_type is not None


class FormRefused(ValueError):
    """The form has too many parts, or a part has too large headers."""


def parts_of(content_type: str, body: bytes, *, parts_max: int) -> list[ReceivedPart] | None:
    """The parts of a form; None if the body cannot be read as a form. Raises FormRefused."""
    try:
        boundary = parameters_of(content_type).get("boundary", "").rstrip()
    except TooManyParameters as refusal:
        raise FormRefused(str(refusal)) from None
    if not boundary or len(boundary) > _BOUNDARY_MAX or not boundary.isascii():
        return None
    pieces = (b"\r\n" + body).split(b"\r\n--" + boundary.encode(), parts_max + 2)
    if len(pieces) > parts_max + 2:
        raise FormRefused(f"the form has more than {parts_max} parts")
    if len(pieces) < 2 or not pieces[-1].startswith(b"--"):
        return None
    parts = [_part(piece) for piece in pieces[1:-1]]
    return None if None in parts else [part for part in parts if part is not None]


def _part(piece: bytes) -> ReceivedPart | None:
    """The part between two boundaries; None if it has no name. Raises FormRefused."""
    head, end, content = piece.partition(b"\r\n\r\n")
    if not end or not head.lstrip(b" \t").startswith(b"\r\n"):
        return None
    if len(head) > HEAD_BYTES_MAX:
        raise FormRefused(f"the head of a part of the form has more than {HEAD_BYTES_MAX} bytes")
    headers: dict[str, str] = {}
    for line in head.decode("utf-8", "replace").split("\r\n")[1:]:
        name, _, value = line.partition(":")
        headers.setdefault(name.strip().lower(), value.strip())
    try:
        parameters = parameters_of(headers.get("content-disposition", ""))
    except TooManyParameters as refusal:
        raise FormRefused(f"{refusal}: the one of a part of the form") from None
    names = {name: value.replace("%22", '"') for name, value in parameters.items()}
    if not names.get("name"):
        return None
    kind = headers.get("content-type", "").split(";", 1)[0].strip()
    return ReceivedPart(names["name"], content, names.get("filename"), kind or None)
