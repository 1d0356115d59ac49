"""Match rates with their uncertainty, and the alarm of a build: raised once, ended, raised again."""

from collections.abc import Mapping
from datetime import timedelta

import pytest

from evalhub.protocol.canonical import bytes_digest
from evalhub.protocol.records import ProbeLine, ProbeOutcome
from lanes.fidelity import operations, queries
from lanes.fidelity.models import MatchRate
from lanes.fidelity.operations import ProbedPlan, Prober
from lanes.fidelity.queries import Counts, drop_in
from lanes.projects.models import Notice, NoticeKind, NoticeState, Project
from tests.lanes import factories
from tests.lanes.factories import NOW
from tests.lanes.threads import at_once

pytestmark = pytest.mark.django_db

BUILD, OTHER_BUILD = bytes_digest(b"payments 1.4"), bytes_digest(b"payments 1.5")
DAY = timedelta(days=1)


def plan_digest(number: int) -> str:
    return f"sha256:{number:064x}"


def note(
    project: Project,
    results: Mapping[str, ProbeOutcome],
    *,
    plan: int = 0,
    lane: str = "a",
    build: str = BUILD,
) -> None:
    prober = Prober(
        project, "support", plan_digest(plan), lane, f"att_{plan}_{lane}", "payments", build
    )
    lines = [
        ProbeLine(
            probe=probe,
            digest=bytes_digest(probe.encode()),
            category="happy",
            source="recorded",
            result=result,
            paths=[] if result == "match" else [f"/{probe}/status"],
        )
        for probe, result in results.items()
    ]
    operations.note_probes(prober, lines)


def outcomes(matching: int, of: int) -> dict[str, ProbeOutcome]:
    return {f"probe-{n:03d}": "match" if n < matching else "mismatch" for n in range(of)}


def weigh(project: Project, plan: int = 0, *, minimum: float | None = None) -> None:
    probed = ProbedPlan(project, "support", plan_digest(plan), NOW + plan * DAY, minimum)
    operations.weigh_plan(probed, at=NOW + plan * DAY)


def night(
    project: Project,
    number: int,
    matching: int,
    of: int = 20,
    *,
    minimum: float | None = None,
    build: str = BUILD,
) -> None:
    """Probe and conclude the plan of a night."""
    note(project, outcomes(matching, of), plan=number, build=build)
    weigh(project, number, minimum=minimum)


def told(project: Project) -> list[Notice]:
    return list(Notice.objects.filter(project=project, kind=NoticeKind.DRIFT).order_by("pk"))


def states(project: Project) -> list[str]:
    return [notice.state for notice in told(project)]


def test_rate_counts_each_probe_once_by_its_worst_answer() -> None:
    project = factories.make_project()
    note(project, {"a": "match", "b": "match", "c": "unverified", "d": "unverified"})
    note(project, {"a": "match", "b": "status_only", "c": "match", "d": "unverified"}, lane="b")

    (rate,) = queries.rates_of_plan(plan_digest(0))

    assert (rate.simulator, rate.build) == ("payments", BUILD)
    assert rate.counts == Counts(matched=2, status_only=1, mismatched=0, unverified=1)
    assert rate.counts.rate == pytest.approx(2 / 3)
    assert rate.counts.interval is not None
    assert rate.counts.interval.low < 0.25 < 0.93 < rate.counts.interval.high
    (mismatch,) = rate.mismatches
    assert (mismatch.probe, mismatch.result, mismatch.lanes) == ("b", "status_only", ["b"])
    assert mismatch.paths == ["/b/status"]


def test_without_a_verified_probe_there_is_no_rate() -> None:
    project = factories.make_project()
    note(project, {"a": "unverified"})

    (rate,) = queries.rates_of_plan(plan_digest(0))

    assert (rate.counts.rate, rate.counts.interval) == (None, None)
    weigh(project, minimum=0.99)
    assert told(project) == []
    assert queries.rates_of_plan(plan_digest(1)) == []


def test_rate_of_a_plan_is_kept_when_it_is_concluded_and_renewed_when_again() -> None:
    project = factories.make_project()
    note(project, {"a": "match", "b": "mismatch"})
    weigh(project)
    note(project, {"c": "match"}, lane="late")
    weigh(project)

    rate = MatchRate.objects.get()

    assert (rate.matched, rate.mismatched, rate.verified) == (2, 1, 3)
    assert (rate.suite_name, rate.registered_at) == ("support", NOW)


