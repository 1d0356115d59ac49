"""How a line of the log is written, for people or as JSON: one line each, without secrets.

What comes from outside (an address, a message of a library) can neither begin a line of its own nor
reach a terminal as a control character.
"""

import json
import logging
import re
from datetime import UTC, datetime
from typing import Any

from pythonjsonlogger.core import RESERVED_ATTRS
from pythonjsonlogger.json import JsonFormatter as LibraryFormatter

from evalhub.tasks import trail

# Django and Celery hand over whole objects, which say more than a log should keep.
_NOT_SHOWN = frozenset({"request", "server_time", "data", "taskName"})
_PLAIN = re.compile(r"[\w.:/@+%~,-]+", re.ASCII)
# However often it is written, or percent-encoded: the link that is meant is good all the same.
_SLASHES = r"(?:/|%2f)+"
_SECRETS = (
    # Our tokens: what is kept of them is the prefix that pages show too.
    (re.compile(r"\b(ev[hl]_[\w-]{4})[\w-]{8,}", re.ASCII), r"\1***"),
    # The link that signs in is itself the secret.
    (
        re.compile(rf"({_SLASHES}sign-in{_SLASHES}link{_SLASHES})[^/%\s\"'?#\\]+", re.IGNORECASE),
        r"\1***",
    ),
    # What CI signs for a job: whoever has it first may exchange it.
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]{8,}(\.[\w-]*)?", re.ASCII), "eyJ***"),
    # As is the address of a feed.
    (re.compile(r"([?&](?:key|token|secret)=)[^&\s\"'\\]+"), r"\1***"),
    # The password in the address of a database or broker.
    (re.compile(r"(://[^/\s\"'@:]*:)[^/\s\"'@]+@"), r"\1***@"),
)


def bind_plan(digest: str) -> None:
    """Name the plan in every further line of the present request or task."""
    trail.bind(plan=digest)


class JsonFormatter(LibraryFormatter):
    """One JSON object a line; a traceback is one field of it."""

    def __init__(self) -> None:
        super().__init__(
            ["message"],
            rename_fields={"exc_info": "traceback", "stack_info": "stack"},
            reserved_attrs=[*RESERVED_ATTRS, *_NOT_SHOWN],
        )

    def process_log_record(self, log_data: dict[str, Any]) -> dict[str, Any]:
        return super().process_log_record({**log_data, **trail.current()})

    def add_fields(
        self, log_data: dict[str, Any], record: logging.LogRecord, message_dict: dict[str, Any]
    ) -> None:
        log_data["time"] = _moment(record)
        log_data["level"], log_data["logger"] = record.levelname, record.name
        super().add_fields(log_data, record, message_dict)

    def format(self, record: logging.LogRecord) -> str:
        return without_secrets(super().format(record))


class LineFormatter(logging.Formatter):
    """Time, level, logger, message, then what it belongs to; a traceback follows, set in."""

    def format(self, record: logging.LogRecord) -> str:
        head = f"{_moment(record)} {record.levelname} {record.name}:"
        names = {**_extras(record), **trail.current()}
        shown = [f"{name}={_quoted(value)}" for name, value in names.items()]
        lines = [" ".join([head, _printable(record.getMessage()), *shown])]
        if record.exc_info:
            lines += _set_in(self.formatException(record.exc_info))
        if record.stack_info:
            lines += _set_in(record.stack_info)
        return without_secrets("\n".join(lines))


class Foreseen(logging.Filter):
    """Make one warning of what strangers can cause at will, such as a request for a foreign host.

    Django logs these as errors, each with a traceback that says nothing about this server.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name.startswith("django.security."):
            record.levelno, record.levelname = logging.WARNING, "WARNING"
            record.exc_info = record.exc_text = None
        return True


def without_secrets(text: str) -> str:
    """Return a text with tokens, sign-in links and passwords of addresses made unreadable.

    >>> without_secrets("GET /sign-in/link/Zm9v/ of redis://:hunter2@host/0")
    'GET /sign-in/link/***/ of redis://:***@host/0'
    """
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return text


def _moment(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
    return moment.replace("+00:00", "Z")


def _extras(record: logging.LogRecord) -> dict[str, Any]:
    hidden = {*RESERVED_ATTRS, *_NOT_SHOWN}
    return {name: value for name, value in vars(record).items() if name not in hidden}


def _quoted(value: object) -> str:
    text = str(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text)


def _set_in(text: str) -> list[str]:
    # The first character tells that it goes on: no message can begin a line that looks like one.
    return [f"  | {_printable(line)}" for line in text.splitlines()]


def _printable(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
