"""What can be told from the settings alone, without asking anybody."""

import difflib
import os
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from django.conf import settings
from django.http.request import validate_host

from evalhub.doctor.findings import Finding, ok, warning, wrong
from evalhub.environment import env_secret, known_variables
from evalhub.supervisor.errors import UpError
from evalhub.supervisor.listener import address_of
from evidence.store.storage import folder_of_objects

_PREFIX = "EVALHUB_"
LANE_SIDE = frozenset(
    f"{_PREFIX}{name}"
    for name in (
        *("URL", "TOKEN", "TOKEN_FILE", "TOKEN_FD", "SPOOL"),
        *("SCENARIO", "SCENARIO_FILE", "ARM", "SUBJECT", "MODEL", "CONDITION", "EPOCH"),
        *("RUN_DIR", "MEMORY", "MEMORY_DIR", "SIMULATOR_URL", "SIMULATOR_KEY"),
    )
)
"""What the lane side reads or sets; on a machine that does both, none of it is a mistake."""
_COMPOSE = frozenset({"EVALHUB_HOST", "EVALHUB_IMAGE", "EVALHUB_SIMULATOR_IMAGE"})
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_SHORTEST_KEY = 32


def unknown_variables(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Find the settings that are misspelled, and so not in force."""
    known = known_variables()
    given = {name for name in environment if name.startswith(_PREFIX)}
    unknown = sorted(given - known - LANE_SIDE - _COMPOSE)
    for name in unknown:
        (meant,) = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.8) or ("",)
        if meant:
            yield wrong(
                "settings",
                f"{name} is not a setting, so it does nothing; did you mean {meant}?",
                fix=f"Rename it to {meant}.",
            )
        elif not name.startswith(f"{_PREFIX}TEST_"):
            yield warning(
                "settings",
                f"{name} is not a setting, so it does nothing.",
                fix="Unset it; the README lists all settings.",
            )
    if not unknown:
        yield ok(
            "settings", f"All {len(given & known)} {_PREFIX}* settings that are given are read."
        )


def doubled_secrets(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Find the secrets that are given twice, of which one counts."""
    for name in sorted(known_variables()):
        if name in environment and f"{name}_FILE" in environment:
            yield warning(
                "settings",
                f"Both {name} and {name}_FILE are set; the file counts.",
                fix=f"Unset {name}.",
            )


def secret_key() -> Iterator[Finding]:
    """See whether every machine has the same key, and a long one."""
    key = env_secret("EVALHUB_SECRET_KEY")
    fix = (
        "Set EVALHUB_SECRET_KEY (or EVALHUB_SECRET_KEY_FILE) to the same random text on each"
        ' machine: python -c "import secrets; print(secrets.token_urlsafe(50))"'
    )
    is_shared = settings.DATABASE_FILE is None or folder_of_objects() is None
    if key is None and is_shared:
        yield wrong(
            "secret key",
            "The database or the objects are shared, but the key lies in the data directory of this"
            " machine alone: people who sign in at one web process are strangers to the next.",
            fix=fix,
        )
    elif key is None:
        yield ok("secret key", "The key lies in the data directory.")
    elif len(key) < _SHORTEST_KEY:
        yield warning(
            "secret key",
            f"The key has {len(key)} characters, which can be guessed; sessions are signed with it.",
            fix=fix,
        )
    else:
        yield ok("secret key", "The key is given, and long enough.")


def debugging() -> Iterator[Finding]:
    """See whether strangers could read the insides of the server."""
    if not settings.DEBUG:
        yield ok("debug pages", "They are off.")
        return
    fix = "Unset EVALHUB_DEBUG."
    if _is_loopback(settings.PUBLIC_URL):
        yield warning("debug pages", "They are on, for whoever works on this machine.", fix=fix)
    else:
        yield wrong(
            "debug pages",
            "They are on: every failure shows settings and data to whoever asks.",
            fix=fix,
        )


def addresses() -> Iterator[Finding]:
    """See whether people and GitHub find the server by the address that it gives them."""
    url = settings.PUBLIC_URL
    split = urlsplit(url)
    if split.scheme not in {"http", "https"} or not split.hostname or split.path or split.query:
        yield wrong(
            "public address",
            f"EVALHUB_PUBLIC_URL is {url!r}, which is no address of a server.",
            fix="Set it to https://host, without a path.",
        )
        return
    if not validate_host(_host(split.hostname), settings.ALLOWED_HOSTS):
        yield wrong(
            "public address",
            f"Links lead to {url}, but requests for {split.hostname} are refused.",
            fix=f"Add {split.hostname} to EVALHUB_ALLOWED_HOSTS.",
        )
        return
    if _is_loopback(url) and settings.GITHUB_TOKEN:
        yield wrong(
            "public address",
            f"The links in checks at GitHub lead to {url}, which only this machine can open.",
            fix="Set EVALHUB_PUBLIC_URL to the address that people use.",
        )
    elif split.scheme == "http" and not _is_loopback(url):
        yield warning(
            "public address",
            f"{url} is not encrypted: passwords and tokens can be read on their way.",
            fix="Put a proxy with TLS in front, and set EVALHUB_PUBLIC_URL to https://…",
        )
    else:
        yield ok("public address", f"Links lead to {url}, and its host is answered.")
    if "*" in settings.ALLOWED_HOSTS:
        yield warning(
            "public address",
            "Every host name is answered, so a forged one ends up in links.",
            fix="Name the hosts in EVALHUB_ALLOWED_HOSTS.",
        )


def listening() -> Iterator[Finding]:
    """See whether the web server could listen where it is told to."""
    try:
        address = address_of(settings.BIND)
    except UpError as error:
        yield wrong("listening", str(error), fix="Set EVALHUB_BIND to 0.0.0.0:8000, for example.")
        return
    if address.host not in _LOOPBACK and _is_loopback(settings.PUBLIC_URL):
        yield warning(
            "listening",
            f"`manage.py run web` listens on {address} for everybody, but links lead to"
            f" {settings.PUBLIC_URL}.",
            fix="Set EVALHUB_PUBLIC_URL to the address that people use.",
        )
    else:
        yield ok("listening", f"`manage.py run web` listens on {address}.")


def findings() -> Iterator[Finding]:
    """Look at all of these."""
    yield from unknown_variables(os.environ)
    yield from doubled_secrets(os.environ)
    yield from secret_key()
    yield from debugging()
    yield from addresses()
    yield from listening()


def _is_loopback(url: str) -> bool:
    return urlsplit(url).hostname in _LOOPBACK


def _host(hostname: str) -> str:
    return f"[{hostname}]" if ":" in hostname else hostname
