"""Stands between a lane and one run of the agent: whatever ends, nothing of the agent outlives it.

Run as a program of its own (`python -I -S guardian.py PARENT STATUS_FD COMMAND…`) with the agent's
environment, so it imports nothing but the standard library and nothing of evalhub. It

- ends with its parent, however the parent ends (PR_SET_PDEATHSIG), and then kills the agent;
- adopts what the agent leaves behind (PR_SET_CHILD_SUBREAPER) and kills that too, so that no run
  meets a process of the run before it;
- writes one JSON line to STATUS_FD: how the command ended, or why it could not start.
"""

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import time

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_GRACE_SECONDS = 2.0
_POLL_SECONDS = 0.02
_SHELL_CANNOT_START = 127


def main(argv: list[str]) -> int:
    """Run the command of `argv` to its end and report it; see the module."""
    parent, status, command = int(argv[0]), int(argv[1]), argv[2:]
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.setsid()
    libc = _libc()
    if libc is not None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    if os.getppid() != parent:
        return 1
    try:
        report = _run(command, libc)
    except SystemExit:
        kill_descendants()
        raise
    kill_descendants()
    os.write(status, json.dumps(report).encode() + b"\n")
    return 0


def _end(signum: int, frame: object) -> None:
    raise SystemExit(128 + signum)


def _libc() -> ctypes.CDLL | None:
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        _ = libc.prctl
    except (AttributeError, OSError):
        return None
    return libc


def _run(command: list[str], libc: ctypes.CDLL | None) -> dict[str, object]:
    def die_with_guardian() -> None:
        if libc is not None:
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)

    try:
        # One thread only, so the hook cannot meet a lock that another thread held.
        process = subprocess.Popen(command, preexec_fn=die_with_guardian)  # noqa: PLW1509
    except OSError as error:
        return {"started": False, "error": error.strerror or str(error)}
    try:
        code = process.wait()
    except SystemExit:
        _ask_then_kill(process)
        raise
    return {"started": True, "exit_code": code}


def _ask_then_kill(process: "subprocess.Popen[bytes]") -> None:
    """Give the agent a moment to end by itself: it may be writing its result."""
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    until = time.monotonic() + _GRACE_SECONDS
    while process.poll() is None and time.monotonic() < until:
        time.sleep(_POLL_SECONDS)
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    process.wait()


def kill_descendants() -> None:
    """Kill every process below this one; orphans have come to it as their subreaper."""
    while True:
        children = _children(os.getpid())
        if not children:
            return
        for pid in children:
            _kill_tree(pid)
        _reap()
        time.sleep(_POLL_SECONDS)


def _kill_tree(pid: int) -> None:
    # Stopped first, so that it cannot start another one while its children are listed.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGSTOP)
    for child in _children(pid):
        _kill_tree(child)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def _children(pid: int) -> list[int]:
    found: list[int] = []
    folder = f"/proc/{pid}/task"
    try:
        threads = os.listdir(folder)  # noqa: PTH208 - pathlib costs a third of this program's start
    except OSError:
        return found
    for thread in threads:
        with (
            contextlib.suppress(OSError),
            open(f"{folder}/{thread}/children", encoding="ascii") as listing,  # noqa: PTH123
        ):
            found += [int(child) for child in listing.read().split()]
    return found


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
