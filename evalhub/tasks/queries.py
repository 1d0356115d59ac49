"""Reads: whether the sweeps are done, which tells whether a worker and its beat are alive."""

from datetime import datetime, timedelta
from typing import NamedTuple

from django.conf import settings

from evalhub.tasks.models import INSTALLATION, SweepRun
from evalhub.tasks.names import SWEEPS


class WorkerState(NamedTuple):
    """Whether somebody does the work.

    `silent_for` is None while sweeps are done; `failing` are those that fail again and again.
    """

    silent_for: timedelta | None
    failing: list[SweepRun]


def sweep_runs() -> list[SweepRun]:
    """Return what is known of each sweep of this release; nothing of those that were never done."""
    return [run for run in _signs_of_life() if run.name != INSTALLATION]


def worker_heard_at() -> datetime | None:
    """Return when any sweep was done last, or when this installation began if none ever was."""
    return _heard_at(_signs_of_life())


def worker_silence(at: datetime) -> timedelta | None:
    """Return for how long no sweep has been done, if that is longer than it may be; else None."""
    return worker_state(at).silent_for


def worker_state(at: datetime) -> WorkerState:
    """Say whether sweeps are done, and which of them have been failing for too long. One query.

    Where none was ever done, silence begins when this installation did.
    """
    known = _signs_of_life()
    bound = timedelta(seconds=settings.WORKER_SILENT_SECONDS)
    heard_at = _heard_at(known)
    silence = timedelta() if heard_at is None else at - heard_at
    return WorkerState(
        silent_for=silence if silence > bound else None,
        failing=[run for run in known if run.error and _has_waited(run, at=at, bound=bound)],
    )


def _signs_of_life() -> list[SweepRun]:
    names = [INSTALLATION, *(name.value for name in SWEEPS)]
    return list(SweepRun.objects.filter(name__in=names).order_by("name"))


def _heard_at(known: list[SweepRun]) -> datetime | None:
    return max((run.finished_at for run in known if run.finished_at is not None), default=None)


def _has_waited(run: SweepRun, *, at: datetime, bound: timedelta) -> bool:
    return run.finished_at is None or at - run.finished_at > bound
