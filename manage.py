#!/usr/bin/env python
"""Django's command line for the server."""

import argparse
import os
import sys

from django.core.management import execute_from_command_line


def _data_directory() -> str | None:
    """Return what `--data` names: settings make the data directory, so they must know it first."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--data")
    known, _ = parser.parse_known_args(sys.argv[1:])
    data: str | None = known.data
    return data


if __name__ == "__main__":
    data = _data_directory()
    if data is not None:
        os.environ["EVALHUB_DATA"] = data
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "evalhub.settings")
    execute_from_command_line(sys.argv)