def test_rate_that_is_surely_below_the_minimum_is_told_of_with_its_numbers() -> None:
    project = factories.make_project()
    note(project, {**outcomes(6, 20), "stale": "unverified"})

    weigh(project, minimum=0.95)

    (notice,) = told(project)
    assert notice.subject == "Simulator payments answers less like the real API"
    assert notice.detail.startswith(
        "In plan 000000000000 of suite support, 6 of 20 verified probes match"
        " (30%, 95 % interval 14.5% to 51.9%) on build"
    )
    assert "; 1 more could not be verified. The policy asks for at least 95%." in notice.detail
    assert "Not matching: probe-006 (/probe-006/status), " in notice.detail
    assert "probe-010 (/probe-010/status) and 9 more." in notice.detail
    assert notice.path == f"/plans/{plan_digest(0)}/#probes"


def test_rate_that_may_reach_the_minimum_is_not_told_of() -> None:
    project = factories.make_project()

    night(project, 0, matching=18, minimum=0.95)

    assert told(project) == []


def test_alarm_is_raised_once_ended_and_raised_again() -> None:
    project = factories.make_project()
    for number, matching in enumerate([6, 5, 20, 6]):
        night(project, number, matching, minimum=0.95)

    assert states(project) == [NoticeState.RESOLVED, NoticeState.OPEN]


def test_plan_without_probes_or_verified_ones_ends_no_alarm() -> None:
    project = factories.make_project()
    night(project, 0, matching=6, minimum=0.95)

    weigh(project, 1, minimum=0.95)
    note(project, {"a": "unverified"}, plan=2)
    weigh(project, 2, minimum=0.95)

    assert states(project) == [NoticeState.OPEN]


def test_each_build_and_suite_has_an_alarm_of_its_own() -> None:
    project = factories.make_project()
    night(project, 0, matching=6, minimum=0.95)
    night(project, 1, matching=20, minimum=0.95, build=OTHER_BUILD)
    night(project, 2, matching=6, minimum=0.95, build=OTHER_BUILD)

    assert states(project) == [NoticeState.OPEN, NoticeState.OPEN]


def test_old_plan_that_is_concluded_anew_is_no_news() -> None:
    project = factories.make_project()
    night(project, 1, matching=20, minimum=0.95)

    night(project, 0, matching=6, minimum=0.95)

    assert told(project) == []


def test_drop_below_what_the_build_had_before_is_told_of_and_ends_with_it() -> None:
    project = factories.make_project()
    for number in range(10):
        night(project, number, matching=19)
    assert told(project) == []

    for number in range(10, 13):
        night(project, number, matching=13)
    assert states(project) == [NoticeState.OPEN]
    (notice,) = told(project)
    assert "95% in its first" in notice.detail
    assert "65% in the newest" in notice.detail
    night(project, 13, matching=19)

    assert states(project) == [NoticeState.RESOLVED]


def test_other_probes_are_not_compared() -> None:
    project = factories.make_project()
    for number in range(10):
        night(project, number, matching=20, of=20)

    # As many match as before, of twice as many probes.
    for number in range(10, 14):
        night(project, number, matching=20, of=40)

    assert told(project) == []


@pytest.mark.django_db(transaction=True)
def test_plans_concluded_at_once_raise_one_alarm() -> None:
    project = factories.make_project()
    for number in range(3):
        note(project, outcomes(2, 20), plan=number)

    outcomes_ = at_once([lambda n=n: weigh(project, n, minimum=0.9) for n in range(3)])  # type: ignore[misc]

    assert outcomes_ == [None] * 3
    assert states(project) == [NoticeState.OPEN]
    assert MatchRate.objects.count() == 3


def nights(*matched: int, of: int = 20) -> list[Counts]:
    return [Counts(count, 0, of - count, 0) for count in matched]


def test_drop_needs_nights_and_probes_to_compare_with() -> None:
    assert drop_in([]) is None
    assert drop_in(nights(20, 20, 20)) is None
    # Fewer than fifty probes say nothing of what is usual.
    assert drop_in(nights(10, 10, 10, 0, 0, of=10)) is None
    assert drop_in(nights(20, 20, 20, 5)) is not None


def test_single_bad_probe_of_a_night_is_no_drop() -> None:
    assert drop_in(nights(*[20] * 10, 19)) is None
    assert drop_in(nights(*[19, 20] * 20, 18)) is None


def test_slow_drop_is_found_over_several_nights() -> None:
    usual = [19, 20, 19, 19, 18, 20, 19, 19, 19, 20]
    lower = [17, 16, 17, 16, 17, 17, 16, 17, 16, 17]
    found = [drop_in(nights(*usual, *lower[:count])) for count in range(1, 11)]

    assert found[0] is None
    assert found[-1] is not None
    assert found[-1].before.matched / found[-1].before.verified > 0.9


def test_rate_that_was_always_low_has_not_dropped() -> None:
    assert drop_in(nights(*[4] * 30)) is None


def test_drop_ends_with_a_night_as_good_as_usual() -> None:
    assert drop_in(nights(*[20] * 10, 10, 10, 10)) is not None
    assert drop_in(nights(*[20] * 10, 10, 10, 10, 20)) is None
