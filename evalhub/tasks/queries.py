"""Reads: whether the sweeps are done, which tells whether a worker and its beat are alive."""

from datetime import datetime, timedelta
from typing import NamedTuple

from django.conf import settings
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from evalhub.tasks.apps import TasksConfig
from evalhub.tasks.models import SweepRun
from evalhub.tasks.names import SWEEPS


class WorkerState(NamedTuple):
    """Whether somebody does the work.

    `silent_for` is None while sweeps are done; `failing` are those that fail again and again.
    """

    silent_for: timedelta | None
    failing: list[SweepRun]


def sweep_runs() -> list[SweepRun]:
    """Return what is known of each sweep of this release; nothing of those that were never done."""
    names = [name.value for name in SWEEPS]
    return list(SweepRun.objects.filter(name__in=names).order_by("name"))


def worker_silence(at: datetime) -> timedelta | None:
    """Return for how long no sweep has been done, if that is longer than it may be; else None."""
    return worker_state(at).silent_for


def worker_state(at: datetime) -> WorkerState:
    """Say whether sweeps are done, and which of them have been failing for too long.

    Where none was ever done, silence begins when this installation did.
    """
    known = sweep_runs()
    bound = timedelta(seconds=settings.WORKER_SILENT_SECONDS)
    done = [run.finished_at for run in known if run.finished_at is not None]
    heard_at = max(done) if done else _installed_at()
    silence = None if heard_at is None else at - heard_at
    return WorkerState(
        silent_for=silence if silence is not None and silence > bound else None,
        failing=[run for run in known if run.error and _has_waited(run, at=at, bound=bound)],
    )


def _has_waited(run: SweepRun, *, at: datetime, bound: timedelta) -> bool:
    return run.finished_at is None or at - run.finished_at > bound


def _installed_at() -> datetime | None:
    rows = MigrationRecorder(connection).migration_qs.filter(app=TasksConfig.label)
    applied: datetime | None = rows.order_by("pk").values_list("applied", flat=True).first()
    return applied
