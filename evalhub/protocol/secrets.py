"""Finds secrets in text by their shape. Pure: the lane and the server look with the same eyes."""

import re
from collections.abc import Iterator
from typing import NamedTuple

# Lines of at least 40 digits and a last one: not the prose in which somebody only names the header.
# It may be cut short. Every repetition is possessive or bounded, so no text makes it slow.
_PRIVATE_KEY = re.compile(
    rb"-----BEGIN (?:[A-Z0-9]{1,12} ){0,4}PRIVATE KEY(?: BLOCK)?-----"
    rb"(?:\s{0,8}[A-Za-z-]{4,20}: [^\n]{0,200}\n){0,8}"
    rb"\s{0,8}[A-Za-z0-9+/=]{16,}+(?:\s{1,8}[A-Za-z0-9+/=]{40,}+)*+(?:\s{1,8}[A-Za-z0-9+/=]{1,80})?"
    rb"(?:\s{0,8}-----END [A-Z0-9 ]{0,60}-----)?"
)
_EVALHUB_TOKEN = re.compile(rb"ev[hl]_[A-Za-z0-9_-]{43}(?![A-Za-z0-9_-])")


class Secret(NamedTuple):
    """A secret and its kind. `is_held`: known by its value, so other writings of it are looked for."""

    kind: str
    value: str
    is_held: bool = False


def secrets_in(plain: bytes) -> Iterator[Secret]:
    """Yield the secrets that a text shows, in no order that means anything."""
    for found in _PRIVATE_KEY.finditer(plain):
        yield Secret("private-key", found[0].decode(errors="surrogateescape").rstrip())
    for found in _EVALHUB_TOKEN.finditer(plain):
        yield Secret("evalhub", found[0].decode())


def plain_text(data: bytes) -> bytes:
    r"""Return a text without the escapes of JSON, however deep: what is looked at, never what is kept.

    >>> plain_text(rb'{"a": "{\"b\": \"x\\\\n\\u0079\"}"}')
    b'{"a": "{"b": "x\ny"}"}'
    """
    if b"\\" not in data:
        return data
    while b"\\\\" in data:
        data = data.replace(b"\\\\", b"\\")
    if b"\\u00" in data:
        data = _ASCII_ESCAPE.sub(lambda found: bytes([int(found[1], 16)]), data)
    for escape, character in _ESCAPES.items():
        data = data.replace(escape, character)
    return data


_ASCII_ESCAPE = re.compile(rb"\\u00([0-7][0-9a-fA-F])")
_ESCAPES = {b'\\"': b'"', b"\\n": b"\n", b"\\r": b"\r", b"\\t": b"\t", b"\\/": b"/"}


def is_binary(data: bytes) -> bool:
    """Return whether bytes are no text that anybody could look through."""
    return b"\x00" in data[:8192]
