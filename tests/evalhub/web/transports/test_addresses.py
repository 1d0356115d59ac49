"""Where a POST may go: every way to write an address that is not public is refused."""

from ipaddress import ip_address

import pytest
from django.core.exceptions import ImproperlyConfigured

from evalhub.web.transports.addresses import (
    Allowance,
    UnfitTargetError,
    allowance,
    connectable,
    is_public,
    resolved,
    target_of,
)

NOTHING = Allowance()


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0",  # noqa: S104 - an address to refuse
        "0.1.2.3",
        "10.0.0.1",
        "100.64.0.1",
        "100.127.255.254",
        "127.0.0.1",
        "127.255.255.255",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.8",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.1.1",
        "198.18.0.1",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::7f00:1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "::ffff:0:127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::1",
        "100::1",
        "2001::1",
        "2001:db8::1",
        "2002:7f00:1::",
        "3fff::1",
        "fc00::1",
        "fd12:3456::1",
        "fe80::1",
        "fec0::1",
        "ff02::1",
        "4000::1",
    ],
)
def test_addresses_of_no_public_network_are_told(address: str) -> None:
    assert not is_public(ip_address(address))


@pytest.mark.parametrize(
    "address",
    [
        "1.1.1.1",
        "100.63.255.255",
        "100.128.0.1",
        "172.32.0.1",
        "223.255.255.255",
        "2606:4700::1",
        "2001:4860::8888",
        "::ffff:1.1.1.1",
        "64:ff9b::101:101",
    ],
)
def test_public_addresses_are_told(address: str) -> None:
    assert is_public(ip_address(address))


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://hub.test/", "must begin with https"),
        ("ftp://hub.test/", "must begin with https"),
        ("file:///etc/passwd", "is not a host name"),
        ("https:///path", "is not a host name"),
        ("https://", "is not a host name"),
        ("hub.test/path", "is not a host name"),
        ("https://user@hub.test/", "user name or password"),
        ("https://user:word@hub.test/", "user name or password"),
        ("https://hub.test@127.0.0.1/", "user name or password"),
        ("https://hub.test:0/", "port was 0"),
        ("https://hub.test:22/", "port was 22"),
        ("https://hub.test:80/", "port was 80"),
        ("https://hub.test:65536/", "cannot be read"),
        ("https://hub.test:port/", "cannot be read"),
        ("https://2130706433/", "ends in a number"),
        ("https://0x7f000001/", "ends in a number"),
        ("https://0x7f.1/", "ends in a number"),
        ("https://0177.0.0.1/", "ends in a number"),
        ("https://127.1/", "ends in a number"),
        ("https://127.0.0.1.5/", "ends in a number"),
        ("https://010.8.8.8/", "ends in a number"),
        ("https://1.2.3.256/", "ends in a number"),
        ("https://[::1%25lo]/", "not an IPv6 address"),
        ("https://[fe80::1%eth0]/", "not an IPv6 address"),
        ("https://[::1/", "cannot be read"),
        ("https://[v1.a]/", "not an IPv6 address"),
        ("https://[2606:4700::1]hub.test/", "not an IPv6 address"),
        ("https://hub..test/", "is not a host name"),
        ("https://-hub.test/", "is not a host name"),
        ("https://hub.test\\@127.0.0.1/", "characters of ASCII"),
        ("https://hub.test /", "characters of ASCII"),
        (" https://hub.test/", "characters of ASCII"),
        ("https://hub.test/\r\nHost: evil", "characters of ASCII"),
        ("https://hub.te\tst/", "characters of ASCII"),
        ("https://h\u00fcb.test/", "characters of ASCII"),
        ("https://127\u30020.0.1/", "characters of ASCII"),
        ("https://\uff11\uff12\uff17.0.0.1/", "characters of ASCII"),
        ("https://hub%2etest/", "is not a host name"),
        ("https://hub.test/" + "x" * 2000, "at most 2000 characters"),
    ],
)
def test_unfit_urls_are_refused_by_their_text(url: str, said: str) -> None:
    with pytest.raises(UnfitTargetError, match=said):
        target_of(url, allowed=NOTHING)


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("https://Hub.Test", ("https", "hub.test", 443, "/")),
        ("https://hub.test./a?b=c#d", ("https", "hub.test", 443, "/a?b=c")),
        ("https://hub.test:8443/", ("https", "hub.test", 8443, "/")),
        ("https://1.1.1.1/", ("https", "1.1.1.1", 443, "/")),
        ("https://[2606:4700::1]:1024/", ("https", "2606:4700::1", 1024, "/")),
    ],
)
def test_fit_urls_are_taken_apart(url: str, target: tuple[str, str, int, str]) -> None:
    assert target_of(url, allowed=NOTHING) == target


