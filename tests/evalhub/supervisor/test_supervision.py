"""Restart with back-off, giving up, stopping: with small real programs."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from evalhub.supervisor.directory import claim_data_directory
from evalhub.supervisor.errors import StoppedError, UpError
from evalhub.supervisor.programs import Program, broker, web, worker
from evalhub.supervisor.supervision import Supervisor, blocked_signals, restart_pause
from tests.programs.processes import Process, descendants, survivors, wait_for

pytestmark = pytest.mark.slow

Said = list[str]


@pytest.fixture
def said() -> Said:
    return []


@pytest.fixture
def supervisor(tmp_path: Path, said: Said) -> Iterator[Supervisor]:
    with blocked_signals():
        directory = claim_data_directory(tmp_path / "data")
        supervisor = Supervisor(
            environment=dict(os.environ),
            logs=directory.logs,
            folder=tmp_path,
            lock=directory.lock,
            say=said.append,
        )
        yield supervisor
        supervisor.stop()
        os.close(directory.lock)


def python(name: str, source: str) -> Program:
    return Program(name, [sys.executable, "-c", source])


def watch(supervisor: Supervisor, seconds: float) -> None:
    """Let it look often: another thread of the test process may take the news of a child's end."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        supervisor.watch(0.2)


@pytest.fixture
def own_family() -> Callable[[], set[Process]]:
    """Return the children that this test has made: other tests of the session keep servers too."""
    strangers = descendants(os.getpid())
    return lambda: descendants(os.getpid()) - strangers


@pytest.mark.parametrize(
    ("ages", "pause"),
    [
        ([0.0], 0.5),
        ([1.0, 0.0], 1.0),
        ([3.0, 2.0, 1.0, 0.0], 4.0),
        ([4.0, 3.0, 2.0, 1.0, 0.0], None),
        # What lies more than a minute back counts no more.
        ([300.0, 200.0, 100.0, 61.0, 0.0], 0.5),
    ],
)
def test_restart_pause_doubles_then_gives_up(ages: list[float], pause: float | None) -> None:
    assert restart_pause([1000.0 - age for age in ages], at=1000.0) == pause


def test_run_returns_what_was_printed(supervisor: Supervisor) -> None:
    assert supervisor.run(python("greeting", "print('hello')")) == "hello\n"


def test_run_that_fails_says_why(supervisor: Supervisor) -> None:
    with pytest.raises(UpError, match=r"`migrate` failed: ValueError: no such table"):
        supervisor.run(python("migrate", "raise ValueError('no such table')"))


def test_program_that_crashes_is_started_again(
    supervisor: Supervisor, said: Said, tmp_path: Path
) -> None:
    source = (
        "import pathlib, sys, time\n"
        "marks = pathlib.Path('marks')\n"
        "marks.open('a').write('x')\n"
        "sys.exit(7) if len(marks.read_text()) < 2 else time.sleep(60)\n"
    )

    supervisor.keep(python("web", source))
    watch(supervisor, 2.5)

    assert (tmp_path / "marks").read_text() == "xx"
    assert said == ["`web` ended with code 7; it starts again in 0.5 s."]


def test_program_that_always_crashes_ends_it_with_the_reason(
    supervisor: Supervisor, said: Said
) -> None:
    supervisor.first_pause_seconds = 0.05
    supervisor.keep(python("worker", "raise SystemExit('the broker refused the password')"))

    with pytest.raises(UpError) as refusal:
        watch(supervisor, 60)

    assert "`worker` ended 5 times within a minute, the last time with code 1" in str(refusal.value)
    assert "the broker refused the password" in str(refusal.value)
    assert len(said) == 4


def test_stop_signal_ends_the_watch_and_stop_ends_the_programs(
    supervisor: Supervisor, own_family: Callable[[], set[Process]]
) -> None:
    supervisor.keep(python("web", "import time; time.sleep(60)"))
    family = own_family()
    signal.raise_signal(signal.SIGTERM)

    with pytest.raises(StoppedError):
        supervisor.watch(30)
    supervisor.stop()

    assert len(family) == 1
    assert survivors(family) == []


def test_stop_kills_what_does_not_listen_after_a_second_signal(
    supervisor: Supervisor, tmp_path: Path, own_family: Callable[[], set[Process]]
) -> None:
    source = (
        "import pathlib, signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "pathlib.Path('deaf').touch()\n"
        "time.sleep(60)\n"
    )
    supervisor.keep(python("deaf", source))
    assert wait_for((tmp_path / "deaf").exists, 10)
    family = own_family()
    signal.raise_signal(signal.SIGINT)

    started = time.monotonic()
    supervisor.stop()

    assert time.monotonic() - started < 5
    assert survivors(family) == []


def test_grandchildren_end_with_their_program(
    supervisor: Supervisor, tmp_path: Path, own_family: Callable[[], set[Process]]
) -> None:
    source = (
        "import pathlib, subprocess, sys\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "pathlib.Path('begun').touch()\n"
    )
    supervisor.keep(python("parent", source))
    assert wait_for((tmp_path / "begun").exists, 10)
    family = own_family()

    supervisor.watch(0.3)

    assert survivors({process for process in family if "sleep(60)" in process.command}) == []


def test_directory_is_private_and_claimed_once(tmp_path: Path) -> None:
    directory = claim_data_directory(tmp_path / "data")

    with pytest.raises(UpError, match=rf"Another `up` \(process {os.getpid()}\) runs on"):
        claim_data_directory(tmp_path / "data")
    os.close(directory.lock)
    again = claim_data_directory(tmp_path / "data")

    assert directory.run.stat().st_mode & 0o777 == 0o700
    os.close(again.lock)


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        (lambda folder: folder / "file", "cannot be used"),
        (lambda folder: folder / ("d" * 110), "longer than the 107 bytes"),
    ],
)
def test_unusable_directory_is_refused(
    tmp_path: Path, place: Callable[[Path], Path], reason: str
) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(UpError, match=reason):
        claim_data_directory(place(tmp_path))


def test_command_lines_hold_what_keeps_them_safe(tmp_path: Path) -> None:
    redis = broker(tmp_path / "redis.sock")
    served = web(5, threads=7)

    assert redis.command[1:3] == ["--port", "0"]
    assert os.access(redis.command[0], os.X_OK)
    assert redis.serves_others
    assert "--no-control-socket" in served.command
    assert "fd://5" in served.command
    assert served.inherits == (5,)
    assert served.command[served.command.index("--threads") + 1] == "7"
    alone = worker(concurrency=3, with_beat=True)
    assert "-B" in alone.command
    assert alone.command[alone.command.index("-P") :][:4] == ["-P", "threads", "-c", "3"]
    assert "-B" not in worker(concurrency=3, with_beat=False).command
