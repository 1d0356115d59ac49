"""Gunicorn's own lines, in the form of all others; also those of its master, which runs no Django."""

import logging.config
import os
from typing import Any

from django.conf import settings
from gunicorn.glogging import Logger

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "evalhub.settings")


class GunicornLogger(Logger):  # type: ignore[misc]
    """`gunicorn --logger-class evalhub.web.gunicorn_log.GunicornLogger`."""

    def setup(self, cfg: Any) -> None:
        """Set gunicorn's loggers up, then take its handlers away in favor of the settings'."""
        super().setup(cfg)
        logging.config.dictConfig(settings.LOGGING)
