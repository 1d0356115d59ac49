"""End this process when its parent ends, however the parent ends (Linux)."""

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int) -> bool:
    """Ask the kernel for SIGTERM at the parent's end; return whether the parent is still there.

    The kernel watches the thread that started this process: start it from a thread that lives as
    long as the process should. Elsewhere than on Linux nothing is asked for.
    """
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    except (AttributeError, OSError):
        return True
    # The parent may have ended before the request: then nobody would send the signal.
    return os.getppid() == parent
