"""Writes: probe results as they come in, match rates when their plan is concluded, alarms."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from django.db import transaction
from django.urls import reverse

from evalhub.protocol.records import ProbeLine
from evalhub.web.templatetags.formatting import percent, short
from lanes.fidelity import queries
from lanes.fidelity.models import MatchRate, ProbeResult
from lanes.fidelity.queries import BuildRate, Counts, Drop
from lanes.projects.models import Notice, NoticeKind, Project
from lanes.projects.operations import notices
from lanes.projects.queries import notices as notice_queries

_AT_ONCE = 500
_MISMATCHES_TOLD = 5


class Prober(NamedTuple):
    """The attempt of a lane that ran probes, and the simulator that its plan gives it."""

    project: Project
    suite_name: str
    plan: str
    lane: str
    attempt: str
    simulator: str
    build: str


class ProbedPlan(NamedTuple):
    """A plan that is concluded, and the least rate that its policy asks for (0 to 1), if any."""

    project: Project
    suite_name: str
    digest: str
    registered_at: datetime
    minimum_rate: float | None


def note_probes(prober: Prober, lines: Iterable[ProbeLine]) -> None:
    """Keep what probes found. Of a probe that an attempt tells of again the first result stands."""
    ProbeResult.objects.bulk_create(
        (
            ProbeResult(
                project=prober.project,
                suite_name=prober.suite_name,
                simulator=prober.simulator,
                build=prober.build,
                plan=prober.plan,
                lane=prober.lane,
                attempt=prober.attempt,
                probe=line.probe,
                digest=line.digest,
                category=line.category,
                source=line.source,
                result=line.result,
                paths=line.paths,
            )
            for line in lines
        ),
        batch_size=_AT_ONCE,
        ignore_conflicts=True,
    )


@transaction.atomic
def weigh_plan(plan: ProbedPlan, *, at: datetime) -> None:
    """Keep the match rates of a plan that is being concluded, and raise or end the alarm of each build.

    Alarming is a rate whose whole 95 % interval lies below the policy's minimum: a few probes that
    missed it by chance are no reason to call somebody. And a rate that fell below what the same
    probes said of the same build before (`queries.drop_in`). One alarm for a build and suite, until
    neither holds any more. A plan without probes says nothing, and ends nothing.
    """
    for rate in queries.rates_of_plan(plan.digest):
        counts = rate.counts
        MatchRate.objects.update_or_create(
            plan=plan.digest,
            simulator=rate.simulator,
            build=rate.build,
            defaults={
                "project": plan.project,
                "suite_name": plan.suite_name,
                "registered_at": plan.registered_at,
                "probe_set": rate.probe_set,
                "matched": counts.matched,
                "status_only": counts.status_only,
                "mismatched": counts.mismatched,
                "unverified": counts.unverified,
            },
        )
        if counts.verified and _is_newest(plan, rate):
            _judge(plan, rate, at=at)


def _is_newest(plan: ProbedPlan, rate: BuildRate) -> bool:
    """Say whether no later plan has said how the build is: an old one that is concluded anew is no news."""
    later = MatchRate.objects.filter(
        project=plan.project,
        suite_name=plan.suite_name,
        simulator=rate.simulator,
        build=rate.build,
        registered_at__gt=plan.registered_at,
    )
    return not later.exists()


def _judge(plan: ProbedPlan, rate: BuildRate, *, at: datetime) -> None:
    prefix = f"{plan.suite_name}/{rate.simulator}/{short(rate.build)}/"
    drop = queries.drop_in(queries.newest_nights(plan.project, plan.suite_name, rate))
    reasons = [*_too_low(plan, rate.counts), *_dropped(drop)]
    if not reasons:
        notices.resolve_notices(plan.project, kind=NoticeKind.DRIFT, key_prefix=prefix, at=at)
        return
    # Counted before it is looked whether one is open: of two plans that are concluded at once either
    # sees the other's, or both take the same key.
    told = Notice.objects.filter(
        project=plan.project, kind=NoticeKind.DRIFT, key__startswith=prefix
    ).count()
    unresolved = notice_queries.unresolved_notices(plan.project, NoticeKind.DRIFT)
    if unresolved.filter(key__startswith=prefix).exists():
        return
    notices.raise_notice(
        plan.project,
        kind=NoticeKind.DRIFT,
        key=f"{prefix}{told + 1}",
        subject=f"Simulator {rate.simulator} answers less like the real API",
        detail=" ".join([_standing(plan, rate), *reasons, *_worst(rate), _FIX]),
        path=f"{reverse('plan', args=[plan.digest])}#probes",
        at=at,
    )


_FIX = (
    "See whether the simulator's build, the recordings or the API itself changed. Until then"
    " what agents did against it may not be what they would do against the real one."
)


def _standing(plan: ProbedPlan, rate: BuildRate) -> str:
    left_out = rate.counts.unverified
    aside = f"; {left_out} more could not be verified" if left_out else ""
    return (
        f"In plan {short(plan.digest)} of suite {plan.suite_name},"
        f" {_in_words(rate.counts)} on build {short(rate.build)}{aside}."
    )


def _in_words(counts: Counts) -> str:
    interval = counts.interval
    if interval is None:
        return "no probe could be verified"
    return (
        f"{counts.matched} of {counts.verified} verified probes match"
        f" ({percent(counts.rate)}, 95 % interval {percent(interval.low)} to"
        f" {percent(interval.high)})"
    )


def _too_low(plan: ProbedPlan, counts: Counts) -> Sequence[str]:
    interval = counts.interval
    if plan.minimum_rate is None or interval is None or interval.high >= plan.minimum_rate:
        return []
    return [f"The policy asks for at least {percent(plan.minimum_rate)}."]


def _dropped(drop: Drop | None) -> Sequence[str]:
    if drop is None:
        return []
    return [
        f"The same probes on the same build: {percent(drop.before.rate)} in its first"
        f" {drop.nights} nights, {percent(drop.now.rate)} in the newest, and the nights between"
        " make chance an unlikely reason."
    ]


def _worst(rate: BuildRate) -> Sequence[str]:
    if not rate.mismatches:
        return []
    named = [
        f"{one.probe} ({', '.join(one.paths[:2]) or one.result.replace('_', ' ')})"
        for one in rate.mismatches[:_MISMATCHES_TOLD]
    ]
    more = len(rate.mismatches) - len(named)
    return [f"Not matching: {', '.join(named)}{f' and {more} more' if more else ''}."]
