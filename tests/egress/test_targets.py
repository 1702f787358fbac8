"""Nothing but public addresses is reached, however its name is written; what is allowed and what is fine is."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from anabranch.egress import AllowList, Guard, GuardedClient
from anabranch.egress.targets import parse_target
from anabranch.errors import EgressRefused, HttpUnreachable, SettingsError
from anabranch.handlers.types.http_port import HttpCall
from tests.egress.attacks import BENIGN, DNS, HARMFUL, PUBLIC, SENSELESS, resolve
from tests.egress.naive import is_inner, reached

ATTACKS = [pytest.param(url, id=f"{kind}: {url!a}"[:80]) for kind, urls in HARMFUL.items() for url in urls]
OTHERS = [pytest.param(url, id=f"{kind}: {url!a}"[:80]) for kind, urls in SENSELESS.items() for url in urls]


def addresses_of(url: str, guard: Guard) -> Sequence[str]:
    """Where a request for the URL would connect to."""
    target = parse_target(url)
    return guard.check(target.host, target.port)


def test_there_are_attacks_of_every_class() -> None:
    assert all(len(urls) >= 10 for urls in (*HARMFUL.values(), *SENSELESS.values()))
    assert len(ATTACKS) >= 150


@pytest.mark.parametrize("url", ATTACKS)
def test_the_attack_leads_a_naive_client_to_an_inner_host(url: str) -> None:
    assert any(is_inner(address) for address in reached(url)), f"{url!a} harms nobody"


@pytest.mark.parametrize("url", [*ATTACKS, *OTHERS])
def test_the_attack_is_refused(url: str) -> None:
    with pytest.raises(EgressRefused):
        addresses_of(url, Guard(resolve=resolve))


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://user:pw@good.test/", "it contains a user name; use `auth`"),
        ("http://good%2etest/", "host contains a percent sign"),
        ("http://good.test\\x", "backslash"),
        ("http://g\uff4f\uff4fd.test/", "characters in it that stand for others"),
        ("http://good\u3002test/", "characters in it that stand for others"),
        ("http://good.test/a\tb", "control or invisible characters"),
        ("http://good.test/a\u200bb", "control or invisible characters"),
        (" http://good.test/", "blanks around it"),
        ("http://127.1/", "not written out"),
        ("ftp://good.test/", "the scheme ftp: is not http or https"),
        ("good.test/", "write it in full"),
        ("http://good.test:0/", "port is not 1 to 65535"),
        ("http://[::1/", "host and port cannot be read"),
        ("http://[good.test]/", "not an IPv6 address"),
        ("http://good..test/", "not a valid DNS name"),
        ("http://good.test/" + "a" * 9_000, "the limit is 8192"),
    ],
)
def test_a_refusal_says_what_is_wrong_with_the_url_and_does_not_repeat_it(url: str, reason: str) -> None:
    with pytest.raises(EgressRefused) as refusal:
        parse_target(url)
    assert reason in refusal.value.message and "pw" not in refusal.value.message


@pytest.mark.parametrize("url", ATTACKS)
async def test_the_attack_is_refused_before_anything_is_sent(url: str) -> None:
    client = GuardedClient(Guard(resolve=resolve))
    with pytest.raises(EgressRefused):
        await client.fetch(HttpCall(method="GET", url=url), timeout_s=5)


@pytest.mark.parametrize(("url", "address"), BENIGN)
def test_what_is_public_is_reached(url: str, address: str) -> None:
    assert addresses_of(url, Guard(resolve=resolve))[0] == address


def test_a_name_without_an_address_may_have_one_later() -> None:
    with pytest.raises(HttpUnreachable, match=r"nowhere\.test does not resolve"):
        addresses_of("http://nowhere.test/", Guard(resolve=resolve))


def test_a_refusal_does_not_tell_which_address_an_inner_name_has() -> None:
    with pytest.raises(EgressRefused) as refusal:
        addresses_of("http://inner.test/", Guard(resolve=resolve))
    assert "10.1.2.3" not in refusal.value.message and "a private network" in refusal.value.message


@pytest.mark.parametrize(
    ("entry", "reaches", "refuses"),
    [
        ("loop.test", ["http://loop.test/", "http://LOOP.test:99/"], ["http://127.0.0.1/", "http://loop6.test/"]),
        ("loop.test:8080", ["http://loop.test:8080/"], ["http://loop.test/", "http://127.0.0.1:8080/"]),
        ("127.0.0.1", ["http://127.0.0.1:5/", "http://loop.test/"], ["http://127.0.0.2/", "http://127.1/"]),
        ("127.0.0.1:8080", ["http://127.0.0.1:8080/"], ["http://127.0.0.1/"]),
        ("10.0.0.0/8", ["http://10.9.9.9/", "http://inner.test/"], ["http://11.0.0.1@10.0.0.1/", "http://172.16.0.1/"]),
        ("::1", ["http://[::1]/", "http://loop6.test/"], ["http://[::2]/"]),
        ("[::1]:8080", ["http://[::1]:8080/"], ["http://[::1]/"]),
        ("192.168.0.0/16", ["http://mixed.test/"], ["http://mixed6.test/"]),
        ("0.0.0.0/0", ["http://127.0.0.1/"], ["http://[::1]/", "http://[::ffff:127.0.0.1]/"]),
    ],
)
def test_the_operator_allows_hosts_ports_and_networks(entry: str, reaches: list[str], refuses: list[str]) -> None:
    guard = Guard(AllowList.parse([entry]), resolve=resolve)
    for url in reaches:
        assert addresses_of(url, guard)
    for url in refuses:
        with pytest.raises(EgressRefused):
            addresses_of(url, guard)
    assert addresses_of("http://good.test/", guard) == [PUBLIC]


@pytest.mark.parametrize(
    "entry", ["http://a/", "a:0", "a:70000", "a b", "10.0.0.1/8", "127.1", "*", "fe80::1%eth0", ""]
)
def test_an_entry_that_is_no_host_is_refused_at_start(entry: str) -> None:
    with pytest.raises(SettingsError, match="ANABRANCH_EGRESS_ALLOW"):
        AllowList.parse([entry])


def test_a_database_host_gets_the_same_judgement() -> None:
    guard = Guard(resolve=resolve)
    assert guard.check("good.test", 5432) == DNS["good.test"]
    for host in ("inner.test", "127.0.0.1", "::1", "LOCALHOST"):
        with pytest.raises(EgressRefused):
            guard.check(host, 5432)
    for host in ("127.1", "0x7f000001", "2130706433"):
        with pytest.raises(EgressRefused):
            Guard().check(host, 5432)  # the system's resolver takes these for addresses


def test_the_operators_log_has_the_address_and_not_the_name(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(EgressRefused):
        addresses_of("http://inner.test/", Guard(resolve=resolve))
    assert "port 80 at 10.1.2.3" in caplog.text and "inner.test" not in caplog.text
