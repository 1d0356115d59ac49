"""Where a POST may go: public addresses, and what the server's operator has allowed by name.

A URL is given by a member of some project, so it must not make this server knock on doors that only
this server can reach. What counts is the address that is connected to, so names are resolved once,
here, and the connection goes to what was looked at.
"""

import re
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from django.core.exceptions import ImproperlyConfigured

Address = IPv4Address | IPv6Address
Resolver = Callable[[str, int], Sequence[str]]
"""Return the addresses of a host; raises OSError if it has none."""

LONGEST_URL = 2000
_MOST_ADDRESSES = 8
_PORTS = {"https": 443, "http": 80}
_LEAST_FREE_PORT = 1024
_SEND_WITHOUT_ESCAPE = re.compile(r"[!-\[\]-~]+")
_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_HOST = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(?:\.{_LABEL})*")
_BRACKETED = re.compile(r"\[[0-9A-Fa-f:.]+\](?::[0-9]*)?")
# Resolvers read 2130706433, 0x7f.1 and 0177.1 as addresses; nobody writes one so with good intent.
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")

# IANA's special-purpose registries, and multicast. Written out: `is_global` of the standard library
# differs between patch releases and takes multicast and 6to4 for global.
_NOT_PUBLIC_4 = [
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/3",
    )
]
_GLOBAL_UNICAST_6 = IPv6Network("2000::/3")
_NOT_PUBLIC_6 = [
    IPv6Network(text) for text in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")
]
_NAT64 = IPv6Network("64:ff9b::/96")


class UnfitTargetError(ValueError):
    """A URL that nothing is sent to, in a sentence that says what would be fit."""


class Target(NamedTuple):
    """A URL taken apart; `host` is in lower case, without brackets and final dot."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def is_usual_port(self) -> bool:
        return self.port == _PORTS[self.scheme]


@dataclass(frozen=True)
class Allowance:
    """What may be reached although it is not public: host names, and networks."""

    hosts: frozenset[str] = frozenset()
    networks: tuple[IPv4Network | IPv6Network, ...] = ()

    def names(self, host: str) -> bool:
        """Return whether the host itself is allowed, as a name or as a literal address."""
        if host in self.hosts:
            return True
        literal = _literal(host)
        return literal is not None and self.covers(literal)

    def covers(self, address: Address) -> bool:
        return any(address in network for network in self.networks)


def allowance(entries: Sequence[str]) -> Allowance:
    """Return what a list of host names, addresses and networks in CIDR form allows.

    Raises:
        ImproperlyConfigured: if an entry is none of these.
    """
    hosts, networks = set(), []
    for entry in entries:
        host = _without_final_dot(entry)
        try:
            networks.append(ip_network(host))
        except ValueError:
            if not _HOST.fullmatch(host):
                raise ImproperlyConfigured(
                    f"EVALHUB_WEBHOOK_HOSTS names {entry!r}, which is neither a host name nor an"
                    " address nor a network such as 10.0.0.0/8."
                ) from None
            hosts.add(host)
    return Allowance(frozenset(hosts), tuple(networks))


def target_of(url: str, *, allowed: Allowance) -> Target:
    """Return where a URL leads, if something may be sent there as far as its text tells.

    Raises:
        UnfitTargetError: if it is not https (http for an allowed host), names a user, writes an
            address in another way than usual, names a port of the system's, or leads to an address
            that is neither public nor allowed without any name being asked for.
    """
    if len(url) > LONGEST_URL or not _SEND_WITHOUT_ESCAPE.fullmatch(url):
        raise UnfitTargetError(
            f"The URL must be at most {LONGEST_URL} characters of ASCII without spaces; write"
            " others percent-encoded, and a host name in its xn-- form."
        )
    split, port = _split(url)
    host = _checked_host(split)
    is_allowed = allowed.names(host)
    if split.scheme != "https" and not (split.scheme == "http" and is_allowed):
        raise UnfitTargetError(
            "The URL must begin with https://; plain http is for hosts in EVALHUB_WEBHOOK_HOSTS."
        )
    port = _PORTS[split.scheme] if port is None else port
    if not (is_allowed or port == _PORTS["https"] or port >= _LEAST_FREE_PORT):
        raise UnfitTargetError(f"The URL's port was {port}; it can be 443, or 1024 and above.")
    if not is_allowed:
        _refuse_inner_host(host, allowed=allowed)
    path = (split.path or "/") + (f"?{split.query}" if split.query else "")
    return Target(split.scheme, host, port, path)


def connectable(target: Target, *, allowed: Allowance, resolve: Resolver) -> list[str]:
    """Return the addresses that a connection to the target may use, in the resolver's order.

    Raises:
        UnfitTargetError: if any address of the host is neither public nor allowed. One is enough:
            a name that leads outside and inside is there to get in.
        OSError: if the host has no address.
    """
    found = list(dict.fromkeys(resolve(target.host, target.port)))[:_MOST_ADDRESSES]
    if not found:
        raise OSError("the name has no address")
    if target.host not in allowed.hosts:
        for text in found:
            address = _unwrapped(ip_address(text))
            if not is_public(address) and not allowed.covers(address):
                raise UnfitTargetError(
                    "The URL's host has an address that is not public. If it is meant to be reached"
                    " from here, whoever runs this server can name it in EVALHUB_WEBHOOK_HOSTS."
                )
    return found


def is_public(address: Address) -> bool:
    """Return whether an address is one of the public internet.

    >>> [is_public(ip_address(text)) for text in ("1.1.1.1", "169.254.169.254", "::ffff:10.0.0.1")]
    [True, False, False]
    """
    plain = _unwrapped(address)
    if isinstance(plain, IPv4Address):
        return not any(plain in network for network in _NOT_PUBLIC_4)
    return plain in _GLOBAL_UNICAST_6 and not any(plain in network for network in _NOT_PUBLIC_6)


def resolved(host: str, port: int) -> list[str]:
    """Return the addresses of a host as the system's resolver tells them."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


