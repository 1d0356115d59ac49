"""What a line of the log belongs to: the request, the task that it asked for, the plan.

Below all rooms, since a task carries on the trail of the request that asked for it.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

# A stack: where tasks run eagerly, one begins inside a request or inside another task.
_trails: ContextVar[tuple[dict[str, str], ...]] = ContextVar("trails", default=())


def current() -> Mapping[str, str]:
    """Return what the present request or task is known by; empty outside of both."""
    trails = _trails.get()
    return trails[-1] if trails else {}


def bind(**names: str) -> None:
    """Let the rest of the present request or task be known by these names too."""
    trails = _trails.get()
    if trails:
        trails[-1].update(names)


def begin(**names: str) -> None:
    """Begin a trail; nothing of an earlier one is on it. `end` must follow."""
    _trails.set((*_trails.get(), names))


def end() -> None:
    """End the trail that was begun last."""
    _trails.set(_trails.get()[:-1])


@contextmanager
def trail(**names: str) -> Iterator[None]:
    """Keep a trail while the block runs."""
    begin(**names)
    try:
        yield
    finally:
        end()
