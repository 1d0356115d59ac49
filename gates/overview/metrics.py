"""The numbers for Prometheus, made anew for each scrape from rows: every web process says the same.

A number that cannot be read is left out, one that does not exist ("the oldest of none") is NaN;
0 is only said where something was counted.
"""

import logging
import math
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from django.conf import settings
from django.db import Error
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

import evalhub
from evalhub.tasks import queries as tasks
from evalhub.web import database
from evalhub.web.disks import standing_part
from evidence.store import queries as store
from evidence.store.storage import folder_of_objects
from gates.checks import queries as checks
from lanes.plans import queries as plans
from lanes.projects.queries import notices

logger = logging.getLogger(__name__)

DESCRIPTIONS: Mapping[str, str] = {
    "evalhub_build_info": "1; the label says which version answers.",
    "evalhub_database_up": "1 while the database answers this process, else 0.",
    "evalhub_metrics_complete": "0 when some of these numbers could not be read, and are absent.",
    "evalhub_oldest_undelivered_check_seconds": "How long GitHub has been behind on some check; NaN: on none.",
    "evalhub_refused_checks": "Checks that GitHub does not take as they are.",
    "evalhub_oldest_unconcluded_plan_seconds": "How long a finished plan has been waiting for its conclusion; NaN: none waits.",
    "evalhub_oldest_unsent_notice_seconds": "How long some channel has been owed a notice; NaN: none is.",
    "evalhub_worker_silence_seconds": "Time since any sweep was done: since a worker was heard.",
    "evalhub_sweep_silence_seconds": "Time since this sweep was done; NaN: never.",
    "evalhub_sweep_failing": "1 if this sweep failed when it was last done, else 0.",
    "evalhub_open_plans": "Plans that are not concluded, by state.",
    "evalhub_open_attempts": "Attempts of plans that are not concluded; silent ones missed three heartbeats.",
    "evalhub_recent_refused_items": "Items that went to quarantine in the last hour, of the newest thousand.",
    "evalhub_recent_object_store_faults": "Times that the object store failed in the last ten minutes.",
    "evalhub_free_disk_bytes": "Room where this process keeps the database or the objects, if it does.",
    "evalhub_disk_size_bytes": "Size of the same file system.",
}
"""What each says. README has the list too; a test compares the two."""

_REFUSALS_LOOKED_AT = 1000
_REFUSALS_WITHIN = timedelta(hours=1)
_FAULTS_WITHIN = timedelta(minutes=10)


class _Sample(NamedTuple):
    value: float
    labels: Mapping[str, str] = {}


_Family = tuple[str, Iterable[_Sample]]


class Metrics(Collector):
    """Everything that is known at one time. Without a database: what the process knows itself."""

    def __init__(self, *, at: datetime) -> None:
        self.at = at

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield one family for each description whose number can be read."""
        yield _family("evalhub_build_info", [_Sample(1, {"version": evalhub.__version__})])
        yield from (_family(name, samples) for name, samples in _disk())
        is_up = database.failure() is None
        yield _family("evalhub_database_up", [_Sample(is_up)])
        is_complete = is_up
        for read in _READ_FROM_ROWS if is_up else ():
            try:
                families = [_family(name, samples) for name, samples in read(self.at)]
            except Error as error:
                logger.warning("metrics left out: %s: %s", read.__name__, error)
                is_complete = False
            else:
                yield from families
        yield _family("evalhub_metrics_complete", [_Sample(is_complete)])


def registry(*, at: datetime) -> CollectorRegistry:
    """Return a registry of its own for one scrape: nothing is kept between two."""
    made = CollectorRegistry()
    made.register(Metrics(at=at))
    return made


def _family(name: str, samples: Iterable[_Sample]) -> GaugeMetricFamily:
    known = list(samples)
    family = GaugeMetricFamily(name, DESCRIPTIONS[name], labels=sorted(known[0].labels))
    for sample in known:
        family.add_metric([sample.labels[label] for label in sorted(sample.labels)], sample.value)
    return family


def _disk() -> Iterator[_Family]:
    kept = {"database": settings.DATABASE_FILE, "objects": folder_of_objects()}
    usage = {
        holds: shutil.disk_usage(standing_part(path))
        for holds, path in kept.items()
        if path is not None
    }
    if usage:
        yield "evalhub_free_disk_bytes", [_Sample(u.free, {"holds": h}) for h, u in usage.items()]
        yield "evalhub_disk_size_bytes", [_Sample(u.total, {"holds": h}) for h, u in usage.items()]


def _sweeps(at: datetime) -> Iterator[_Family]:
    heard_at = tasks.worker_heard_at()
    yield "evalhub_worker_silence_seconds", [_Sample(_seconds_since(heard_at, at))]
    runs = tasks.sweep_runs()
    if runs:
        yield (
            "evalhub_sweep_silence_seconds",
            [_Sample(_seconds_since(run.finished_at, at), {"sweep": run.name}) for run in runs],
        )
        yield (
            "evalhub_sweep_failing",
            [_Sample(bool(run.error), {"sweep": run.name}) for run in runs],
        )


def _checks(at: datetime) -> Iterator[_Family]:
    age = _seconds_since(checks.oldest_undelivered_at(), at)
    yield "evalhub_oldest_undelivered_check_seconds", [_Sample(age)]
    yield "evalhub_refused_checks", [_Sample(checks.refused_check_count())]


def _plans(at: datetime) -> Iterator[_Family]:
    age = _seconds_since(plans.unconcluded_since(at=at), at)
    yield "evalhub_oldest_unconcluded_plan_seconds", [_Sample(age)]
    yield "evalhub_open_plans", _by("state", plans.open_plan_counts().items())
    yield "evalhub_open_attempts", _by("state", plans.attempt_counts_of_open_plans().items())


def _notices(at: datetime) -> Iterator[_Family]:
    waits = notices.oldest_unsent_notice(at)
    age = math.nan if waits is None else waits.total_seconds()
    yield "evalhub_oldest_unsent_notice_seconds", [_Sample(age)]


def _evidence(at: datetime) -> Iterator[_Family]:
    refused = store.recent_refusal_counts(at - _REFUSALS_WITHIN, most=_REFUSALS_LOOKED_AT)
    yield "evalhub_recent_refused_items", _by("category", refused.items())
    faults = store.storage_fault_counts(at - _FAULTS_WITHIN)
    yield "evalhub_recent_object_store_faults", _by("operation", faults.items())


_READ_FROM_ROWS: tuple[Callable[[datetime], Iterator[_Family]], ...] = (
    _sweeps,
    _checks,
    _plans,
    _notices,
    _evidence,
)
"""Each on its own: a table that is not yet there takes none of the others with it."""


def _by(label: str, counts: Iterable[tuple[str, int]]) -> list[_Sample]:
    return [_Sample(count, {label: str(key).lower()}) for key, count in counts]


def _seconds_since(moment: datetime | None, at: datetime) -> float:
    # Two machines' clocks may differ a little; nothing has waited for less than no time.
    return math.nan if moment is None else max((at - moment).total_seconds(), 0.0)
