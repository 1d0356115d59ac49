"""One child process: started so that it cannot outlive this one, ended with all its own children."""

import ctypes
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from evalhub.supervisor.programs import Program

_PR_SET_PDEATHSIG = 1
# Loaded before any fork: the child between fork and exec must not import or allocate much.
_LIBC = ctypes.CDLL(None, use_errno=True)


def start_child(
    program: Program,
    *,
    environment: Mapping[str, str],
    log: BinaryIO,
    shared: Sequence[int] = (),
    output: BinaryIO | None = None,
    folder: Path | None = None,
) -> subprocess.Popen[bytes]:
    """Start `program` in a session of its own, with the descriptors in `shared`.

    Call it from the main thread: the kernel ends the child when the starting *thread* ends.
    """
    return subprocess.Popen(
        program.command,
        env=dict(environment),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=log if output is None else output,
        stderr=log,
        pass_fds=(*shared, *program.inherits),
        start_new_session=True,
        # Safe here: the supervisor has one thread only.
        preexec_fn=_tied_to_parent(program.death_signal),  # noqa: PLW1509
    )


def _tied_to_parent(death_signal: signal.Signals) -> Callable[[], None]:
    parent = os.getpid()

    def prepare() -> None:
        # The supervisor waits for its signals blocked; its children must hear theirs.
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        _LIBC.prctl(_PR_SET_PDEATHSIG, death_signal, 0, 0, 0)
        # It may have died between fork and prctl: then no signal would ever come.
        if os.getppid() != parent:
            os._exit(1)

    return prepare


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill whatever is left of the child's session, its own children included, and reap it."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
