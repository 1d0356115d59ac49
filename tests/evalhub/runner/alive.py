"""Whether a process is there, and waiting for what must become so."""

import time
from collections.abc import Callable
from pathlib import Path


def is_alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def eventually(
    condition: Callable[[], object], *, seconds: float = 30.0, pause_seconds: float = 0.02
) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(pause_seconds)
    return bool(condition())


def number_in(path: Path) -> int:
    """Return the number that a program wrote into a file, as soon as it is there."""
    assert eventually(lambda: path.is_file() and path.read_text().strip()), f"{path} did not come"
    return int(path.read_text())
