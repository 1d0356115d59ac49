"""Gunicorn's own lines, in the form of all others; also those of its master, which runs no Django."""

import logging.config
import os
import re
import sys
from typing import Any

from django.conf import settings
from gunicorn.glogging import Logger

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "evalhub.settings")
_INVALID_REQUEST = re.compile(r"(Invalid request from ip=\S*): .*", re.DOTALL)


class GunicornLogger(Logger):  # type: ignore[misc]
    """`gunicorn --logger-class evalhub.web.gunicorn_log.GunicornLogger`."""

    def setup(self, cfg: Any) -> None:
        """Set gunicorn's loggers up, then take its handlers away in favor of the settings'."""
        super().setup(cfg)
        logging.config.dictConfig(settings.LOGGING)

    def warning(self, msg: str, *args: Any, **kwargs: Any) -> None:
        """Write a warning; of a request that cannot be parsed, what is wrong with it alone."""
        super().warning(without_quoted_request(msg, sys.exc_info()[1]), *args, **kwargs)


def without_quoted_request(message: str, error: BaseException | None) -> str:
    """Return a message of gunicorn's without the header or line that it quotes.

    A malformed header may hold any credential, also one whose shape nobody here knows.

    >>> without_quoted_request("Invalid request from ip=::1: Invalid HTTP Header: 'hunter2'", None)
    'Invalid request from ip=::1'
    """
    found = _INVALID_REQUEST.fullmatch(message)
    if found is None:
        return message
    return f"{found[1]}: {type(error).__name__}" if error is not None else found[1]
