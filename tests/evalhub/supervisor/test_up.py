"""`manage.py up` with real processes: however it ends, nothing is left."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.programs.evalhub import Up, clean_environment, health
from tests.programs.processes import descendants, survivors, wait_for
from tests.programs.redis import RedisServer
from tests.programs.server import ROOT, free_port

pytestmark = [pytest.mark.journey, pytest.mark.enable_socket]


@pytest.fixture(scope="module")
def kept_up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    up = Up(tmp_path_factory.mktemp("up") / "data")
    yield up
    up.stop()


@pytest.fixture
def up(kept_up: Up) -> Up:
    """Return one that runs: the one before it where a test has left it running."""
    return kept_up if kept_up.is_running else kept_up.start()


def run_up(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "manage.py", "up", *arguments],
        cwd=ROOT,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_kill_9_leaves_nothing_and_the_next_start_works(up: Up) -> None:
    # Two of each: gunicorn and its worker, celery and its beat.
    family = up.wait_for_family("gunicorn", "celery")
    assert any("redis-server" in process.command for process in family)

    up.process.send_signal(signal.SIGKILL)
    up.process.wait()
    up.start()

    assert survivors(family) == []
    assert health(up.url) == "ok\n"


@pytest.mark.parametrize("stop_signal", [signal.SIGTERM, signal.SIGINT])
def test_stop_signal_leaves_nothing(up: Up, stop_signal: signal.Signals) -> None:
    family = up.wait_for_family("gunicorn", "celery")

    up.process.send_signal(stop_signal)

    assert up.process.wait(30) == 0
    assert survivors(family) == []
    assert "evalhub has stopped." in up.said
    assert "Traceback" not in up.said


def test_signal_while_starting_leaves_nothing(tmp_path: Path) -> None:
    up = Up(tmp_path / "data")
    up.launch()
    wait_for(lambda: bool(descendants(up.process.pid)), 30)
    family = descendants(up.process.pid)

    up.process.send_signal(signal.SIGINT)

    assert up.process.wait(30) == 0
    assert family
    assert survivors(family) == []


def test_running_up_keeps_its_place(up: Up) -> None:
    family = up.wait_for_family("gunicorn", "celery")

    same_data = run_up("--port", str(free_port()), "--data", str(up.data))
    same_port = run_up("--port", str(up.port), "--data", str(up.data.parent / "other"))

    assert same_data.returncode == same_port.returncode == 1
    assert same_data.stderr == (
        f"CommandError: Another `up` (process {up.process.pid}) runs on {up.data}; "
        "stop it, or choose another directory with --data.\n"
    )
    assert (
        f"Port {up.port} on 127.0.0.1 cannot be used (Address already in use)" in same_port.stderr
    )
    assert same_port.stderr.count("\n") == 1
    assert not (up.data.parent / "other").exists()
    assert len(survivors(family)) == len(family)


def test_killed_programs_are_started_again_with_their_children(up: Up) -> None:
    family = up.wait_for_family("gunicorn", "celery")
    direct = {process for process in family if process.parent == up.process.pid}
    assert len(direct) == 3

    for process in direct:
        subprocess.run(["kill", "-9", str(process.pid)], check=True)

    assert wait_for(lambda: up.said.count("it starts again in") == 3, 20)
    assert wait_for(lambda: survivors(family) == [], 20)
    up.wait_for_family("gunicorn", "celery")
    assert wait_for(lambda: health(up.url) == "ok\n", 30)


def test_named_broker_means_no_redis_of_our_own(tmp_path: Path) -> None:
    with (
        RedisServer(tmp_path / "redis") as redis,
        Up(tmp_path / "data", **redis.environment) as up,
    ):
        family = up.wait_for_family("gunicorn", "celery")

    assert not any("redis-server" in process.command for process in family)
