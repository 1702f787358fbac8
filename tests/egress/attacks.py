"""Targets that no tenant may reach, by class; what DNS answers for their names; and some that are fine.

The classes are those by which other products were led to inner services. Each item names a URL; the
names in it resolve as `DNS` says, to nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

PUBLIC = "93.184.215.14"
PUBLIC_V6 = "2606:2800:21f:cb07:6820:80da:af6b:8b2c"

DNS: Mapping[str, Sequence[str]] = {
    "good.test": [PUBLIC],
    "good-v6.test": [PUBLIC_V6],
    "both.test": [PUBLIC_V6, PUBLIC],
    "sub.good.test": [PUBLIC],
    "under_score.test": [PUBLIC],
    "xn--mnchen-3ya.test": [PUBLIC],
    "inner.test": ["10.1.2.3"],
    "loop.test": ["127.0.0.1"],
    "loop6.test": ["::1"],
    "mixed.test": [PUBLIC, "192.168.0.1"],
    "mixed6.test": [PUBLIC, "::ffff:127.0.0.1"],
    "last.test": [PUBLIC_V6, PUBLIC, "169.254.169.254"],
    "scoped.test": ["fe80::1%eth0"],
    "nat64.test": ["64:ff9b::a9fe:a9fe"],
    "zero.test": ["0.0.0.0"],
    "azure.test": ["168.63.129.16"],
    "cgnat.test": ["100.100.100.200"],
    "localhost": ["127.0.0.1"],
    "localhost.localdomain": ["127.0.0.1"],
    "sub.localhost": ["127.0.0.1"],
    "ip6-localhost": ["::1"],
    "metadata.google.internal": ["169.254.169.254"],
    "metadata": ["169.254.169.254"],
    "instance-data": ["169.254.169.254"],
    "kubernetes.default.svc": ["10.96.0.1"],
    "host.docker.internal": ["172.17.0.1"],
    "127.0.0.1.nip.test": ["127.0.0.1"],
    "app.internal.test": ["192.168.1.20"],
}

SPECIAL_IPV4 = [
    "0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.100.100.200", "100.127.255.254", "127.0.0.1",
    "127.0.0.2", "127.1.1.1", "127.255.255.254", "168.63.129.16", "169.254.0.1", "169.254.169.254", "169.254.170.2",
    "172.16.0.1", "172.17.0.1", "172.31.255.254", "192.0.0.1", "192.0.0.8", "192.0.0.170", "192.0.0.192", "192.0.2.1",
    "192.168.0.1", "192.168.255.254", "198.18.0.1", "198.19.255.254", "198.51.100.1", "203.0.113.1", "224.0.0.1",
    "239.255.255.250", "240.0.0.1", "255.255.255.255",
]  # fmt: skip

SPECIAL_IPV6 = [
    "::", "::1", "0:0:0:0:0:0:0:1", "::ffff:127.0.0.1", "::ffff:7f00:1", "0:0:0:0:0:ffff:7f00:0001", "::ffff:10.0.0.1",
    "::ffff:169.254.169.254", "::ffff:a9fe:a9fe", "::127.0.0.1", "::7f00:1", "::a9fe:a9fe", "::ffff:0:127.0.0.1",
    "64:ff9b::7f00:1", "64:ff9b::169.254.169.254", "64:ff9b::a00:1", "64:ff9b:1::7f00:1", "64:ff9b:1:fffe::a9fe:a9fe",
    "2002:7f00:1::", "2002:a9fe:a9fe::1", "2002:c0a8:1::", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001::1",
    "2001:2::1", "2001:10::1", "2001:db8::1", "3fff::1", "fc00::1", "fd00:ec2::254", "fd12:3456:789a::1", "fe80::1",
    "fec0::1", "ff02::1", "ff05::1:3", "100::1", "5f00::1", "4000::1",
]  # fmt: skip

DISGUISED_IPV4 = [
    "http://127.1/", "http://127.0.1/", "http://0/", "http://0.0/", "http://10.1/", "http://2130706433/",
    "http://3232235521/", "http://2852039166/", "http://017700000001/", "http://0177.0.0.1/", "http://0177.0.0.01/",
    "http://127.0.0.01/", "http://127.000.000.001/", "http://0x7f000001/", "http://0x7f.0.0.1/", "http://0x7f.1/",
    "http://0X7F000001/", "http://0xa9fea9fe/", "http://0251.0376.0251.0376/", "http://169.254.43518/",
    "http://169.16689662/", "http://127.0.0.1./", "http://0x7f000001./",
]  # fmt: skip

NAMES = [
    f"http://{name}/" for name, found in DNS.items() if found != [PUBLIC] and not name.startswith(("good", "both"))
]
NAMES += ["http://LOCALHOST/", "http://LocalHost:80/", "http://loop.test./", "http://LOOP.test:8080/a?b#c"]

READ_TWICE = [
    "http://good.test@127.0.0.1/", "http://good.test:80@127.0.0.1/", "http://a:b@10.0.0.1/", "http://127.0.0.1@loop.test/",
    "http://good.test@loop.test/", "http://good.test%40loop.test/", "http://good.test\\@127.0.0.1/",
    "http:\\\\127.0.0.1/", "http://127.0.0.1\\.good.test/", "http://loop.test\\good.test/", "http:/\\127.0.0.1/",
    "http://loc%61lhost/", "http://%6c%6f%6f%70.test/", "http://127.0.0.1%2e/", "http://%31%32%37.0.0.1/",
    "http://127%2e0%2e0%2e1/", "http://[::1%25lo]/", "http://[::1%lo]/",
]  # fmt: skip

INVISIBLE = [
    "http://127.0.0.1\t/", "http://127\t.0.0.1/", "http://loop\n.test/", "http://loop\r.test/", "http://lo\top.test/",
    " http://127.0.0.1/", "http://127.0.0.1/ ", "\thttp://127.0.0.1/", "http://loop\u00ad.test/",
    "http://loop\u200b.test/", "http://loop\u2060.test/", "http://\ufefflocalhost/", "ht\ntp://127.0.0.1/",
]  # fmt: skip

LOOKALIKES = [
    "http://\uff11\uff12\uff17.0.0.1/", "http://\u2460\u2461\u2466.0.0.1/", "http://127\u30020\u30020\u30021/",
    "http://127\uff0e0\uff0e0\uff0e1/", "http://127\uff610\uff610\uff611/", "http://\u24db\u24de\u24d2\u24d0\u24db\u24d7\u24de\u24e2\u24e3/",
    "http://\uff4c\uff4f\uff4f\uff50.test/", "http://loop\u3002test/", "http://loop\uff0etest/", "http://\u217cocalhost/",
    "http://\u00b9\u00b2\u2077.0.0.1/", "http://\uff10x7f000001/",
]  # fmt: skip

SCHEMES = [
    "file:///etc/passwd", "FILE:///etc/passwd", "gopher://127.0.0.1:6379/_INFO", "ftp://127.0.0.1/", "dict://127.0.0.1:11211/",
    "unix:///var/run/docker.sock", "jar:http://127.0.0.1!/", "data:text/plain,hi", "javascript:alert(1)",
    "ldap://127.0.0.1/", "//127.0.0.1/", "127.0.0.1/", "http:127.0.0.1/", "http:///127.0.0.1/", "ws://127.0.0.1/",
]  # fmt: skip

MALFORMED = [
    "", "http://", "http://:80/", "http://good.test:0/", "http://good.test:65536/", "http://good.test:99999999999/",
    "http://good.test:8a/", "http://good.test:/", "http://good.test:80:80/", "http://[::1/", "http://::1/", "http://[]/",
    "http://[127.0.0.1]/", "http://[::1]x/", "http://good..test/", "http://.good.test/", "http://-good.test/",
    "http://good.test\x00/", "http://good.test\x7f/", "http://good\ud800.test/", "http://" + "a" * 64 + ".test/",
    "http://" + "a." * 127 + "test/", "http://good.test/" + "a" * 9_000, "http://1.2.3.4.5/", "http://good.1/",
    "http://256.256.256.256/", "http://good.0x7f/", "http://*.good.test/", "http://good.test,loop.test/",
]  # fmt: skip

HARMFUL: Mapping[str, Sequence[str]] = {
    "special IPv4": [f"http://{address}/" for address in SPECIAL_IPV4],
    "special IPv6": [f"http://[{address}]/" for address in SPECIAL_IPV6],
    "disguised IPv4": DISGUISED_IPV4,
    "names of inner hosts": NAMES,
    "read twice": READ_TWICE,
    "invisible characters": INVISIBLE,
    "lookalikes": LOOKALIKES,
}
"""By class: each leads some reader to an inner host."""

SENSELESS: Mapping[str, Sequence[str]] = {"schemes": SCHEMES, "malformed": MALFORMED}
"""By class: nothing that should be guessed at."""

BENIGN = [
    ("http://good.test/", PUBLIC),
    ("http://good.test", PUBLIC),
    ("http://good.test?a=b", PUBLIC),
    ("https://good.test/a/b?c=d&e=%0a#f", PUBLIC),
    ("HTTP://GOOD.test:8080/", PUBLIC),
    ("https://good.test./", PUBLIC),
    ("http://sub.good.test/path with blanks?q=two words", PUBLIC),
    ("http://under_score.test/", PUBLIC),
    ("http://good-v6.test/", PUBLIC_V6),
    ("http://both.test/", PUBLIC_V6),
    (f"http://{PUBLIC}/", PUBLIC),
    (f"http://{PUBLIC}:8443/x", PUBLIC),
    (f"http://[{PUBLIC_V6}]/", PUBLIC_V6),
    (f"https://[{PUBLIC_V6.upper()}]:8443/", PUBLIC_V6),
    ("http://m\u00fcnchen.test/gr\u00fc\u00dfe", PUBLIC),
    ("http://M\u00dcNCHEN.test/", PUBLIC),
    ("http://good.test/@user", PUBLIC),
    ("http://good.test/?next=http://127.0.0.1/", PUBLIC),
    ("http://1.1.1.1/", "1.1.1.1"),
    ("http://172.32.0.1/", "172.32.0.1"),
    ("http://100.128.0.1/", "100.128.0.1"),
    ("http://192.0.1.1/", "192.0.1.1"),
    ("http://169.253.1.1/", "169.253.1.1"),
]


def resolve(host: str, port: int) -> Sequence[str]:
    """What DNS answers here."""
    if host not in DNS:
        raise OSError(f"{host} does not exist")
    return DNS[host]
