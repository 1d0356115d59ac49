"""Environment variables, each read with an error that names it and says what it takes."""

import os
from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import dj_database_url
from django.core.exceptions import ImproperlyConfigured

_TRUE, _FALSE = {"1", "true", "yes", "on"}, {"0", "false", "no", "off", ""}


_read: set[str] = set()


class SettingError(ImproperlyConfigured):
    """A variable that cannot be read as what it sets. The sentence begins with its name."""

    def __init__(self, variable: str, sentence: str) -> None:
        super().__init__(f"{variable} {sentence}")
        self.variable = variable


def known_variables() -> frozenset[str]:
    """Return the names of all variables that have been looked at: every setting, once they are read."""
    return frozenset(_read)


def _given(name: str) -> str | None:
    _read.add(name)
    return os.environ.get(name)


def env_text(name: str, default: str) -> str:
    text = _given(name)
    return default if text is None else text


def env_choice(name: str, default: str, *, among: Collection[str]) -> str:
    text = env_text(name, default)
    if text not in among:
        raise SettingError(name, f"is {text!r}; it takes {' or '.join(among)}.")
    return text


def env_list(name: str, default: str) -> list[str]:
    return [part.strip() for part in env_text(name, default).split(",") if part.strip()]


def env_bool(name: str, *, default: bool) -> bool:
    text = _given(name)
    if text is None:
        return default
    if text.lower() in _TRUE | _FALSE:
        return text.lower() in _TRUE
    raise SettingError(name, f"is {text!r}; it takes true or false.")


def env_int(name: str, default: int, *, least: int, most: int = 2**31 - 1) -> int:
    text = _given(name)
    if text is None:
        return default
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if not least <= value <= most:
        wanted = f"a whole number from {least} to {most}"
        raise SettingError(name, f"is {text[:40]!r}; it takes {wanted}.")
    return value


def env_secret(name: str) -> str | None:
    """Return the secret in NAME, or in the file that NAME_FILE names; None if neither is set."""
    value, path = _given(name), _given(f"{name}_FILE")
    if path is None:
        return value or None
    try:
        return Path(path).read_text().strip() or None
    except OSError as error:
        raise SettingError(
            f"{name}_FILE", f"is {path!r}, which cannot be read: {error.strerror}."
        ) from error
    except UnicodeDecodeError as error:
        raise SettingError(f"{name}_FILE", f"is {path!r}, which holds no text.") from error


def env_database(name: str) -> dict[str, Any] | None:
    """Return Django's settings of the database that NAME (or NAME_FILE) describes; None if unset.

    Never repeats the value: it holds a password.
    """
    url = env_secret(name)
    if url is None:
        return None
    try:
        config = dj_database_url.parse(url, conn_max_age=600, conn_health_checks=True)
    except ValueError:
        config = {}
    if config.get("ENGINE") != _POSTGRESQL or not config.get("NAME"):
        raise SettingError(
            _source(name),
            "takes postgresql://user:password@host:port/name; percent-encode what is special in the"
            " password.",
        ) from None
    return dict(config)


_POSTGRESQL = "django.db.backends.postgresql"


def _source(name: str) -> str:
    """Return the variable that the secret NAME comes from."""
    return f"{name}_FILE" if f"{name}_FILE" in os.environ else name


_BROKER_FORMS = (
    "takes redis://:password@host:port/0, rediss:// for TLS, redis+socket:///path/to.sock, or"
    " amqp://user:password@host:port/name, several of them with ; between; percent-encode what is"
    " special in the password"
)
_REMOTE_BROKERS = {"redis", "rediss", "amqp", "amqps", "pyamqp"}


def env_broker(name: str) -> str | None:
    """Return the address of the broker that NAME (or the file that NAME_FILE names) gives; None if unset.

    Never repeats the value: it holds a password.
    """
    url = env_secret(name)
    if url is None:
        return None
    if not all(_is_broker(one) for one in url.split(";")):
        raise SettingError(_source(name), f"{_BROKER_FORMS}.")
    return url


def _is_broker(url: str) -> bool:
    try:
        split = urlsplit(url)
        port = split.port
    except ValueError:
        return False
    if split.scheme == "redis+socket":
        return len(split.path) > 1 and not split.hostname
    is_known = split.scheme in _REMOTE_BROKERS and bool(split.hostname) and port != 0
    # Of Redis the path is the number of a database.
    database = split.path.strip("/")
    return is_known and (
        not split.scheme.startswith("redis") or not database or database.isdecimal()
    )


class MailServer(NamedTuple):
    """Where e-mail is handed over; without a host it is not."""

    host: str
    port: int
    user: str
    password: str
    scheme: str


_MAIL_PORTS = {"smtps": 465, "smtp+starttls": 587, "smtp": 25}
_LOOPBACK = {"localhost", "127.0.0.1", "::1"}


def env_mail_server(name: str) -> MailServer:
    """Return the mail server that NAME (or the file that NAME_FILE names) describes.

    Never repeats the value: it holds a password.
    """
    url = env_secret(name)
    if url is None:
        return MailServer("", 25, "", "", "smtp")
    try:
        split = urlsplit(url)
        port = split.port or _MAIL_PORTS[split.scheme]
    except (ValueError, KeyError):
        raise SettingError(_source(name), f"{_MAIL_FORMS}.") from None
    if not split.hostname or split.path.strip("/") or split.query or split.fragment:
        raise SettingError(_source(name), f"{_MAIL_FORMS}.")
    if split.scheme == "smtp" and split.password and split.hostname not in _LOOPBACK:
        raise SettingError(
            _source(name),
            "would send its password in the clear; use smtps:// or smtp+starttls://.",
        )
    return MailServer(
        split.hostname,
        port,
        unquote(split.username or ""),
        unquote(split.password or ""),
        split.scheme,
    )


_MAIL_FORMS = (
    "takes smtps://user:password@host, smtp+starttls://user:password@host or smtp://host, each with"
    " or without :port; percent-encode what is special in the password"
)
