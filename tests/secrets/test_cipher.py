"""A sealed text opens with its key, for its tenant and place, unchanged; otherwise it stays shut."""

from __future__ import annotations

import base64
import os

import pytest

from anabranch.errors import SecretKeyWrong, SettingsError
from anabranch.secrets.cipher import SecretCipher, parse_key

KEY = bytes(range(32))
TEXT = "s3cr3t ü"


@pytest.fixture
def box() -> SecretCipher:
    return SecretCipher(KEY)


def sealed_by(box: SecretCipher) -> bytes:
    return box.seal(tenant="a", row="secret X version 1", text=TEXT)


def test_what_was_sealed_opens(box: SecretCipher) -> None:
    assert SecretCipher(KEY).open(tenant="a", row="secret X version 1", sealed=sealed_by(box)) == TEXT


def test_the_same_text_is_never_sealed_alike(box: SecretCipher) -> None:
    assert len({sealed_by(box) for _ in range(1_000)}) == 1_000


def test_neither_the_text_nor_the_key_is_in_what_is_stored(box: SecretCipher) -> None:
    sealed = sealed_by(box)
    assert TEXT.encode() not in sealed and KEY[:8] not in sealed and KEY not in sealed


@pytest.mark.parametrize(
    ("tenant", "row"),
    [("b", "secret X version 1"), ("a", "secret Y version 1"), ("a", "secret X version 2"), ("a", ""),
     ("", "a\", \"secret X version 1")],
)  # fmt: skip
def test_it_does_not_open_in_another_place(box: SecretCipher, tenant: str, row: str) -> None:
    with pytest.raises(SecretKeyWrong, match="cannot be decrypted"):
        box.open(tenant=tenant, row=row, sealed=sealed_by(box))


def test_no_two_places_look_alike(box: SecretCipher) -> None:
    sealed = box.seal(tenant="a", row='b", "c', text=TEXT)
    with pytest.raises(SecretKeyWrong):
        box.open(tenant='a", "b', row="c", sealed=sealed)


def test_another_key_is_named_and_does_not_open_it(box: SecretCipher) -> None:
    other = SecretCipher(os.urandom(32))
    with pytest.raises(SecretKeyWrong) as refusal:
        other.open(tenant="a", row="secret X version 1", sealed=sealed_by(box))
    assert box.key_id in refusal.value.message and other.key_id in refusal.value.message


def test_a_changed_byte_anywhere_keeps_it_shut(box: SecretCipher) -> None:
    sealed = sealed_by(box)
    for position in range(len(sealed)):
        changed = bytearray(sealed)
        changed[position] ^= 1
        with pytest.raises(SecretKeyWrong):
            box.open(tenant="a", row="secret X version 1", sealed=bytes(changed))


@pytest.mark.parametrize("length", [0, 1, 20, 21, 36])
def test_a_piece_of_it_does_not_open(box: SecretCipher, length: int) -> None:
    with pytest.raises(SecretKeyWrong):
        box.open(tenant="a", row="secret X version 1", sealed=sealed_by(box)[:length])


def test_a_refusal_does_not_show_the_text(box: SecretCipher) -> None:
    with pytest.raises(SecretKeyWrong) as refusal:
        box.open(tenant="b", row="secret X version 1", sealed=sealed_by(box))
    assert "s3cr3t" not in repr(refusal.getrepr())


def test_a_key_is_32_bytes_in_base64() -> None:
    assert parse_key(base64.b64encode(KEY).decode() + "\n") == KEY


@pytest.mark.parametrize(
    "text", ["", "abc", base64.b64encode(bytes(31)).decode(), base64.b64encode(bytes(33)).decode(), "?" * 44]
)
def test_anything_else_is_no_key(text: str) -> None:
    with pytest.raises(SettingsError, match="32 bytes"):
        parse_key(text)
