"""A nightly that turns out red is told of once; a green one ends what was told."""

from datetime import datetime, timedelta

import pytest

from gates.checks import tasks as check_tasks
from gates.decisions.models import Conclusion
from gates.decisions.operations.conclusion import conclude
from lanes.plans import queries as plan_queries
from lanes.plans.models import Plan
from lanes.plans.operations.lifecycle import close_plan
from lanes.projects.models import Notice, NoticeKind, NoticeState, Project
from tests.gates.factories import (
    RUBRICS,
    SCENARIOS,
    STAGES,
    concluded,
    make_baseline,
    make_gated_project,
    run_lanes,
    steady,
)
from tests.lanes.factories import NOW, make_attempt, plan_document, register
from tests.lanes.threads import at_once

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)


def make_nightly(
    project: Project, night: int = 0, *, event: str = "schedule", sha: str | None = None
) -> Plan:
    """Register the nightly of a night, each at a commit of its own; nights before 0 are possible."""
    at = NOW + night * DAY
    policy = plan_queries.current_policy(project)
    assert policy is not None
    commit = sha or f"{1000 + night:040x}"
    document = plan_document(
        project,
        policy_digest=policy.digest,
        at=at,
        epochs=2,
        scenarios=SCENARIOS,
        source={
            "event": event,
            "ref": "refs/heads/main",
            "pull_request": None,
            "tested_sha": commit,
            "head_sha": commit,
        },
        lane={"expects": {"run": ["result", "judge"], "lane": []}},
        rubrics=sorted(RUBRICS),
        stages=STAGES,
    )
    return register(document, project=project, at=at)


def run_green(plan: Plan, *, at: datetime | None = None) -> Conclusion:
    run_lanes(plan, steady("candidate"), at=at or plan.registered_at)
    return concluded(plan, at=at or plan.registered_at)


def finish_silently(plan: Plan) -> None:
    """Close a plan without asking for its conclusion, which an eager task would make at once."""
    Plan.objects.filter(pk=plan.pk).update(closed_at=NOW)


def told(project: Project) -> list[Notice]:
    return list(Notice.objects.filter(project=project, kind=NoticeKind.NIGHTLY_RED).order_by("pk"))


def states(project: Project) -> list[str]:
    return [notice.state for notice in told(project)]


def test_red_nightly_is_told_of_with_its_title_and_its_page() -> None:
    project = make_gated_project()
    plan = make_nightly(project)

    conclusion = concluded(plan)

    (notice,) = told(project)
    assert conclusion.conclusion == "failure"
    assert (notice.subject, notice.state) == ("Nightly support: failure", NoticeState.OPEN)
    assert notice.detail == (
        f"{conclusion.title}. Plan {plan.digest[7:19]} at commit 000000000000,"
        " registered at 2026-11-29 12:00 UTC."
    )
    assert notice.path == f"/plans/{plan.digest}/"


def test_nightly_concluded_again_with_the_same_word_is_not_told_of_again() -> None:
    project = make_gated_project()
    plan = make_nightly(project)
    concluded(plan)

    # A lane begins again and leaves as little.
    make_attempt(plan)
    plan.refresh_from_db()
    concluded(plan)

    assert Conclusion.objects.filter(plan=plan).count() == 2
    assert states(project) == [NoticeState.OPEN]


def test_nightly_red_for_another_reason_is_told_of_anew() -> None:
    project = make_gated_project()
    plan = make_nightly(project)
    concluded(plan)

    again = run_green(plan)

    # There is no baseline yet.
    assert again.conclusion == "action_required"
    first, second = told(project)
    assert (first.state, second.state) == (NoticeState.RESOLVED, NoticeState.OPEN)
    assert second.subject == "Nightly support: action required"


@pytest.mark.slow
def test_nightly_that_becomes_green_and_red_again_is_told_of_again() -> None:
    project = make_gated_project()
    make_baseline(project)
    plan = make_nightly(project)
    concluded(plan)
    assert run_green(plan).conclusion == "success"
    assert states(project) == [NoticeState.RESOLVED]

    # The first attempts stand, so a worse one beside them shows.
    run_lanes(plan, steady("candidate", drop=8), at=NOW)
    assert concluded(plan).conclusion in {"failure", "action_required"}

    assert states(project) == [NoticeState.RESOLVED, NoticeState.OPEN]


