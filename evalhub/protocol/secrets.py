"""Finds secrets in text by their shape. Pure: the lane and the server look with the same eyes.

Most shapes are the high-confidence rules of Kingfisher, a detector that others maintain: it looks for
all of them at once in linear time, knows what only looks like a key, and asks nobody on the network.
Its rules take seconds to make ready the first time on a machine, so that is put off until a text has
a word that could be a key at all (what is found must have one, so nothing is missed); `make_ready`
does it before.
"""

import re
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from kingfisher_sdk import Rules, Scanner

# Lines of at least 20 digits and a last one: not the prose in which somebody only names the header.
# It may be cut short. Every repetition is possessive or bounded, so no text makes it slow.
_PRIVATE_KEY = re.compile(
    rb"-----BEGIN (?:[A-Z0-9]{1,12} ){0,4}PRIVATE KEY(?: BLOCK)?-----"
    rb"(?:\s{0,8}[A-Za-z-]{4,20}: [^\n]{0,200}\n){0,8}"
    rb"\s{0,8}[A-Za-z0-9+/=]{16,}+(?:\s{1,8}[A-Za-z0-9+/=]{20,}+)*+"
    rb"(?:\s{0,8}[A-Za-z0-9+/=]{0,19}\s{0,8}-----END [A-Z0-9 ]{0,60}-----)?"
)
# It begins with letters that are rare, so that what it costs is looking for them.
_PASSWORD_IN_URL = re.compile(rb"://[^\s:/@\"'<>\\]{1,64}:([^\s:/@\"'<>\\]{8,128})@")
HEAD_BYTES = 8192
"""By so many bytes at its beginning is told whether something is text."""
_OWN_RULES = Path(__file__).with_name("secret_rules.yml")


class Secret(NamedTuple):
    """A secret and its kind. `is_held`: known by its value, so other writings of it are looked for."""

    kind: str
    value: str
    is_held: bool = False


def secrets_in(plain: bytes) -> Iterator[Secret]:
    """Yield the secrets that a text shows, in no order that means anything."""
    yield from _found("private-key", _PRIVATE_KEY, plain)
    yield from _found("url-password", _PASSWORD_IN_URL, plain)
    if not _is_ready() and not _may_hold_a_key(plain):
        return
    yield from _found_by_rules(plain)
    # Most rules want a space or a quote behind a key; in prose it stands before a full stop or a bracket.
    if words := dict.fromkeys(_words_before_a_mark(plain)):
        yield from _found_by_rules(b"\n".join(words))


def _found_by_rules(plain: bytes) -> Iterator[Secret]:
    for finding in _scanner().scan(plain):
        # Those that are not visible help to tell what a key beside them is: names of accounts, say.
        if (
            finding.visible
            and finding.rule_id not in _PLACES
            and _may_hold_a_key(finding.secret.encode())
        ):
            yield Secret(_kind(finding.rule_id), finding.secret)


def _words_before_a_mark(plain: bytes) -> Iterator[bytes]:
    """Yield the words that may be keys and that end where the rules do not look for an end."""
    for found in _DOTTED_WORD.finditer(plain):
        word = found[0].rstrip(b".")
        end = found.start() + len(word)
        if plain[end : end + 1] not in _ENDS_FOR_RULES and _may_hold_a_key(word):
            yield word


def make_ready() -> None:
    """Have the rules at hand, so that the first item need not wait for them. Safe to repeat."""
    _scanner()


def _found(kind: str, shape: re.Pattern[bytes], plain: bytes) -> Iterator[Secret]:
    for found in shape.finditer(plain):
        yield Secret(kind, found[shape.groups].decode(errors="surrogateescape"))


def _may_hold_a_key(plain: bytes) -> bool:
    """Return whether a text has a long word with digits that is no digest, commit or UUID."""
    return any(
        (_DIGIT.search(found[0]) and not _IDENTIFIER.fullmatch(found[0]))
        or _SURELY_A_KEY.search(found[0])
        for found in _LONG_WORD.finditer(plain)
    )


