"""What a commit's check should say, over all plans that speak on it."""

from datetime import timedelta

import pytest

from gates.checks import queries
from gates.checks.models import Check
from gates.checks.operations.desired import desire_check
from lanes.plans.models import Plan
from lanes.plans.operations import lifecycle
from lanes.plans.operations.cancelling import cancel_plan
from tests.gates.checks.factories import conclude, make_check, make_checked_project
from tests.lanes.factories import HEAD_SHA, NOW, make_attempt, make_plan, make_project

pytestmark = pytest.mark.django_db
LATER = NOW + timedelta(minutes=5)


def _refreshed(plan: Plan) -> Check:
    return make_check(plan, at=LATER)


def test_registered_plan_is_queued() -> None:
    plan = make_plan(make_checked_project())

    check = make_check(plan)

    assert (check.name, check.head_sha) == ("evalhub / support", HEAD_SHA)
    assert (check.status, check.conclusion, check.started_at) == ("queued", None, None)
    assert check.title == "Registered; no lane has begun"
    assert plan.digest in check.summary
    assert check.details_url.endswith(f"/plans/{plan.digest}/")
    assert check.next_attempt_at == NOW
    assert not check.is_delivered


def test_first_attempt_puts_the_check_in_progress() -> None:
    plan = make_plan(make_checked_project())
    attempt = make_attempt(plan, at=NOW)

    check = _refreshed(plan)

    assert (check.status, check.started_at) == ("in_progress", attempt.opened_at)


def test_conclusion_completes_the_check() -> None:
    plan = make_plan(make_checked_project())
    make_check(plan)
    conclude(plan, "failure", at=LATER)

    check = _refreshed(plan)

    assert (check.status, check.conclusion) == ("completed", "failure")
    assert check.completed_at == LATER
    assert check.title.startswith("0 of 1 rubric passes")
    assert check.desired_version == 2


def test_same_state_is_no_new_version() -> None:
    plan = make_plan(make_checked_project())
    before = make_check(plan)

    after = _refreshed(plan)

    assert (after.pk, after.desired_version) == (before.pk, 1)
    assert (after.desired_at, after.looked_at) == (NOW, LATER)


def test_same_conclusion_decided_again_is_no_new_version() -> None:
    plan = make_plan(make_checked_project())
    conclude(plan, "success")
    before = make_check(plan)
    lifecycle.bump_inputs(plan, at=NOW)
    conclude(plan, "success", at=LATER)

    after = _refreshed(plan)

    assert after.desired_version == before.desired_version
    assert after.completed_at == NOW


def test_late_evidence_reopens_the_check() -> None:
    plan = make_plan(make_checked_project())
    make_attempt(plan)
    conclude(plan, "success")
    make_check(plan)
    plan.refresh_from_db()
    lifecycle.bump_inputs(plan, at=NOW, late=True)

    check = _refreshed(plan)

    assert (check.status, check.conclusion, check.completed_at) == ("in_progress", None, None)


def test_worst_conclusion_of_the_commit_counts() -> None:
    project = make_checked_project()
    good, bad = make_plan(project), make_plan(project)
    conclude(good, "success")
    conclude(bad, "action_required")

    check = _refreshed(good)

    assert check.conclusion == "action_required"
    assert check.details_url.endswith(f"/plans/{bad.digest}/")
    assert check.title.endswith("(worst of 2 plans)")
    assert Check.objects.count() == 1


def test_nothing_is_decided_while_one_plan_is_open() -> None:
    project = make_checked_project()
    decided, waiting = make_plan(project), make_plan(project)
    conclude(decided, "failure")

    assert _refreshed(waiting).status == "queued"


def test_newer_unverified_plan_hides_no_failure() -> None:
    project = make_checked_project()
    conclude(make_plan(project), "failure")
    newer = make_plan(project, at=LATER)
    conclude(newer, "success")

    assert _refreshed(newer).conclusion == "failure"


def test_newer_verified_plan_of_the_same_population_governs() -> None:
    project = make_checked_project()
    conclude(make_plan(project), "failure")
    newer = make_plan(project, at=LATER)
    Plan.objects.filter(pk=newer.pk).update(is_verified=True)
    conclude(newer, "success")

    assert _refreshed(newer).conclusion == "success"


def test_newer_verified_plan_of_a_smaller_population_hides_no_failure() -> None:
    project = make_checked_project()
    conclude(make_plan(project, epochs=2), "failure")
    newer = make_plan(project, at=LATER, epochs=1)
    Plan.objects.filter(pk=newer.pk).update(is_verified=True)
    conclude(newer, "success")

    assert _refreshed(newer).conclusion == "failure"


def test_superseded_plan_keeps_its_failure_on_its_own_commit() -> None:
    project = make_checked_project()
    old = make_plan(project)
    conclude(old, "failure")
    Plan.objects.filter(pk=old.pk).update(superseded_at=LATER)
    back_again = make_plan(project, at=LATER)
    conclude(back_again, "success")

    check = _refreshed(back_again)

    assert (check.conclusion, check.details_url.endswith(f"/plans/{old.digest}/")) == (
        "failure",
        True,
    )


