"""The end of an attempt, the same for a lane, a spool and an import: send the rest, seal, report."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from evalhub.protocol.messages import SealRequest
from evalhub.protocol.segments import Refused, seal_digest
from evalhub.runner.connection import patient
from evalhub.runner.errors import Exit, RunnerError
from evalhub.runner.session import AttemptSession
from evalhub.runner.spool import Spool
from evalhub.runner.stopping import Stop
from evalhub.runner.upload import Uploader

# CI kills a cancelled job ten seconds after its first signal.
_FLUSH_SECONDS = 5.0
_TICK_SECONDS = 0.2
# What the store says of an attempt that cannot be sealed any more.
ENDED = frozenset({"superseded", "cancelled"})


@dataclass(kw_only=True)
class DeliveryReport:
    """How an attempt ended: what the store has, and what it lacks."""

    attempt: str
    spool: Path
    total: int
    outcomes: dict[str, int] = field(default_factory=dict)
    stopped: str | None = None
    fruitless: str | None = None
    """That no run left a result and all failed alike, as a sentence: the command is wrong."""
    sealed: bool = False
    accepted: int = 0
    refusals: list[Refused] = field(default_factory=list)
    unsent: int = 0
    missing: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    """What no segment could carry, or the store refused as a whole, each as a sentence."""
    failure: RunnerError | None = None

    @property
    def refused(self) -> int:
        return len(self.refusals)

    @property
    def exit_code(self) -> Exit:
        if self.failure is not None:
            return self.failure.exit_code
        if self.unsent:
            return Exit.STORE_UNREACHABLE
        is_complete = self.sealed and not (self.missing or self.refused or self.left_out)
        is_whole = is_complete and self.stopped is None and self.fruitless is None
        return Exit.GOOD if is_whole else Exit.GATE_FAILED


class Delivery:
    """A spool on its way to the store. Start it, work, then `finish` it; `close` it in any case."""

    def __init__(
        self, spool: Spool, session: AttemptSession, *, stop: Stop, report: Callable[[str], None]
    ) -> None:
        self._spool = spool
        self._session = session
        self._stop = stop
        self._tell = report
        self._uploader = Uploader(spool, session, report=report)
        self._uploader.start()

    def wake(self) -> None:
        """Say that there is something new in the spool."""
        self._uploader.wake()

    def close(self) -> None:
        # After a signal every moment is used up already.
        self._uploader.close(is_hurried=self._stop.is_by_signal())
        self._session.close()

    def finish(
        self,
        *,
        seconds: float,
        on_tick: Callable[[], None],
        failure: RunnerError | None = None,
    ) -> DeliveryReport:
        """Send what is left and seal, also when something is missing.

        Tries for `seconds` while the store is away. After a signal there are five seconds, and no
        seal: the attempt stays open for whoever pushes the spool. So it does after a `failure`, which
        left evidence on this disk that is in no segment. Nor is one sealed that the store says is over.
        """
        until = time.monotonic() + seconds
        is_sent = self._drained(until, on_tick)
        report = self._report()
        report.failure = report.failure or failure
        if (
            failure is None
            and is_sent
            and not self._stop.is_by_signal()
            and self._stop.reason not in ENDED
        ):
            try:
                self._seal(report, until)
            except RunnerError as error:
                report.failure = error
                report.stopped = self._stop.reason
        return report

    def _drained(self, until: float, on_tick: Callable[[], None]) -> bool:
        while time.monotonic() < until and self._uploader.failure is None:
            if self._stop.by_signal_at is not None:
                until = min(until, self._stop.by_signal_at + _FLUSH_SECONDS)
            if self._uploader.drain(_TICK_SECONDS):
                return True
            on_tick()
        return not self._spool.unsent()

    def _report(self) -> DeliveryReport:
        receipts = self._spool.receipts()
        return DeliveryReport(
            attempt=self._session.attempt,
            spool=self._spool.folder,
            total=len(self._spool.lane.runs),
            stopped=self._stop.reason,
            accepted=sum(receipt.accepted for receipt in receipts),
            refusals=[item for receipt in receipts for item in receipt.refused],
            unsent=len(self._spool.unsent()),
            left_out=[*self._spool.left_out, *self._spool.refusals()],
            failure=self._uploader.failure,
        )

    def _seal(self, report: DeliveryReport, until: float) -> None:
        digests = self._spool.digests()
        request = SealRequest(segments=len(digests), digest=seal_digest(digests), final=True)
        answer = patient(
            lambda: self._session.call(lambda store: store.seal(self._session.attempt, request)),
            seconds=until - time.monotonic(),
            report=self._tell,
            is_over=self._stop.is_by_signal,
        )
        report.sealed = answer.sealed
        report.missing = answer.missing
        # The seal knows all refusals of the attempt, the spool those that it has receipts of.
        report.refusals = max(report.refusals, answer.refused, key=len)
