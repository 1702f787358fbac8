"""Multipart forms (multipart/form-data, RFC 7578): texts and files.

Pure. Used by `http_request`. Names cannot leave their quotes, types cannot begin a header, and the boundary is a
hash of the parts, which no part can contain.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Sequence
from typing import TypeAlias

from pydantic import Field, model_validator

from anabranch.errors import NodeFailure
from anabranch.handlers.config_fields import x_ui
from anabranch.handlers.spec import NodeConfig

# 1,000 parts: a config has at most 1 MB anyway, and servers take fewer.
PARTS_MAX = 1_000

_TYPE = r"^[!-~]+/[!-~]+([ -~]*)$"

Scalar: TypeAlias = str | int | float | bool | None


class FormPart(NodeConfig):
    """A text, or a file."""

    name: str = Field(min_length=1, description="The name of the field.")
    value: Scalar = Field(None, description="Its text; null leaves the part out.")
    base64: str | None = Field(None, description="The bytes of a file as base64, in place of `value`.")
    file_name: str | None = Field(None, alias="fileName", title="File name", description="The name of the file.")
    content_type: str | None = Field(
        None,
        alias="contentType",
        pattern=_TYPE,
        title="Content type",
        description="The type of the file; `application/octet-stream` if not given.",
        json_schema_extra=x_ui(placeholder="image/png"),
    )

    @model_validator(mode="after")
    def _one_content(self) -> FormPart:
        if (self.base64 is None) == ("value" not in self.model_fields_set):
            raise ValueError("give each part one of `value` and `base64`")
        return self


def form_body(parts: Sequence[FormPart]) -> tuple[str, bytes]:
    """The content type and the body. Raises NodeFailure for what is not base64."""
    kept = [part for part in parts if part.base64 is not None or part.value is not None]
    made = [(*_head(part), _content(part)) for part in kept]
    digest = hashlib.sha256()
    for _, _, content in made:
        digest.update(len(content).to_bytes(8) + content)
    boundary = f"anabranch-{digest.hexdigest()}"
    body = bytearray()
    for line, kind, content in made:
        body += f"--{boundary}\r\n".encode() + line + b"\r\n" + kind + b"\r\n" + content + b"\r\n"
    return f"multipart/form-data; boundary={boundary}", bytes(body + f"--{boundary}--\r\n".encode())


def bytes_of(text: str) -> bytes:
    """The bytes that are written as base64. Raises NodeFailure."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise NodeFailure(
            "NODE_CONFIG_INVALID", "`base64` is not valid base64", type_name="ConfigInvalid", retryable=False
        ) from None


def _head(part: FormPart) -> tuple[bytes, bytes]:
    line = f'Content-Disposition: form-data; name="{_quoted(part.name)}"'
    if part.base64 is None:
        return line.encode(), b""
    if part.file_name:
        line += f'; filename="{_quoted(part.file_name)}"'
    return line.encode(), f"Content-Type: {part.content_type or 'application/octet-stream'}\r\n".encode()


def _content(part: FormPart) -> bytes:
    if part.base64 is not None:
        return bytes_of(part.base64)
    return (part.value if isinstance(part.value, str) else json.dumps(part.value)).encode()


def _quoted(text: str) -> str:
    """As browsers write names: what could end them or the line is written as a number."""
    return text.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