def test_superseded_plan_gives_way_to_a_verified_one_that_covers_it() -> None:
    project = make_checked_project()
    old = make_plan(project)
    conclude(old, "failure")
    Plan.objects.filter(pk=old.pk).update(superseded_at=LATER)
    newer = make_plan(project, at=LATER)
    Plan.objects.filter(pk=newer.pk).update(is_verified=True)
    conclude(newer, "success")

    assert _refreshed(newer).conclusion == "success"


def test_cancelled_plan_is_not_counted_beside_another() -> None:
    project = make_checked_project()
    old = make_plan(project)
    make_attempt(old)
    cancel_plan(old, reason="the pull request was closed", at=LATER)
    other = make_plan(project, at=LATER)
    conclude(other, "success")

    assert _refreshed(other).conclusion == "success"


@pytest.mark.parametrize(
    ("before", "shown"), [("failure", "failure"), ("success", "cancelled"), (None, "cancelled")]
)
def test_cancelling_a_plan_that_runs_again_gets_nobody_rid_of_a_failure(
    before: str | None, shown: str
) -> None:
    project = make_checked_project()
    plan = make_plan(project)
    if before is not None:
        conclusion = conclude(plan, before)
        lifecycle.note_conclusion(plan, before, inputs_version=conclusion.inputs_version)
    make_attempt(plan)
    cancel_plan(plan, reason="the queue let it go", at=LATER)
    assert _refreshed(plan).conclusion == shown

    conclude(make_plan(project, at=LATER), "success")

    assert _refreshed(plan).conclusion == ("failure" if before == "failure" else "success")


def test_commit_of_superseded_plans_alone_still_shows_their_conclusion() -> None:
    plan = make_plan(make_checked_project())
    conclude(plan, "failure")
    Plan.objects.filter(pk=plan.pk).update(superseded_at=LATER)

    assert _refreshed(plan).conclusion == "failure"


def test_cancelled_plans_cancel_the_check() -> None:
    plan = make_plan(make_checked_project())
    make_check(plan)
    Plan.objects.filter(pk=plan.pk).update(cancelled_at=LATER)

    check = _refreshed(plan)

    assert (check.status, check.conclusion) == ("completed", "cancelled")
    assert check.completed_at == LATER


def test_unverified_plan_has_no_check_unless_the_project_says_so() -> None:
    plan = make_plan(make_project(checks_for_unverified=False))

    assert desire_check(plan, at=NOW) is None
    assert not Check.objects.exists()


def test_verified_plan_has_a_check() -> None:
    plan = make_plan(make_project(checks_for_unverified=False))
    Plan.objects.filter(pk=plan.pk).update(is_verified=True)

    assert make_check(plan).status == "queued"


def test_plan_without_a_head_has_no_check() -> None:
    plan = make_plan(make_checked_project(), source={"head_sha": None})

    assert desire_check(plan, at=NOW) is None
    assert queries.check_of_plan(plan) is None


def test_change_does_not_cut_a_pause_short() -> None:
    plan = make_plan(make_checked_project())
    check = make_check(plan)
    pause = LATER + timedelta(minutes=9)
    Check.objects.filter(pk=check.pk).update(next_attempt_at=pause)
    make_attempt(plan)

    check = _refreshed(plan)

    assert check.desired_version == 2
    assert check.next_attempt_at == pause


class TestLaggingPlans:
    def test_names_a_plan_whose_check_was_never_asked_for(self) -> None:
        plan = make_plan(make_checked_project())
        make_plan(make_project(checks_for_unverified=False))

        assert list(queries.lagging_plans()) == [plan]

    def test_names_nobody_when_all_is_noticed(self) -> None:
        plan = make_plan(make_checked_project())
        make_attempt(plan)
        make_check(plan)

        assert list(queries.lagging_plans()) == []

    def test_names_a_plan_that_began_unnoticed(self) -> None:
        plan = make_plan(make_checked_project())
        make_check(plan)
        make_attempt(plan)

        assert list(queries.lagging_plans()) == [plan]

    def test_names_a_plan_that_runs_again_unnoticed(self) -> None:
        plan = make_plan(make_checked_project())
        make_attempt(plan)
        conclude(plan)
        make_check(plan)
        assert list(queries.lagging_plans()) == []

        lifecycle.bump_inputs(plan, at=NOW, late=True)

        assert list(queries.lagging_plans()) == [plan]

    @pytest.mark.parametrize("mark", ["cancelled_at", "superseded_at"])
    def test_names_a_plan_that_was_marked_unnoticed(self, mark: str) -> None:
        plan = make_plan(make_checked_project())
        make_check(plan)
        Plan.objects.filter(pk=plan.pk).update(**{mark: LATER})

        assert list(queries.lagging_plans()) == [plan]

    def test_names_a_superseded_plan_that_runs_again_unnoticed(self) -> None:
        plan = make_plan(make_checked_project())
        make_attempt(plan)
        conclude(plan)
        Plan.objects.filter(pk=plan.pk).update(superseded_at=NOW)
        make_check(plan, at=LATER)
        assert list(queries.lagging_plans()) == []

        lifecycle.bump_inputs(plan, at=NOW, late=True)

        assert list(queries.lagging_plans()) == [plan]
