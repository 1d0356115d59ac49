"""Sends a spool's segments in order, for as long as it takes, and keeps each receipt beside its segment."""

import threading
import time
from collections.abc import Callable
from http import HTTPStatus

from evalhub.runner.connection import delay_seconds
from evalhub.runner.errors import InputError, RunnerError, StoreUnreachableError
from evalhub.runner.refusals import StoreRefusedError
from evalhub.runner.segment_files import Segment
from evalhub.runner.session import AttemptSession
from evalhub.runner.spool import Spool, SpoolError

# For the segment that is under way when the upload is closed; its bytes stay in the spool.
_CLOSING_SECONDS = 2.0
# What the store says of one segment; every other refusal is about the attempt and ends the upload.
_OF_ONE_SEGMENT = frozenset(
    {
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        HTTPStatus.UNPROCESSABLE_ENTITY,
    }
)

# A store that is busy for a moment is nothing to tell; one that stays so is.
_BUSY = "uploads-busy"
_BUSY_FAILURES_TOLD = 3

Report = Callable[[str], None]


class OtherBytesError(RunnerError):
    """The store has other bytes under a segment's number: two spools say that they are one attempt."""


class _Outage:
    """What was told since the store last took a segment: each reason once, and that it is over."""

    def __init__(self, report: Report, spool: Spool) -> None:
        self._report = report
        self._spool = spool
        self._told: set[str] = set()
        self.failures = 0

    def goes_on(self, error: StoreUnreachableError) -> None:
        self.failures += 1
        is_brief = error.code == _BUSY and self.failures < _BUSY_FAILURES_TOLD
        if str(error) not in self._told and not is_brief:
            self._report(f"{error} Evidence waits in {self._spool.folder} and is sent again.")
            self._told.add(str(error))

    def is_over(self) -> None:
        if self._told:
            self._report("The store takes evidence again.")
        self._told.clear()
        self.failures = 0


class Uploader:
    """A thread that sends what a spool cuts. `report` hears in sentences of trouble."""

    def __init__(self, spool: Spool, session: AttemptSession, *, report: Report) -> None:
        self._spool = spool
        self._session = session
        self._report = report
        self._changed = threading.Condition()
        self._is_closing = False
        self._is_idle = False
        self._is_forgetful = False
        self.failure: RunnerError | None = None
        """Why nothing more can be sent; None while there is hope."""
        self._thread = threading.Thread(target=self._run, name="upload", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Say that there is something new in the spool."""
        with self._changed:
            self._is_idle = False
            self._changed.notify_all()

    def drain(self, seconds: float) -> bool:
        """Wait until everything is sent; return whether it is, at the latest after `seconds`."""
        until = time.monotonic() + seconds
        self.wake()
        with self._changed:
            self._changed.wait_for(
                lambda: self.failure is not None or (self._is_idle and not self._spool.unsent()),
                timeout=max(0.0, until - time.monotonic()),
            )
        return not self._spool.unsent()

    def close(self, *, is_hurried: bool = False) -> None:
        """Stop sending; what is under way is waited for a moment, unless there is none."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        self._thread.join(0 if is_hurried else _CLOSING_SECONDS)

    def _run(self) -> None:
        outage = _Outage(self._report, self._spool)
        while not self._is_closing:
            segment = next(iter(self._spool.unsent()), None)
            if segment is None:
                self._rest(None)
                continue
            if self._spool.recall(segment):
                continue
            try:
                self._send(segment)
            except OSError as error:
                reason = f"{segment.path} cannot be read: {error.strerror}."
                self._fail(SpoolError(f"{reason} Look after the disk, then push the spool."))
                return
            except StoreUnreachableError as error:
                outage.goes_on(error)
                self._rest(delay_seconds(outage.failures, asked_for=error.retry_after_seconds))
            except RunnerError as error:
                self._fail(error)
                return
            else:
                outage.is_over()

    def _rest(self, seconds: float | None) -> None:
        """Wait for news; with `seconds`, for that long at least, unless the upload is closed."""
        with self._changed:
            if self._is_closing:
                return
            if seconds is not None:
                self._changed.wait_for(lambda: self._is_closing, timeout=seconds)
                return
            self._is_idle = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._is_closing or not self._is_idle)

    def _fail(self, error: RunnerError) -> None:
        with self._changed:
            self.failure = error
            self._changed.notify_all()
        self._report(f"{error} Nothing more is sent; the evidence stays in {self._spool.folder}.")

    def _send(self, segment: Segment) -> None:
        sha256 = segment.sha256.removeprefix("sha256:")
        try:
            receipt = self._session.call(
                lambda store: store.put_segment(
                    self._session.attempt, segment.seq, segment.path, sha256=sha256
                )
            )
        except StoreRefusedError as error:
            self._refused(segment, error)
            return
        except StoreUnreachableError as error:
            if error.code == "digest-mismatch" and not segment.is_intact():
                self._give_up(segment, "Its file has changed on this disk since it was written.")
                return
            raise
        # Its refused items are told with all others when the attempt ends, by kind and counted.
        self._keep(lambda: self._spool.note_receipt(segment, receipt))

    def _refused(self, segment: Segment, error: StoreRefusedError) -> None:
        if error.status == HTTPStatus.CONFLICT:
            raise OtherBytesError(
                f"{error} Segment {segment.seq} of {segment.path.parent.parent} is not what the store "
                "has: send from the spool that was sent before, or run the lane again."
            ) from None
        if error.status not in _OF_ONE_SEGMENT:
            raise error
        self._give_up(segment, str(error))

    def _give_up(self, segment: Segment, reason: str) -> None:
        self._keep(lambda: self._spool.note_refusal(segment, reason))
        self._report(f"Segment {segment.seq} is refused as a whole and not sent again: {reason}")

    def _keep(self, write: Callable[[], None]) -> None:
        """Write an answer of the store beside its segment; where that fails, it is only remembered."""
        try:
            write()
        except InputError as error:
            if not self._is_forgetful:
                self._is_forgetful = True
                self._report(
                    f"{error} What the store answers is only remembered: should this process die, the "
                    "segments are sent again, which changes nothing."
                )
