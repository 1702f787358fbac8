"""`crypto`: hashes, signatures with a secret, identifiers and random values.

Executed as a job, for it reads a secret or is random: its result is recorded in the log when it completes, so that a
recovery, a replay or a verification has the same one.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import uuid
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from pydantic import Field, model_validator

from anabranch.engine.handler_contract import HandlerResult, Helpers
from anabranch.engine.rules.templates.budget import Refused, TemplateBudget
from anabranch.engine.rules.templates.template import compile_template
from anabranch.errors import NonRetryable, TemplateError
from anabranch.handlers.config_fields import x_ui
from anabranch.handlers.spec import HandlerSpec, Problem, SecretReader
from anabranch.handlers.types.data.each_value import ValueConfig, converted, text_of
from anabranch.handlers.types.data.items import DATA_INVALID

_NODE = "crypto"

# 1,024 bytes: more than any key, nonce or password has.
RANDOM_BYTES_MAX = 1_024

_ALGORITHMS = {"sha3-256": "sha3_256", "sha3-512": "sha3_512"}


class CryptoConfig(ValueConfig):
    """What to compute."""

    operation: Literal["hash", "hmac", "uuid", "random"] = Field(
        description="The `hash` of text, its `hmac` with a secret, a new `uuid`, or `random` bytes.",
        json_schema_extra=x_ui(order=-1),
    )
    source: Any = Field(
        None,
        description="The text, or a list of texts: a list gives a list of results. null stays null.",
        json_schema_extra=x_ui(
            widget="expression", show_if={"/operation": ["hash", "hmac"]}, placeholder="{{ ctx.order.text }}"
        ),
    )
    source_encoding: Literal["utf-8", "base64"] = Field(
        "utf-8",
        alias="sourceEncoding",
        title="Source encoding",
        description="What the source is: text, or bytes that are written as `base64`, as files are.",
        json_schema_extra=x_ui(show_if={"/operation": ["hash", "hmac"]}, advanced=True),
    )
    algorithm: Literal["sha256", "sha512", "sha384", "sha224", "sha1", "md5", "sha3-256", "sha3-512"] = Field(
        "sha256",
        description="The hash function. `md5` and `sha1` are insecure; only for systems that require them.",
        json_schema_extra=x_ui(show_if={"/operation": ["hash", "hmac"]}),
    )
    key: str | None = Field(
        None,
        min_length=1,
        description="The secret of the `hmac`, as `{{secret.NAME}}`.",
        json_schema_extra=x_ui(widget="secret", show_if={"/operation": "hmac"}),
    )
    size: int = Field(
        32,
        alias="bytes",
        ge=1,
        le=RANDOM_BYTES_MAX,
        title="Bytes",
        description="How many random bytes.",
        json_schema_extra=x_ui(show_if={"/operation": "random"}),
    )
    encoding: Literal["hex", "base64", "base64url"] = Field(
        "hex",
        description="How the bytes are written. `base64url` has no `=` at its end.",
        json_schema_extra=x_ui(show_if={"/operation": ["hash", "hmac", "random"]}),
    )

    @model_validator(mode="after")
    def _complete(self) -> CryptoConfig:
        if self.operation == "hmac" and self.key is None:
            raise ValueError("`hmac` needs a `key`: {{secret.NAME}}")
        return self


async def execute(config: CryptoConfig, context: Mapping[str, Any], helpers: Helpers) -> HandlerResult:
    """A text, or a list of texts."""
    if config.operation == "uuid":
        return HandlerResult(str(uuid.uuid4()))
    if config.operation == "random":
        return HandlerResult(_encoded(secrets.token_bytes(config.size), config.encoding))
    work = TemplateBudget()
    try:
        return HandlerResult(converted(config, _NODE, work, lambda value: _digest(value, config, work)))
    except Refused as refusal:
        raise NonRetryable(str(refusal), code=DATA_INVALID) from None


def _digest(value: Any, config: CryptoConfig, work: TemplateBudget) -> str:
    data = _bytes(text_of(value, _NODE, work), config)
    name = _ALGORITHMS.get(config.algorithm, config.algorithm)
    if config.operation == "hash":
        return _encoded(hashlib.new(name, data, usedforsecurity=False).digest(), config.encoding)
    return _encoded(hmac.digest((config.key or "").encode(), data, name), config.encoding)


def _bytes(text: str, config: CryptoConfig) -> bytes:
    if config.source_encoding == "utf-8":
        return text.encode()
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise NonRetryable("the source is not valid base64", code=DATA_INVALID) from None


def _encoded(data: bytes, encoding: str) -> str:
    if encoding == "hex":
        return data.hex()
    if encoding == "base64":
        return base64.b64encode(data).decode()
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _inspect(config: Mapping[str, Any]) -> Iterator[Problem]:
    """A key that is written out would be readable for everybody who sees the workflow."""
    key = config.get("key")
    if not isinstance(key, str):
        return
    try:
        is_secret = bool(compile_template(key, secrets=True).secret_names)
    except TemplateError:
        return  # reported by itself
    if not is_secret:
        yield "CONFIG_INVALID", "/key", "the key is a secret: store it, and write {{secret.NAME}}"


def crypto_spec(reader: SecretReader) -> HandlerSpec:
    """The type, with a place to read secrets."""
    return HandlerSpec(
        type=_NODE,
        title="Crypto",
        config=CryptoConfig,
        execute=execute,
        inspect=_inspect,
        secrets=reader,
        category="data",
        icon="key",
        description="Makes hashes, signatures with a secret, identifiers and random values.",
        side_effects="none",
        docs="#crypto",
    )