# The keys whose rules want an end are long. Of a JSON Web Token the parts are joined by dots.
_DOTTED_WORD = re.compile(rb"(?<![A-Za-z0-9_.-])[A-Za-z0-9_.-]{32,}+")
_ENDS_FOR_RULES = frozenset([b"", *(bytes([byte]) for byte in b" \t\r\n\"'`;")])
_LONG_WORD = re.compile(rb"[A-Za-z0-9_-]{16,}+")
_DIGIT = re.compile(rb"[0-9]")
_IDENTIFIER = re.compile(
    rb"[0-9a-f]{40}|[0-9a-f]{64}|[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"
    # An attempt, which the log of each lane begins with.
    rb"|att_[A-Za-z0-9_-]{10,60}"
    # A time, a name of words and small numbers: 2026-11-29T12, refund-twice-2, test_order_17.
    rb"|[0-9-]{8,12}T[0-9]{2,6}|(?:[A-Za-z]{1,20}[_-]{1,3}){0,10}+[A-Za-z]{0,20}[_-]?[0-9]{1,5}"
)
# Short ones whose digits can, by chance, all be at the end or none at all (one of twenty of AWS), and
# those of Hugging Face, which are made of letters alone.
_SURELY_A_KEY = re.compile(
    rb"A(?:KIA|SIA|BIA|CCA)[A-Z2-7]{16}|gh[pousr]_[A-Za-z0-9]{36}|[rs]k_(?:live|test|prod)_[A-Za-z0-9]{10}"
    rb"|hf_[A-Za-z]{34}"
)
# Addresses and names that the rules know beside the keys; nobody gets in by them.
_PLACES = frozenset(
    f"betterleaks.{name}"
    for name in (
        "algolia-application-id", "artifactory-jfrog-url", "auth0-domain.1", "private-key",
        "salesforce-instance-url.1", "snowflake-account-host.1", "supabase-project-url",
        "tableau-server-host.1", "tableau-personal-access-token-name.1", "upstash-redis-rest-url.1",
    )
)  # fmt: skip
_making = threading.Lock()


def _scanner() -> Scanner:
    with _making:
        return _made_scanner()


@cache
def _made_scanner() -> Scanner:
    return Scanner(Rules([_OWN_RULES], confidence="high"), base64=False)


def _is_ready() -> bool:
    return _made_scanner.cache_info().currsize > 0


@cache
def _kind(rule: str) -> str:
    """Return the kind that a rule's findings have in markers.

    >>> _kind("betterleaks.github-pat"), _kind("betterleaks.yandex-api-key.12")
    ('github-pat', 'yandex-api-key')
    """
    words = [word for word in re.split(r"[^a-z0-9-]+", rule.lower()) if not word.isdigit()]
    return words[-1].strip("-")[:40] or "key"


def plain_text(data: bytes) -> bytes:
    r"""Return a text without the escapes of JSON, however deep: what is looked at, never what is kept.

    >>> plain_text(rb'{"a": "{\"b\": \"x\\\\n\\u0079\"}"}')
    b'{"a": "{"b": "x\ny"}"}'
    """
    if b"\\" not in data:
        return data
    for escape, character in _ESCAPES.items():
        data = data.replace(escape, character)
    # After those: what comes out of it may be the letter of one.
    data = _UNICODE_ESCAPE.sub(_unescaped, data)
    # Those that are left stand before a quote, a slash or another one.
    return data.translate(None, b"\\")


def _unescaped(found: re.Match[bytes]) -> bytes:
    return bytes([int(found[1], 16)])


# Of the characters that keys are made of; the text's own stay as they are written.
_UNICODE_ESCAPE = re.compile(rb"\\u00([2-7][0-9a-fA-F])")
_ESCAPES = {b"\\n": b"\n", b"\\r": b"\r", b"\\t": b"\t"}


def is_binary(data: bytes) -> bool:
    """Return whether bytes are no text that anybody could look through; their head shows it."""
    return b"\x00" in data[:HEAD_BYTES]
