"""Writes: the sign of life of a sweep."""

from datetime import datetime

from evalhub.tasks.models import SweepRun
from evalhub.tasks.names import TaskName

_LONGEST_ERROR = 500


def record_sweep(
    name: TaskName, *, started_at: datetime, ended_at: datetime, error: Exception | None = None
) -> None:
    """Note that a sweep was done or, with an error, that it failed. One small write."""
    ended = {"finished_at": ended_at} if error is None else {"failed_at": ended_at}
    row = {"started_at": started_at, "error": _sentence(error), **ended}
    if not SweepRun.objects.filter(name=name.value).update(**row):
        # Its first time; two workers may both think so.
        SweepRun.objects.bulk_create([SweepRun(name=name.value, **row)], ignore_conflicts=True)


def _sentence(error: Exception | None) -> str:
    if error is None:
        return ""
    # PostgreSQL keeps no NUL character.
    said = " ".join(f"{type(error).__name__}: {error}".replace("\x00", " ").split())
    return said[:_LONGEST_ERROR]
