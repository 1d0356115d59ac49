"""Each program serves, keeps what it must when it is started again, and leaves nothing behind."""

import io
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from redis import Redis

from evalhub.supervisor.programs import Program
from evidence.store.storage import S3Store
from tests.programs.postgres import PostgresServer
from tests.programs.processes import descendants, survivors, wait_for
from tests.programs.redis import RedisServer
from tests.programs.s3 import S3Server
from tests.programs.server import ROOT, Server

pytestmark = pytest.mark.slow


@pytest.fixture
def postgres(tmp_path: Path) -> Iterator[PostgresServer]:
    with PostgresServer(tmp_path, tcp=True, durable=True) as server:
        yield server


def test_postgres_keeps_what_was_committed_when_it_is_killed(postgres: PostgresServer) -> None:
    with psycopg.connect(postgres.url) as connection:
        connection.execute("CREATE TABLE kept (id integer)")

    postgres.kill()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(postgres.url, connect_timeout=2)
    postgres.start()

    with psycopg.connect(postgres.url) as connection:
        assert connection.execute("SELECT count(*) FROM kept").fetchone() == (0,)
        (version,) = connection.execute("SHOW server_version_num").fetchone() or ("",)
    assert version.startswith("18")
    assert list(postgres.folder.iterdir()) == [postgres.log]


def test_postgres_makes_further_databases(postgres: PostgresServer) -> None:
    url = postgres.create_database("second one")

    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT current_database()").fetchone() == ("second one",)


def test_redis_forgets_when_it_is_started_again(tmp_path: Path) -> None:
    with RedisServer(tmp_path) as server, Redis(port=server.port) as client:
        client.set("message", "hint")
        server.restart()
        kept = client.get("message")

    assert kept is None
    assert not server.is_running


def test_s3_keeps_its_objects_when_it_is_started_again(tmp_path: Path) -> None:
    with S3Server(tmp_path) as server:
        store = S3Store(server.place)
        store.put("a/b", io.BytesIO(b"text"))
        server.restart()

        assert list(store.keys()) == ["a/b"]
        assert store.read_range("a/b", offset=0, length=9) == b"text"


class _Stubborn(Server):
    """A program with a child in another session, that hears no signal to stop."""

    stop_seconds = 0.5

    def program(self) -> Program:
        source = (
            "import signal, subprocess, sys, time\n"
            "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
            "subprocess.Popen(['sleep', '300'], start_new_session=True)\n"
            "print('ready', flush=True)\n"
            "time.sleep(300)\n"
        )
        return Program("stubborn", [sys.executable, "-c", source], signal.SIGKILL)

    def is_ready(self) -> bool:
        return self.said == "ready\n"


def test_program_that_does_not_listen_is_killed_with_its_children(tmp_path: Path) -> None:
    with _Stubborn(tmp_path, name="stubborn") as server:
        family = descendants(server.process.pid)

    assert len(family) == 1
    assert survivors(family) == []
    assert server.process.returncode == -signal.SIGKILL


class _Broken(Server):
    def program(self) -> Program:
        return Program("broken", [sys.executable, "-c", "raise SystemExit('no such port')"])

    def is_ready(self) -> bool:
        return False


def test_program_that_ends_at_once_tells_its_last_words(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="broken did not start:\nno such port"):
        _Broken(tmp_path, name="broken").start()


class _Absent(Server):
    def program(self) -> Program:
        return Program("absent", [str(self.folder / "weed")])

    def is_ready(self) -> bool:
        return True


def test_program_that_is_not_installed_is_named_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"^There is no .*/weed: run `make setup`"):
        _Absent(tmp_path, name="absent").start()


def test_program_that_runs_is_not_started_twice(tmp_path: Path) -> None:
    with RedisServer(tmp_path) as server, pytest.raises(RuntimeError, match="runs already"):
        server.start()


def test_killed_test_process_leaves_no_server(tmp_path: Path) -> None:
    source = (
        "import pathlib, sys, time\n"
        "from tests.programs.postgres import PostgresServer\n"
        "from tests.programs.redis import RedisServer\n"
        "folder = pathlib.Path(sys.argv[1])\n"
        "servers = RedisServer(folder).start(), PostgresServer(folder).start()\n"
        "print(servers[1].cluster, flush=True)\n"
        "time.sleep(300)\n"
    )
    command = [sys.executable, "-c", source, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as tests:
        assert tests.stdout is not None
        cluster = Path(tests.stdout.readline().strip())
        family = descendants(tests.pid)
        tests.kill()
        tests.wait()

    assert {"redis-server", "postgres"} <= {Path(p.command.split()[0]).name for p in family}
    assert wait_for(lambda: survivors(family) == [], 20), survivors(family)
    assert cluster.name.startswith("evalhub-postgres-")
