"""Why a lane should end before its time: a signal, or the store."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Stop:
    """The reason to stop, if there is one; the first stands. A signal leaves little time."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self.by_signal_at: float | None = None
        """When the first signal came, on the monotonic clock."""

    def say(self, reason: str) -> None:
        self.reason = self.reason or reason

    def is_by_signal(self) -> bool:
        return self.by_signal_at is not None

    def _on_signal(self, signum: int, frame: FrameType | None) -> None:
        self.say(signal.Signals(signum).name)
        self.by_signal_at = self.by_signal_at or time.monotonic()

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """Let SIGTERM and SIGINT end the work in order instead of at once."""
        before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
        for number in before:
            signal.signal(number, self._on_signal)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
