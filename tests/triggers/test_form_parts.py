"""Forms in parts that webhooks receive: texts, files, and what is no form."""

from __future__ import annotations

import base64
import time
from typing import Any

import pytest

from anabranch.errors import BadJson
from anabranch.triggers.webhooks.form_parts import HEAD_BYTES_MAX
from anabranch.triggers.webhooks.header_parameters import PARAMETERS_MAX, parameters_of
from anabranch.triggers.webhooks.webhook_requests import FIELDS_MAX, HookRequest, payload_of

PNG = b"\x89PNG\r\n--b\r\n\r\n\x00\xff"


def payload(body: bytes, content_type: str = "multipart/form-data; boundary=b9") -> dict[str, Any]:
    request = HookRequest("POST", "default", "up", {"content-type": [content_type]}, [])
    return payload_of(request, body)


def part(head: str, content: bytes) -> bytes:
    return b"--b9\r\n" + head.encode() + b"\r\n\r\n" + content + b"\r\n"


def disposed(rest: str) -> str:
    return f"Content-Disposition: form-data; {rest}"


END = b"--b9--\r\n"


def test_texts_and_files_are_told_apart() -> None:
    body = (part(disposed('name="text"'), "ä\r\n\r\nb".encode()) + part(disposed('name="n"'), b"1")
            + part(disposed('name="n"'), b"2")
            + part(disposed('name="pic"; filename="a %22b%22.png"') + "\r\nContent-Type: image/png; x=1", PNG)
            + part(disposed('name="typed"') + "\r\ncontent-type: application/json", b"{}")
            + part(disposed("name=\"star\"; filename*=UTF-8''na%C3%AFve.txt"), b"") + END)  # fmt: skip
    read = payload(b"what stands before\r\n" + body)
    assert read["form"] == {"text": "ä\r\n\r\nb", "n": ["1", "2"]}
    assert read["files"] == {
        "pic": {"fileName": 'a "b".png', "mimeType": "image/png", "base64": base64.b64encode(PNG).decode()},
        "typed": {"fileName": None, "mimeType": "application/json", "base64": "e30="},
        "star": {"fileName": "naïve.txt", "mimeType": None, "base64": ""},
    }
    assert (read["body"], read["json"]) == (None, None)


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"", "multipart/form-data; boundary=b9"),
        (b"--b9", "multipart/form-data; boundary=b9"),
        (part(disposed('name="a"'), b"cut off"), "multipart/form-data; boundary=b9"),
        (part("Content-Type: text/plain", b"no name") + END, "multipart/form-data; boundary=b9"),
        (part(disposed('name="a"'), b"x") + END, "multipart/form-data"),
        (part(disposed('name="a"'), b"x") + END, f"multipart/form-data; boundary={'b' * 71}"),
    ],
)
def test_what_is_no_form_stays_a_body(body: bytes, content_type: str) -> None:
    read = payload(body, content_type)
    assert (read["form"], "files" in read) == (None, False)
    assert read["body"] is not None


def test_parts_within_parts_are_bytes() -> None:
    inner = b'--c\r\nContent-Disposition: form-data; name="deep"\r\n\r\nx\r\n--c--\r\n'
    body = part(disposed('name="outer"') + "\r\nContent-Type: multipart/mixed; boundary=c", inner) + END
    assert base64.b64decode(payload(body)["files"]["outer"]["base64"]) == inner


def test_a_form_of_too_many_parts_is_refused_at_once() -> None:
    body = part(disposed('name="a"'), b"") * (FIELDS_MAX + 1) + END
    with pytest.raises(BadJson, match="more than 1000 parts"):
        payload(body)
    assert len(payload(part(disposed('name="a"'), b"") * FIELDS_MAX + END)["form"]["a"]) == FIELDS_MAX


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        (disposed('name="a"') + "\r\nX: " + "x" * HEAD_BYTES_MAX, "more than 2048 bytes"),
        (disposed('name="a"' + ";" * PARAMETERS_MAX), "more than 20 parameters"),
    ],
)
def test_a_part_with_too_long_a_head_is_refused(head: str, reason: str) -> None:
    with pytest.raises(BadJson, match=reason):
        payload(part(head, b"x") + END)
    assert payload(part(disposed('name="a"' + ";" * (PARAMETERS_MAX - 1)), b"x") + END)["form"] == {"a": "x"}


@pytest.mark.parametrize(
    ("header", "read"),
    [
        ('form-data; name="a;b=\\"c\\\\"; filename=d e ;x', {"name": 'a;b="c\\', "filename": "d e", "x": ""}),
        ("x; Name=1; name=2; n*=UTF-8''%C3%A4; n=a; m*=ISO-8859-1'de'%E4", {"name": "1", "n": "a", "m": "ä"}),
        ("x; n*=idna''a; m*=b; open=\"c;d", {"n": "idna''a", "m": "b", "open": "c;d"}),
        ("", {}),
    ],
)
def test_parameters_of_headers_are_read_as_they_are_quoted(header: str, read: dict[str, str]) -> None:
    assert parameters_of(header) == read


def test_a_type_with_too_many_parameters_has_no_charset_and_no_form() -> None:
    many = "; a=b" * PARAMETERS_MAX
    request = HookRequest("POST", "default", "up", {"content-type": [f"Text/Plain{many}; charset=utf-8"]}, [])

    assert request.content_type == ("text/plain", "")
    with pytest.raises(BadJson, match="more than 20 parameters"):
        payload(b"", f"multipart/form-data{many}; boundary=b9")


def test_a_hostile_form_takes_no_longer_than_its_length() -> None:
    before = time.thread_time()
    for body in (b"\r\n--b9" * 150_000, b"--b9\r\n" * 150_000, b"\r\n-" * 300_000, b"--b9\r\n" + b':;="' * 250_000,
                 part(disposed('name="a"' + ";" * 8_000), b"") * 122 + END):  # fmt: skip
        try:
            payload(body)
        except BadJson:
            continue
    assert time.thread_time() - before < 20  # processor time; quadratic work would take minutes
