"""What was found: one sentence each about one subject, and how to mend it."""

from enum import StrEnum
from typing import NamedTuple

from evalhub.web.logs import without_secrets


class Level(StrEnum):
    OK = "ok"
    WARNING = "warning"
    """It works, and will not for ever or for everybody; or it could not be looked at."""
    WRONG = "wrong"


class Finding(NamedTuple):
    """One thing that was looked at."""

    subject: str
    level: Level
    sentence: str
    fix: str = ""


def ok(subject: str, sentence: str) -> Finding:
    return Finding(subject, Level.OK, sentence)


def warning(subject: str, sentence: str, *, fix: str) -> Finding:
    return Finding(subject, Level.WARNING, sentence, fix)


def wrong(subject: str, sentence: str, *, fix: str) -> Finding:
    return Finding(subject, Level.WRONG, sentence, fix)


def said(words: object) -> str:
    """Return what somebody else said, as the end of a sentence: one line, without secrets."""
    text = without_secrets(" ".join(str(words).split()))
    return f"{(text or type(words).__name__).rstrip('.')}."
