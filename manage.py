#!/usr/bin/env python
"""Django's command line for the server."""

import argparse
import os
import sys

from django.core.management import execute_from_command_line
from django.db import DatabaseError

from evalhub.doctor import report
from evalhub.environment import SettingError

SETTINGS = "evalhub.settings"


def _data_directory() -> str | None:
    """Return what `--data` names: settings make the data directory, so they must know it first."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--data")
    known, _ = parser.parse_known_args(sys.argv[1:])
    data: str | None = known.data
    return data


def _make_folder_of_database() -> None:
    """Make the folder that SQLite's file is to lie in: SQLite makes the file alone."""
    from evalhub import settings

    if settings.DATABASE_FILE is None:
        return
    folder = settings.DATABASE_FILE.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        sys.exit(f"{folder} cannot be made ({error.strerror}); name another place in EVALHUB_DATA.")


def _unreadable_settings() -> list[str]:
    """Return a sentence for each setting that cannot be read, all of them and not only the first."""
    environment, sentences = dict(os.environ), []
    try:
        while True:
            try:
                from evalhub import settings  # noqa: F401
            except SettingError as error:
                sentences.append(str(error))
                # As if it were not set: the next import comes further.
                del os.environ[error.variable]
            else:
                return sentences
    finally:
        os.environ.update(environment)


def _lacks_migrations() -> bool:
    """Say whether the database answers, but has not all tables of this release."""
    from evalhub.web import database

    try:
        return bool(database.unapplied_migrations())
    except DatabaseError:
        return False


if __name__ == "__main__":
    data = _data_directory()
    if data is not None:
        os.environ["EVALHUB_DATA"] = data
    if os.environ.setdefault("DJANGO_SETTINGS_MODULE", SETTINGS) == SETTINGS:
        unreadable = _unreadable_settings()
        if unreadable and sys.argv[1:2] == ["doctor"]:
            sys.exit(report.of_unreadable_settings(unreadable, as_json="--json" in sys.argv))
        if unreadable:
            sys.exit("\n".join(unreadable))
        if sys.argv[1:2] == ["migrate"]:
            _make_folder_of_database()
    try:
        execute_from_command_line(sys.argv)
    except DatabaseError as error:
        from django.conf import settings

        if _lacks_migrations():
            sys.exit(
                f"The tables of {settings.DATA_DIR} are not those of this release yet ({error}): wait"
                " until `manage.py up` says that it is ready, or run `manage.py migrate`."
            )
        sys.exit(
            f"The database of {settings.DATA_DIR} did not answer as expected ({error}). If evalhub runs"
            " on another data directory, name it in EVALHUB_DATA; if this one is new, run"
            " `manage.py migrate`, or `manage.py up`, which does."
        )
