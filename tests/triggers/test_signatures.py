"""Signatures of webhooks: the vendors' own examples are accepted, and whatever differs from them is refused."""

from __future__ import annotations

import hashlib
import hmac

import pytest

from anabranch.triggers.webhooks.signatures import SCHEMES, SIGNATURES_MAX, SignatureCheck

# docs.github.com, "Validating webhook deliveries", "Testing the webhook payload validation"
GITHUB = (
    "github",
    "It's a Secret to Everybody",
    b"Hello, World!",
    {"x-hub-signature-256": ["sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"]},
    0.0,
)

# docs.slack.dev, "Verifying requests from Slack", the example of the page
SLACK = (
    "slack",
    "8f742231b10e8888abcd99yyyzzz85a5",
    b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V"
    b"&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text="
    b"&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN"
    b"&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c",
    {
        "x-slack-signature": ["v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"],
        "x-slack-request-timestamp": ["1531420618"],
    },
    1531420618.0,
)

# the reference libraries of Standard Webhooks, whose tests share this message
STANDARD = (
    "standard",
    "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    b'{"test": 2432232314}',
    {
        "webhook-id": ["msg_p5jXN8AQM9LWM0D4loKWxJek"],
        "webhook-timestamp": ["1614265330"],
        "webhook-signature": ["v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="],
    },
    1614265330.0,
)

# docs.stripe.com/webhooks has the form and no key; signed with `openssl dgst -sha256 -hmac whsec_test_secret`
STRIPE = (
    "stripe",
    "whsec_test_secret",
    b'{"id": "evt_test_webhook", "object": "event"}',
    {
        "stripe-signature": [
            "t=1492774577,v1=c137b1b62277d523cf8fed4dfbd0170a9a5b8a380e00cc3711d4bf0652f2ce7a,"
            "v0=6ffbb59b2300aae63f272406069a9788598b792a944a07aba816edb039989a39"
        ]
    },
    1492774577.0,
)

VENDORS = [GITHUB, SLACK, STANDARD, STRIPE]


def is_right(scheme, secret, body, headers, now) -> bool:
    claim, key = SCHEMES[scheme].read(headers), SCHEMES[scheme].key(secret)
    if claim is None or key is None:
        return False
    check = SignatureCheck(claim, key)
    check.update(body[:7])
    check.update(body[7:])
    return check.is_right(now)


def identity(scheme, secret, body, headers) -> str:
    claim, key = SCHEMES[scheme].read(headers), SCHEMES[scheme].key(secret)
    check = SignatureCheck(claim, key)
    check.update(body)
    return check.identity


@pytest.mark.parametrize("vendor", VENDORS, ids=lambda vendor: vendor[0])
def test_the_vendors_own_example_is_accepted(vendor):
    assert is_right(*vendor)


@pytest.mark.parametrize("vendor", VENDORS, ids=lambda vendor: vendor[0])
def test_another_body_key_or_signature_is_refused(vendor):
    scheme, secret, body, headers, now = vendor
    assert not is_right(scheme, secret, body + b" ", headers, now)
    assert not is_right(scheme, secret, b"", headers, now)
    assert not is_right(scheme, secret.replace("a", "A").replace("e", "f"), body, headers, now)
    assert not is_right(scheme, "", body, headers, now)


@pytest.mark.parametrize("vendor", VENDORS, ids=lambda vendor: vendor[0])
def test_each_header_is_needed_and_may_be_given_once(vendor):
    scheme, secret, body, headers, now = vendor
    for name in headers:
        assert not is_right(scheme, secret, body, {**headers, name: []}, now)
        assert not is_right(scheme, secret, body, {**headers, name: headers[name] * 2}, now)
        assert not is_right(scheme, secret, body, {**headers, name: [""]}, now)


@pytest.mark.parametrize("vendor", VENDORS[1:], ids=lambda vendor: vendor[0])
def test_a_signature_is_refused_five_minutes_after_its_time_and_before_it(vendor):
    scheme, secret, body, headers, now = vendor
    assert is_right(scheme, secret, body, headers, now + 300)
    assert is_right(scheme, secret, body, headers, now - 300)
    assert not is_right(scheme, secret, body, headers, now + 301)
    assert not is_right(scheme, secret, body, headers, now - 301)


@pytest.mark.parametrize("vendor", VENDORS[1:], ids=lambda vendor: vendor[0])
@pytest.mark.parametrize("other", ["", "x", "-1", "1e9", "1531420618.0", "٣", "9" * 13, "nan"])
def test_a_time_that_is_no_number_of_seconds_or_was_not_signed_is_refused(vendor, other):
    scheme, secret, body, headers, now = vendor
    changed = {name: [value.replace(str(int(now)), other) for value in values] for name, values in headers.items()}
    assert not is_right(scheme, secret, body, changed, now)


@pytest.mark.parametrize(
    ("vendor", "name", "value"),
    [
        (GITHUB, "x-hub-signature-256", "sha1=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"),
        (GITHUB, "x-hub-signature-256", "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"),
        (GITHUB, "x-hub-signature-256", "sha256="),
        (GITHUB, "x-hub-signature-256", "sha256=" + "0" * 64),
        (SLACK, "x-slack-signature", "v1=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"),
        (STANDARD, "webhook-signature", "v1a,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
        (STANDARD, "webhook-signature", "v1,"),
        (STANDARD, "webhook-id", "msg_other"),
        (STRIPE, "stripe-signature", STRIPE[3]["stripe-signature"][0].replace("v1=", "v0=")),
        (STRIPE, "stripe-signature", "t=1492774577," + STRIPE[3]["stripe-signature"][0]),
    ],
)
def test_other_versions_and_garbled_signatures_are_refused(vendor, name, value):
    scheme, secret, body, headers, now = vendor
    assert not is_right(scheme, secret, body, {**headers, name: [value]}, now)


def test_one_right_signature_among_a_few_is_enough_and_many_are_refused():
    scheme, secret, body, headers, now = STANDARD
    right = headers["webhook-signature"][0]
    wrong = "v1," + "A" * 43 + "="
    few = " ".join([wrong] * (SIGNATURES_MAX - 1) + [right])
    assert is_right(scheme, secret, body, {**headers, "webhook-signature": [few]}, now)
    assert not is_right(scheme, secret, body, {**headers, "webhook-signature": [f"{wrong} {few}"]}, now)


def test_a_copy_with_other_unsigned_headers_has_the_same_identity():
    for scheme, secret, body, headers, _ in VENDORS:
        other = {**headers, "x-github-delivery": ["another"]}
        assert identity(scheme, secret, body, headers) == identity(scheme, secret, body, other)
    scheme, secret, body, headers, _ = STRIPE
    reordered = ["v0=00," + headers["stripe-signature"][0]]
    assert identity(scheme, secret, body, headers) == identity(scheme, secret, body, {"stripe-signature": reordered})


def test_an_identity_shows_no_signature():
    for scheme, secret, body, headers, _ in VENDORS:
        given = hmac.new(SCHEMES[scheme].key(secret), SCHEMES[scheme].read(headers).signed_first + body, hashlib.sha256)
        assert given.hexdigest() not in identity(scheme, secret, body, headers)
