"""Which values of the lane's environment are secrets: by the name, and by what the value looks like."""

import os
import re
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from evalhub.protocol.secrets import Secret, secrets_in
from evalhub.runner.held_token import LANE_SECRETS, with_held_secrets

KIND = "env"
OWN_KIND = "lane-token"
# Shorter ones are words of the language that evidence is written in.
_SHORTEST = 8
# From here on letters alone are no word any more.
_SURELY_NO_WORD = 20
_NAMES_OF_SECRETS = frozenset(
    {
        "KEY", "KEYS", "APIKEY", "TOKEN", "TOKENS", "SECRET", "SECRETS", "PASSWORD", "PASSWD",
        "PASS", "PWD", "PASSPHRASE", "CREDENTIAL", "CREDENTIALS", "CREDS", "AUTH", "AUTHORIZATION",
        "PAT", "JWT", "DSN", "COOKIE", "SALT", "SIGNATURE", "SAS", "BEARER", "PRIVATE", "WEBHOOK",
    }
)  # fmt: skip
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
# What names a place or a time, whatever the variable is called.
_PLACE = re.compile(r"(?:/|~|\.{1,2}/|[A-Za-z]:\\)[^\s:]*(?::/[^\s:]*)*")


def secrets_of_this_process() -> list[Secret]:
    """Return the secrets of this process's environment, those too that were taken out of it."""
    return environment_secrets(with_held_secrets(os.environ, token=None))


def environment_secrets(environment: Mapping[str, str]) -> list[Secret]:
    """Return the values that must not be written anywhere, the lane's own tokens among them."""
    return list(dict.fromkeys(_secrets_of(environment)))


def _secrets_of(environment: Mapping[str, str]) -> Iterator[Secret]:
    for name, value in sorted(environment.items()):
        if name in LANE_SECRETS and len(value) >= _SHORTEST:
            yield Secret(OWN_KIND, value, is_held=True)
            continue
        password = _password_in(value)
        if password is not None and looks_secret(password):
            yield Secret(KIND, password, is_held=True)
        if is_name_of_secret(name) and looks_secret(value):
            yield Secret(KIND, value, is_held=True)
        # A key of a known shape under a name that says nothing.
        for found in secrets_in(value.encode(errors="surrogateescape")):
            yield Secret(KIND, found.value, is_held=True)


def is_name_of_secret(name: str) -> bool:
    """Return whether a variable's name says that its value is a secret.

    >>> [is_name_of_secret(n) for n in ("STRIPE_API_KEY", "dbPassword", "MONKEY", "HOME")]
    [True, True, False, False]
    """
    return any(word.upper() in _NAMES_OF_SECRETS for word in _WORDS.findall(name))


def looks_secret(value: str) -> bool:
    """Return whether a value is no word, number, place or switch, which evidence is full of.

    >>> [looks_secret(v) for v in ("hunter2-hunter2", "Tr0ub4dor&3", "true", "postgres", "/run/key.pem")]
    [True, True, False, False, False]
    """
    if len(value) < _SHORTEST or _PLACE.fullmatch(value) or value.isdigit():
        return False
    if len(value) >= _SURELY_NO_WORD:
        return True
    has_digit = any(c.isdigit() for c in value)
    has_letter = any(c.isalpha() for c in value)
    is_mixed = any(c.isupper() for c in value[1:]) and any(c.islower() for c in value)
    return has_letter and (has_digit or is_mixed)


def _password_in(value: str) -> str | None:
    if "://" not in value:
        return None
    try:
        return urlsplit(value).password
    except ValueError:
        return None
