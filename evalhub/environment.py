"""Environment variables, each read with an error that names it and says what it takes."""

import os
from collections.abc import Collection
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

_TRUE, _FALSE = {"1", "true", "yes", "on"}, {"0", "false", "no", "off", ""}


def env_text(name: str, default: str) -> str:
    return os.environ.get(name, default)


def env_choice(name: str, default: str, *, among: Collection[str]) -> str:
    text = env_text(name, default)
    if text not in among:
        raise ImproperlyConfigured(f"{name} is {text!r}; it takes {' or '.join(among)}.")
    return text


def env_list(name: str, default: str) -> list[str]:
    return [part.strip() for part in env_text(name, default).split(",") if part.strip()]


def env_bool(name: str, *, default: bool) -> bool:
    text = os.environ.get(name)
    if text is None:
        return default
    if text.lower() in _TRUE | _FALSE:
        return text.lower() in _TRUE
    raise ImproperlyConfigured(f"{name} is {text!r}; it takes true or false.")


def env_int(name: str, default: int, *, least: int) -> int:
    text = os.environ.get(name)
    if text is None:
        return default
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if value < least:
        raise ImproperlyConfigured(f"{name} is {text!r}; it takes a whole number from {least}.")
    return value


def env_secret(name: str) -> str | None:
    """Return the secret in NAME, or in the file that NAME_FILE names; None if neither is set."""
    path = os.environ.get(f"{name}_FILE")
    if path is None:
        return os.environ.get(name) or None
    try:
        return Path(path).read_text().strip() or None
    except OSError as error:
        raise ImproperlyConfigured(
            f"{name}_FILE is {path!r}, which cannot be read: {error.strerror}."
        ) from error
