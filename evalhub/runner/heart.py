"""Says at the store how far the lane is, and hears whether it should stop."""

import threading
from collections.abc import Callable

from evalhub.protocol.messages import Heartbeat
from evalhub.runner.errors import RunnerError, StoreUnreachableError
from evalhub.runner.session import AttemptSession

_LEAST_SECONDS = 1
# For a beat that is under way.
_CLOSING_SECONDS = 2.0


class Heart:
    """A thread that beats until it is closed. `stop` is called once, with the store's reason."""

    def __init__(
        self,
        session: AttemptSession,
        *,
        seconds: int,
        progress: Callable[[], Heartbeat],
        stop: Callable[[str], None],
    ) -> None:
        self._session = session
        self._seconds = max(seconds, _LEAST_SECONDS)
        self._progress = progress
        self._stop = stop
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self, *, is_hurried: bool = False) -> None:
        self._closed.set()
        self._thread.join(0 if is_hurried else _CLOSING_SECONDS)

    def _run(self) -> None:
        while True:
            if not self._beat() or self._closed.wait(self._seconds):
                return

    def _beat(self) -> bool:
        """Beat once; return whether to beat again."""
        progress = self._progress()
        try:
            answer = self._session.call(
                lambda store: store.heartbeat(self._session.attempt, progress)
            )
        except StoreUnreachableError:
            # A lane works on without the store; the upload says that it is away.
            return True
        except RunnerError:
            # The upload meets the same refusal and says it; what the agent does is kept on disk.
            return False
        self._seconds = max(answer.next_seconds, _LEAST_SECONDS)
        if answer.do == "stop":
            self._stop(answer.reason or "the store said stop")
        return answer.do == "continue"