@pytest.mark.parametrize(
    "addresses",
    [
        ["127.0.0.1"],
        ["1.1.1.1", "127.0.0.1"],
        ["169.254.169.254", "1.1.1.1"],
        ["2606:4700::1", "fe80::1%eth0"],
        ["::ffff:10.0.0.1"],
        ["64:ff9b::7f00:1"],
    ],
)
def test_host_with_an_address_inside_is_refused(addresses: list[str]) -> None:
    target = target_of("https://hub.test/", allowed=NOTHING)

    with pytest.raises(UnfitTargetError, match="an address that is not public"):
        connectable(target, allowed=NOTHING, resolve=lambda *_: addresses)


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "127.0.0.1.", "10.0.0.1", "169.254.169.254", "0.0.0.0", "255.255.255.255"),  # noqa: S104
        *("[::1]", "[::]", "[fe80::1]", "[fd12::1]", "[::ffff:10.0.0.1]", "[64:ff9b::7f00:1]"),
        *("localhost", "LOCALHOST.", "hooks.localhost"),
    ],
)
def test_host_that_is_inside_whoever_is_asked_is_refused_by_its_text(host: str) -> None:
    with pytest.raises(UnfitTargetError, match=r"is not public\..*EVALHUB_WEBHOOK_HOSTS"):
        target_of(f"https://{host}/", allowed=NOTHING)


@pytest.mark.parametrize(
    ("host", "entry"),
    [
        *(("127.0.0.1", "127.0.0.1"), ("[::1]", "::1"), ("localhost", "localhost")),
        *(("10.2.3.4", "10.0.0.0/8"), ("[::ffff:10.2.3.4]", "10.0.0.0/8")),
    ],
)
def test_host_inside_is_fit_where_it_is_allowed(host: str, entry: str) -> None:
    assert target_of(f"https://{host}/", allowed=allowance([entry])).port == 443


def test_this_machine_is_refused_by_the_real_resolver() -> None:
    # As if a public name led here.
    target = target_of("https://hub.test/", allowed=NOTHING)._replace(host="localhost")

    with pytest.raises(UnfitTargetError, match="an address that is not public"):
        connectable(target, allowed=NOTHING, resolve=resolved)


def test_allowed_hosts_and_networks_may_be_inside() -> None:
    allowed = allowance(["Mattermost.internal.", "10.1.0.0/16", "::1"])

    assert target_of("http://mattermost.internal:80/x", allowed=allowed).port == 80
    assert target_of("http://10.1.2.3/", allowed=allowed).scheme == "http"
    assert target_of("http://[::1]:8065/", allowed=allowed).host == "::1"
    for url, addresses in (
        ("https://mattermost.internal/", ["192.168.0.7"]),
        ("https://hub.test/", ["10.1.2.3", "1.1.1.1"]),
        ("https://hub.test/", ["::ffff:10.1.2.3"]),
    ):
        target = target_of(url, allowed=allowed)
        assert connectable(target, allowed=allowed, resolve=lambda *_, a=addresses: a) == addresses


def test_allowing_some_allows_no_others() -> None:
    allowed = allowance(["mattermost.internal", "10.1.0.0/16"])

    for url in ("http://hub.test/", "http://x.mattermost.internal/", "http://10.2.0.1/"):
        with pytest.raises(UnfitTargetError, match="must begin with https"):
            target_of(url, allowed=allowed)
    target = target_of("https://hub.test/", allowed=allowed)
    with pytest.raises(UnfitTargetError, match="an address that is not public"):
        connectable(target, allowed=allowed, resolve=lambda *_: ["10.1.0.1", "10.2.0.1"])


@pytest.mark.parametrize(
    "entry", ["10.0.0.0/33", "10.0.0.1/8", "two words", "https://hub.test", "*"]
)
def test_wrong_entries_of_the_setting_are_named(entry: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="EVALHUB_WEBHOOK_HOSTS names"):
        allowance([entry])