def _split(url: str) -> tuple[SplitResult, int | None]:
    try:
        split = urlsplit(url)
        port = split.port
    except ValueError:
        raise UnfitTargetError(
            "The URL cannot be read; it has the form https://host/path."
        ) from None
    if "@" in split.netloc:
        raise UnfitTargetError("The URL must not hold a user name or password.")
    return split, port


def _checked_host(split: SplitResult) -> str:
    host = _without_final_dot(split.hostname or "")
    if split.netloc.startswith("["):
        if not _BRACKETED.fullmatch(split.netloc) or _literal(host) is None:
            raise UnfitTargetError(f"The URL's address {host[:60]!r} is not an IPv6 address.")
        return host
    if not _HOST.fullmatch(host):
        raise UnfitTargetError(f"The URL's host {host[:60]!r} is not a host name.")
    if _NUMBER.fullmatch(host.rpartition(".")[2]) and _literal(host) is None:
        raise UnfitTargetError(
            f"The URL's host {host[:60]!r} ends in a number, but is no address of the form 192.0.2.1."
        )
    return host


def _refuse_inner_host(host: str, *, allowed: Allowance) -> None:
    """Refuse what needs no resolver to be known as an address that is not public."""
    literal = _literal(host)
    if literal is None:
        # RFC 6761: such a name is this machine's own, whoever is asked.
        is_inner = f".{host}".endswith(".localhost")
    else:
        plain = _unwrapped(literal)
        is_inner = not is_public(plain) and not allowed.covers(plain)
    if is_inner:
        raise UnfitTargetError(
            f"The URL's host {host[:60]!r} is not public. If it is meant to be reached from here,"
            " whoever runs this server can name it in EVALHUB_WEBHOOK_HOSTS."
        )


def _without_final_dot(host: str) -> str:
    return host.lower().removesuffix(".")


@cache
def _literal(host: str) -> Address | None:
    # A zone (fe80::1%eth0) picks a network of this machine.
    if "%" in host:
        return None
    try:
        return ip_address(host)
    except ValueError:
        return None


def _unwrapped(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 address stands for, if it leads to one."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in _NAT64:
            return IPv4Address(int(address) & 0xFFFFFFFF)
    return address
