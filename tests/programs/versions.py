"""Which real programs serve a test session, for the head of its report."""

import re
import sqlite3
import subprocess
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
    postgres = _version("PostgreSQL", installed_programs() / "postgres", "--version")
    database = postgres if is_postgres else f"SQLite {sqlite3.sqlite_version}"
    others = ["" if is_postgres else postgres, _redis(), _s3(), _browser()]
    return [f"database: {database}", f"real programs: {', '.join(filter(None, others))}"]


def _redis() -> str:
    try:
        program, *_ = broker(Path("redis.sock")).command
    except UpError as error:
        return f"no Redis ({error})"
    return _version("Redis", Path(program), "--version")


def _s3() -> str:
    return _version("SeaweedFS", weed(), "version")


def _browser() -> str:
    path = next(iter(candidates()), None)
    return "no Chromium (run `make chromium`)" if path is None else _version("Chromium", path)


def _version(name: str, program: Path, question: str = "--version") -> str:
    try:
        answer = subprocess.run(
            [program, question], capture_output=True, text=True, timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"no {name} ({error}; run `make setup`)"
    found = re.search(r"\d+(\.\d+)+", answer.stdout)
    return f"{name} {found.group() if found else answer.stdout.strip()}"
