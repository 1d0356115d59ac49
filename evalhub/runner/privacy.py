"""Keeps what this process holds from other processes of the same user: the agent is one of them."""

import ctypes

_PR_SET_DUMPABLE = 4


def keep_private() -> bool:
    """Close /proc/<pid>/environ and memory of this process to its own user; return whether it worked.

    Only root can look then (Linux). What this process starts is not affected: programs that it
    executes are open to their user again, and get an environment without secrets.
    """
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        return bool(libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) == 0)
    except (AttributeError, OSError):
        return False
