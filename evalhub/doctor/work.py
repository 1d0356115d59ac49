"""Who does the work: the broker, a worker, beat; and whether each sweep succeeds."""

from collections.abc import Iterator
from datetime import datetime

from django.conf import settings
from django.utils.timesince import timesince
from kombu.exceptions import OperationalError

from evalhub.doctor.findings import Finding, ok, said, warning, wrong
from evalhub.tasks import queries
from evalhub.tasks.app import app
from evalhub.tasks.queries import WorkerState
from evalhub.web.logs import without_secrets

_ANSWER_SECONDS = 2.0


def broker() -> Iterator[Finding]:
    """See whether messages reach the broker."""
    try:
        opening = app.connection_for_write(connect_timeout=_ANSWER_SECONDS)
    except (ValueError, KeyError):
        # Not what the error says: it may quote a part of the password.
        yield wrong(
            "broker",
            "CELERY_BROKER_URL is not the address of a broker.",
            fix="Write it as redis://:password@host:port/0; percent-encode what is special in the"
            " password.",
        )
        return
    with opening as connection:
        address = without_secrets(connection.as_uri(include_password=True))
        try:
            connection.ensure_connection(max_retries=1, interval_start=0)
        except (OperationalError, OSError) as error:
            yield wrong(
                "broker",
                f"The broker at {address} does not answer: {said(error)}",
                fix="Start `manage.py up`, or name a running Redis in CELERY_BROKER_URL. Until then"
                " nothing is lost: sweeps find what waits.",
            )
        else:
            yield ok("broker", f"The broker at {address} answers.")


def sweeps(*, at: datetime, is_broker_there: bool) -> Iterator[Finding]:
    """See whether somebody does the sweeps, and which of them fail."""
    state = queries.worker_state(at)
    heard_at = queries.worker_heard_at()
    if state.silent_for is not None:
        since = timesince(at - state.silent_for, at, depth=1)
        yield _silent(since, answers=_worker_answers() if is_broker_there else None)
    elif heard_at is None or not queries.sweep_runs():
        yield warning(
            "worker",
            "No sweep has been done yet; this installation is new.",
            fix=f"Look again in {settings.WORKER_SILENT_SECONDS} s.",
        )
    else:
        yield ok("worker", f"A sweep was done {(at - heard_at).total_seconds():.0f} s ago.")
    yield from _failing(state, at=at)


def _silent(since: str, *, answers: bool | None) -> Finding:
    told = f"No sweep has been done for {since}: conclusions, checks and notices wait."
    match answers:
        case None:
            return wrong(
                "worker", told, fix="Mend the broker first; workers come back by themselves."
            )
        case False:
            return wrong(
                "worker",
                f"{told} No worker answers.",
                fix="Start one: `manage.py run worker`; its log says why it ended.",
            )
        case True:
            return wrong(
                "worker",
                f"{told} A worker answers, so nobody asks for them: no beat runs.",
                fix="Start one beat: `manage.py run beat`, or the worker with a beat of its own. If one"
                " runs, see whether the clocks of its machine and the worker's differ by minutes.",
            )


def _worker_answers() -> bool:
    return bool(app.control.inspect(timeout=_ANSWER_SECONDS).ping())


def _failing(state: WorkerState, *, at: datetime) -> Iterator[Finding]:
    for run in state.failing:
        since = "ever" if run.finished_at is None else timesince(run.finished_at, at, depth=1)
        yield wrong(
            "sweeps",
            f"{run.name} has not been done for {since}; it fails with: {said(run.error)}",
            fix="The worker's log has the traceback.",
        )