@pytest.mark.slow
def test_next_green_nightly_ends_the_earlier_reds_and_not_a_later_one() -> None:
    project = make_gated_project()
    make_baseline(project)
    for night in (1, 2, 4):
        concluded(make_nightly(project, night), at=NOW + night * DAY)
    late_green = make_nightly(project, 3)

    assert run_green(late_green).conclusion == "success"

    assert states(project) == [NoticeState.RESOLVED, NoticeState.RESOLVED, NoticeState.OPEN]


@pytest.mark.slow
def test_green_plan_that_is_no_nightly_ends_nothing() -> None:
    project = make_gated_project()
    make_baseline(project)
    concluded(make_nightly(project))

    assert run_green(make_nightly(project, 1, event="push")).conclusion == "success"

    assert states(project) == [NoticeState.OPEN]


@pytest.mark.slow
def test_neutral_nightly_is_not_told_of_and_ends_no_other() -> None:
    project = make_gated_project(inconclusive={"schedule": "neutral"})
    make_baseline(project)
    concluded(make_nightly(project))
    plan = make_nightly(project, 1)
    run_lanes(plan, steady("candidate", drop=1, only="refunds"), at=plan.registered_at)

    assert concluded(plan, at=plan.registered_at).conclusion == "neutral"

    assert states(project) == [NoticeState.OPEN]


def test_red_plan_of_another_event_is_not_told_of() -> None:
    project = make_gated_project()

    assert concluded(make_nightly(project, event="push")).conclusion == "failure"

    assert told(project) == []


def test_cancelled_nightly_is_not_told_of() -> None:
    project = make_gated_project()
    plan = make_nightly(project)
    close_plan(plan, at=NOW)
    Plan.objects.filter(pk=plan.pk).update(cancelled_at=NOW)

    assert conclude(plan, at=NOW) is None

    assert told(project) == []


def test_superseded_nightly_is_told_of_until_a_later_one_is_concluded() -> None:
    project = make_gated_project()
    first, second, third = (make_nightly(project, night) for night in range(3))
    first.refresh_from_db()
    assert first.superseded_at is not None

    # Each is overtaken before anybody decides it: still not silence.
    concluded(first, at=NOW + timedelta(hours=5))
    assert states(project) == [NoticeState.OPEN]
    concluded(third, at=NOW + 3 * DAY)
    concluded(second, at=NOW + 3 * DAY)

    assert [notice.path.split("/")[2] for notice in told(project)] == [first.digest, third.digest]


def test_of_nightlies_that_nobody_concluded_for_days_the_newest_is_told_of() -> None:
    project = make_gated_project()
    plans = [make_nightly(project, night) for night in range(4)]

    for plan in plans:
        concluded(plan, at=NOW + 30 * DAY)

    (notice,) = told(project)
    assert notice.path.split("/")[2] == plans[-1].digest


@pytest.mark.django_db(transaction=True)
def test_nightly_whose_lanes_never_started_is_red_at_its_deadline() -> None:
    project = make_gated_project()
    plan = make_nightly(project)
    # The sweep reads the clock: the deadline has passed, whatever the time is.
    Plan.objects.filter(pk=plan.pk).update(deadline_at=datetime(2020, 1, 1, tzinfo=NOW.tzinfo))

    check_tasks.sweep_conclusions()

    (notice,) = told(project)
    assert "3 lanes" in notice.detail
    plan.refresh_from_db()
    assert plan.closed_at is None
    assert plan.state == "CONCLUDED"


@pytest.mark.django_db(transaction=True)
def test_nightly_concluded_twice_at_once_is_told_of_once() -> None:
    project = make_gated_project()
    plan = make_nightly(project)
    finish_silently(plan)

    outcomes = at_once([lambda: conclude(plan, at=NOW)] * 3)

    assert len({str(outcome) for outcome in outcomes}) == 1, outcomes
    assert states(project) == [NoticeState.OPEN]


@pytest.mark.django_db(transaction=True)
def test_notice_is_stored_with_the_conclusion_or_not_at_all() -> None:
    project = make_gated_project()
    plan = make_nightly(project)
    finish_silently(plan)

    def fail(_: Conclusion) -> None:
        raise RuntimeError("the transaction ends here")

    with pytest.raises(RuntimeError):
        conclude(plan, at=NOW, also=fail)

    assert told(project) == []
    assert not Conclusion.objects.exists()
