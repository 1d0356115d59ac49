"""Reads: how many probes matched, which did not, and whether a build's rate has dropped."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC
from typing import NamedTuple

from django.db.models import Case, IntegerField, Max, Value, When

from evalhub.protocol.canonical import document_digest
from evalhub.stats.binary import wilson_interval
from evalhub.stats.intervals import Interval
from evalhub.stats.trend import YEARLY_LIMIT, bernoulli_cusum, clean_rate
from lanes.fidelity.models import MatchRate, ProbeResult
from lanes.projects.models import Project

# By how bad it is: of what several lanes saw of one probe, the worst counts.
_RANKS = ("unverified", "match", "status_only", "mismatch")
# A year of nights, and as many plans as a day may have before the oldest are left out.
_MOST_NIGHTS = 365
_MOST_RATES = 4 * _MOST_NIGHTS
# The first nights of a build say what is usual: 28 of them, half of all while there are few. They
# never move behind a drop, so one that is slow cannot become usual.
_REFERENCE_NIGHTS = 28
_FEWEST_REFERENCE_NIGHTS = 3
_FEWEST_REFERENCE_PROBES = 50
_DROP = 0.10


class Counts(NamedTuple):
    """Distinct probes by their worst answer. What nobody could verify is part of no rate."""

    matched: int
    status_only: int
    mismatched: int
    unverified: int

    @property
    def verified(self) -> int:
        return self.matched + self.status_only + self.mismatched

    @property
    def rate(self) -> float | None:
        """The share that matched, from 0 to 1; None where nothing could be verified."""
        return self.matched / self.verified if self.verified else None

    @property
    def interval(self) -> Interval | None:
        """Wilson's 95 % interval of the rate."""
        return wilson_interval(self.matched, self.verified) if self.verified else None


class Mismatch(NamedTuple):
    """A probe that did not match in every lane that verified it."""

    probe: str
    category: str
    source: str
    result: str
    lanes: list[str]
    paths: list[str]


class BuildRate(NamedTuple):
    """What the probes of one plan say of one build of a simulator."""

    simulator: str
    build: str
    probe_set: str
    counts: Counts
    mismatches: list[Mismatch]


class Drop(NamedTuple):
    """A build's rate fell: what its first nights had, and what the newest has."""

    before: Counts
    nights: int
    now: Counts


def probes_of_attempt(attempt: str) -> set[str]:
    """Return the probes that an attempt has told of."""
    return set(ProbeResult.objects.filter(attempt=attempt).values_list("probe", flat=True))


def rates_of_plan(plan_digest: str) -> list[BuildRate]:
    """Return what the probes of a plan say of each build, by simulator and build."""
    probes: dict[tuple[str, str], dict[tuple[str, str], int]] = defaultdict(dict)
    rank = Case(
        *(When(result=result, then=Value(rank)) for rank, result in enumerate(_RANKS)),
        output_field=IntegerField(),
    )
    rows = (
        ProbeResult.objects.filter(plan=plan_digest)
        .values_list("simulator", "build", "probe", "digest")
        .annotate(worst=Max(rank))
    )
    for simulator, build, probe, digest, worst in rows:
        probes[simulator, build][probe, digest] = worst
    mismatches = _mismatches(plan_digest) if probes else {}
    return [
        BuildRate(
            simulator,
            build,
            document_digest(sorted(map(list, worst))),
            _counts(worst.values()),
            mismatches.get((simulator, build), []),
        )
        for (simulator, build), worst in sorted(probes.items())
    ]


def newest_nights(project: Project, suite_name: str, rate: BuildRate) -> list[Counts]:
    """Return the rates of a build with the same probes, one for each day, oldest first.

    A day with several plans is that of the newest; a day on which nothing was verified is none.
    """
    rows = MatchRate.objects.filter(
        project=project,
        suite_name=suite_name,
        simulator=rate.simulator,
        build=rate.build,
        probe_set=rate.probe_set,
    )
    by_day: dict[object, Counts] = {}
    for row in rows.order_by("-registered_at", "-pk")[:_MOST_RATES]:
        counts = Counts(row.matched, row.status_only, row.mismatched, row.unverified)
        if counts.verified:
            by_day.setdefault(row.registered_at.astimezone(UTC).date(), counts)
    return list(by_day.values())[:_MOST_NIGHTS][::-1]


def drop_in(nights: Sequence[Counts]) -> Drop | None:
    """Return the drop of a match rate over nights, oldest first; None if none is shown.

    The first nights say what is usual; over all that follow, evidence for a rate lower by ten
    points is accumulated (`evalhub.stats.trend`). So nights are looked at again and again without
    an alarm more often than once a year where nothing changes, which no comparison of two nights
    could promise. A night that is as good as usual ends it.
    """
    count = min(_REFERENCE_NIGHTS, max(_FEWEST_REFERENCE_NIGHTS, len(nights) // 2))
    reference, watched = nights[:count], nights[count:]
    before = (
        Counts(*(sum(column) for column in zip(*reference, strict=True))) if reference else None
    )
    if before is None or not watched or before.verified < _FEWEST_REFERENCE_PROBES:
        return None
    usual = clean_rate(before.matched, probes=before.verified)
    if before.matched < usual * before.verified:
        # Not even half of them match as a rule: the policy's minimum is the alarm for that.
        return None
    path = bernoulli_cusum(
        [night.matched for night in watched],
        probes=[night.verified for night in watched],
        p0=usual,
        p1=usual - _DROP,
    )
    now = watched[-1]
    if path.statistic[-1] < YEARLY_LIMIT or now.matched >= usual * now.verified:
        return None
    return Drop(before, len(reference), now)


def _counts(worst: Iterable[int]) -> Counts:
    found = [0] * len(_RANKS)
    for rank in worst:
        found[rank] += 1
    unverified, matched, status_only, mismatched = found
    return Counts(matched, status_only, mismatched, unverified)


def _mismatches(plan_digest: str) -> dict[tuple[str, str], list[Mismatch]]:
    by_probe: dict[tuple[str, str, str], list[ProbeResult]] = defaultdict(list)
    rows = ProbeResult.objects.filter(plan=plan_digest, result__in=["status_only", "mismatch"])
    for row in rows.order_by("probe", "lane", "pk"):
        by_probe[row.simulator, row.build, row.probe].append(row)
    found: dict[tuple[str, str], list[Mismatch]] = defaultdict(list)
    for (simulator, build, probe), several in by_probe.items():
        worst = max(several, key=lambda row: _RANKS.index(row.result))
        found[simulator, build].append(
            Mismatch(
                probe,
                worst.category,
                worst.source,
                worst.result,
                sorted({row.lane for row in several}),
                sorted({path for row in several for path in row.paths}),
            )
        )
    return found
