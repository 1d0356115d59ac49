"""Runs as real processes: nothing of an agent outlives its run, nor the lane that started it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from evalhub.runner.processes import GuardianLostError, RunEnd, RunProcess
from tests.evalhub.runner.alive import eventually, is_alive, number_in

pytestmark = pytest.mark.slow

# Leaves a process behind that has a session of its own, as a daemon has.
DAEMON = "setsid sh -c 'echo $$ > daemon.tmp; mv daemon.tmp daemon.pid; exec sleep 300' &"


@pytest.fixture
def lines() -> list[bytes]:
    return []


@pytest.fixture
def shell(tmp_path: Path, lines: list[bytes]) -> Iterator[type[RunProcess]]:
    """Return a way to start a shell script in the test's folder."""
    started: list[RunProcess] = []

    class Shell(RunProcess):
        def __init__(self, script: str) -> None:
            environment = {"PATH": os.environ["PATH"]}
            command = ["sh", "-c", f"cd {tmp_path}; {script}"]
            super().__init__(command, environment=environment, on_line=lines.append)
            started.append(self)

    yield Shell
    for process in started:
        process.end()


def test_run_reports_its_exit_code_and_its_output(shell: type, lines: list[bytes]) -> None:
    end = shell("echo out; echo err >&2; printf unfinished; exit 3").wait(20)

    assert end == RunEnd(started=True, exit_code=3)
    assert lines == [b"out", b"err", b"unfinished"]


def test_run_reports_the_signal_that_ended_it(shell: type) -> None:
    assert shell("kill -SEGV $$").wait(20) == RunEnd(started=True, exit_code=-signal.SIGSEGV)


def test_run_reports_that_the_command_is_not_there() -> None:
    process = RunProcess(["/nowhere/agent"], environment={}, on_line=lambda _: None)

    assert process.wait(20) == RunEnd(
        started=False, exit_code=None, error="No such file or directory"
    )


def test_run_sees_exactly_the_environment_that_it_is_given(lines: list[bytes]) -> None:
    process = RunProcess(["/usr/bin/env"], environment={"ONLY": "this"}, on_line=lines.append)

    process.wait(20)

    # C.UTF-8 coercion of the guardian's own interpreter is the one thing that may be added.
    assert [line for line in lines if not line.startswith(b"LC_CTYPE=")] == [b"ONLY=this"]


def test_a_line_without_end_is_kept_up_to_a_word(shell: type, lines: list[bytes]) -> None:
    # A secret stands across the place where the line is cut.
    words = (
        "head -c 65500 /dev/zero | tr '\\0' x; printf ' sk-%s' abcdefghijklmnopqrstuvwxyz0123456789"
    )
    shell(f"{words}; head -c 300000 /dev/zero | tr '\\0' y; echo; echo after").wait(20)

    assert lines == [b"x" * 65_500 + b" (the rest of this line is not kept)", b"after"]


def test_a_line_of_one_endless_word_is_bounded(shell: type, lines: list[bytes]) -> None:
    shell("head -c 300000 /dev/zero | tr '\\0' x").wait(20)

    (line,) = lines
    assert line == b"x" * (60 * 1024) + b" (the rest of this line is not kept)"


def test_wait_returns_none_while_the_command_runs(shell: type) -> None:
    process = shell("sleep 300")

    assert process.wait(0.05) is None


def test_nothing_that_a_run_started_outlives_it(shell: type, tmp_path: Path) -> None:
    process = shell(f"{DAEMON} while [ ! -e daemon.pid ]; do sleep 0.01; done; exit 0")

    assert process.wait(20) == RunEnd(started=True, exit_code=0)
    assert not is_alive(number_in(tmp_path / "daemon.pid"))


def test_end_kills_an_agent_that_does_not_listen(shell: type, tmp_path: Path) -> None:
    process = shell(f"{DAEMON} trap '' TERM; echo $$ > agent.pid; while true; do sleep 1; done")
    pids = [number_in(tmp_path / name) for name in ("agent.pid", "daemon.pid")]

    begun = time.monotonic()
    process.end()

    assert [pid for pid in pids if is_alive(pid)] == []
    # The agent had its two seconds to write what it knows.
    assert time.monotonic() - begun >= 1.5


def test_end_lets_an_agent_write_what_it_knows(shell: type, tmp_path: Path) -> None:
    process = shell(
        "trap 'echo late > last.txt; exit 0' TERM; echo $$ > agent.pid; "
        "while true; do sleep 0.05; done"
    )
    number_in(tmp_path / "agent.pid")

    process.end()

    assert (tmp_path / "last.txt").read_text() == "late\n"


def test_killing_the_guardian_kills_the_agent(shell: type, tmp_path: Path) -> None:
    process = shell("echo $$ > agent.pid; exec sleep 300")
    agent = number_in(tmp_path / "agent.pid")
    guardian = int(Path(f"/proc/{agent}/stat").read_text().rsplit(")", 1)[1].split()[1])

    os.kill(guardian, signal.SIGKILL)

    with pytest.raises(GuardianLostError, match="without a report"):
        process.wait(20)
    assert eventually(lambda: not is_alive(agent))


def test_killing_the_lane_kills_agent_and_daemon(tmp_path: Path) -> None:
    script = f"cd {tmp_path}; {DAEMON} echo $$ > agent.pid; exec sleep 300"
    program = (
        "from evalhub.runner.processes import RunProcess\n"
        f"process = RunProcess(['sh', '-c', {script!r}], environment={{'PATH': '/usr/bin:/bin'}},"
        " on_line=print)\n"
        "process.wait(300)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program]) as lane:
        pids = [number_in(tmp_path / name) for name in ("agent.pid", "daemon.pid")]
        assert all(map(is_alive, pids))

        lane.kill()

    assert eventually(lambda: not any(map(is_alive, pids)))
