"""Which real programs serve a test session, for the head of its report."""

import re
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path

from django.conf import settings

from evalhub.supervisor.errors import UpError
from evalhub.supervisor.programs import broker
from tests.browser.find_chromium import candidates
from tests.programs.postgres import installed_programs
from tests.programs.s3 import weed


def report() -> list[str]:
    """Return what the database of the session is, and what the tests can start."""
    is_postgres = settings.DATABASES["default"]["ENGINE"] == "django.db.backends.postgresql"
    postgres = _version("PostgreSQL", lambda: installed_programs() / "postgres")
    started = [
        _version("Redis", lambda: Path(broker(Path("redis.sock")).command[0])),
        _version("SeaweedFS", weed, question="version"),
        _version("Chromium", chromium),
    ]
    if is_postgres:
        return [f"database: {postgres}", f"programs: {', '.join(started)}"]
    return [
        f"database: SQLite {sqlite3.sqlite_version}",
        f"programs: {', '.join([postgres, *started])}",
    ]


def chromium() -> Path:
    """Return the browser that the browser tests try first.

    Raises:
        RuntimeError: if there is none.
    """
    path = next(iter(candidates()), None)
    if path is None:
        raise RuntimeError("There is no Chromium: run `make chromium`.")
    return path


def _version(name: str, program: Callable[[], Path], *, question: str = "--version") -> str:
    try:
        path = program()
    except (RuntimeError, UpError) as error:
        return f"no {name} ({error})"
    try:
        answer = subprocess.run(
            [path, question], capture_output=True, text=True, timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return f"no {name} ({path} does not run: `make setup` installs it)"
    found = re.search(r"\d+(\.\d+)+", answer.stdout)
    return f"{name} {found.group() if found else answer.stdout.strip()}"
