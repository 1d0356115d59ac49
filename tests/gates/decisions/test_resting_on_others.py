"""Conclusions that rest on other plans: of the same commit, and on a baseline that came later."""

from datetime import timedelta

import pytest

from gates.checks.operations.concluding import conclude_plan
from gates.decisions.models import Conclusion
from gates.decisions.queries import newest_conclusion, unconcluded_plans
from gates.verdicts.models import BaselineKind, ChosenBaseline
from gates.verdicts.operations.baselines import adopt_baseline
from gates.verdicts.queries.baselines import current_baseline
from lanes.plans.models import Plan
from lanes.plans.operations import cancelling, lifecycle
from lanes.projects.models import Project
from tests.gates.decisions.lives import comparable, fresh_content
from tests.gates.decisions.stories import arm
from tests.gates.factories import (
    SCENARIOS,
    Teller,
    concluded,
    make_baseline,
    make_gated_project,
    make_scored_plan,
    run_lanes,
    steady,
    verdict,
)
from tests.lanes.factories import BASE_SHA, NOW

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

FEW = [s for s in SCENARIOS if s[0].endswith(("0", "1"))]


def make_concluded(project: Project, tell: Teller, **fields: object) -> Plan:
    plan = make_scored_plan(project, **{"scenarios": FEW, **fields})  # type: ignore[arg-type]
    run_lanes(plan, tell)
    concluded(plan)
    plan.refresh_from_db()
    return plan


def come_to_rest() -> int:
    """Do what the sweep asks for until it finds nothing; return how often something was concluded."""
    for round_number in range(10):
        waiting = unconcluded_plans(at=NOW)
        if not waiting:
            return round_number
        for plan in waiting:
            conclude_plan(plan, at=NOW)
    raise AssertionError("there is always something to conclude")


def newest(plan: Plan) -> Conclusion:
    found = newest_conclusion(plan)
    assert found is not None
    return found


def reasons(plan: Plan) -> set[str]:
    return set(newest(plan).content["data_reasons"])


def adopt(plan: Plan) -> None:
    adopt_baseline(
        plan.project, plan, kind=BaselineKind.ROLLING, reason="read", actor="user:ada", at=NOW
    )


# Plans of one commit


def test_runs_of_a_later_plan_of_the_commit_reach_the_earlier() -> None:
    project = make_gated_project()
    make_baseline(project, scenarios=FEW)
    earlier = make_concluded(project, steady("good"))
    alone = newest(earlier)
    assert verdict(alone, rubric="correctness")["runs"]["c"] == 12

    later = make_concluded(project, steady("bad", drop=4))

    assert unconcluded_plans(at=NOW) == [earlier]
    assert come_to_rest() == 1
    assert newest(earlier).pk != alone.pk
    for plan in (earlier, later):
        assert verdict(newest(plan), rubric="correctness")["runs"]["c"] == 24
        fresh = fresh_content(plan, at=NOW)
        assert comparable(newest(plan).content) == comparable(fresh)
    earlier.refresh_from_db()
    assert earlier.generation == 1


def test_plan_that_is_concluded_again_without_new_runs_leaves_others_alone() -> None:
    project = make_gated_project()
    earlier, later = (make_concluded(project, steady(tag)) for tag in ("one", "two"))
    come_to_rest()

    lifecycle.bump_inputs(later, at=NOW)
    conclude_plan(Plan.objects.get(pk=later.pk), at=NOW)

    assert unconcluded_plans(at=NOW) == []
    assert (
        newest(earlier).content["own_evidence_digest"]
        != newest(later).content["own_evidence_digest"]
    )


def test_runs_of_an_unverified_plan_do_not_reach_a_verified_one() -> None:
    project = make_gated_project()
    verified = make_concluded(project, steady("one"))
    Plan.objects.filter(pk=verified.pk).update(is_verified=True)

    make_concluded(project, steady("two"))

    assert unconcluded_plans(at=NOW) == []


def test_runs_of_a_cancelled_plan_still_count_for_the_next_of_its_commit() -> None:
    project = make_gated_project()
    make_baseline(project, scenarios=FEW)
    bad = make_scored_plan(project, scenarios=FEW)
    run_lanes(bad, steady("bad", drop=4))
    cancelling.cancel_plan(bad, reason="looks bad", at=NOW)

    again = make_concluded(project, steady("good"))

    assert verdict(newest(again), rubric="correctness")["runs"]["c"] == 24
    assert newest_conclusion(bad) is None


# A baseline that comes later


def test_plans_without_a_baseline_are_concluded_anew_when_one_is_adopted() -> None:
    project = make_gated_project()
    first = make_concluded(project, steady("first"), sha=BASE_SHA)
    waiting = make_concluded(project, steady("candidate"))
    assert "NO_BASELINE" in reasons(waiting)

    adopt(first)
    assert unconcluded_plans(at=NOW) == [waiting]
    come_to_rest()

    assert "NO_BASELINE" not in reasons(waiting)
    assert ChosenBaseline.objects.get(plan=waiting).baseline == first
    assert "NO_BASELINE" in reasons(first)


def test_plan_keeps_the_baseline_that_it_has_when_another_is_adopted() -> None:
    project = make_gated_project()
    make_baseline(project, scenarios=FEW)
    decided = make_concluded(project, steady("candidate"))
    other = make_concluded(project, steady("other"), sha="3" * 40)
    come_to_rest()

    adopt(other)

    assert unconcluded_plans(at=NOW) == []
    assert ChosenBaseline.objects.get(plan=decided).baseline != other


def test_only_the_newest_plan_of_a_head_that_governs_is_woken() -> None:
    project = make_gated_project()
    first = make_concluded(project, steady("first"), sha=BASE_SHA)
    make_concluded(project, steady("one"), sha="4" * 40)
    newest_of_head = make_concluded(project, steady("two"), sha="4" * 40)
    superseded = make_concluded(project, steady("three"), sha="5" * 40)
    Plan.objects.filter(pk=superseded.pk).update(superseded_at=NOW)
    Plan.objects.filter(pk=newest_of_head.pk).update(superseded_at=None)
    come_to_rest()

    adopt(first)

    assert unconcluded_plans(at=NOW) == [newest_of_head]


def test_baseline_that_serves_no_arm_is_not_kept() -> None:
    project = make_gated_project()
    make_baseline(project, scenarios=FEW)
    other_model = {"arms": [arm("candidate", model="sol-2")]}
    waiting = make_concluded(project, steady("candidate"), **other_model)
    assert "NO_BASELINE" in reasons(waiting)
    assert not ChosenBaseline.objects.filter(plan=waiting).exists()

    arms_at_base = {"arms": [arm("candidate", model="sol-2", sha=BASE_SHA)]}
    theirs = make_concluded(
        project,
        steady("first"),
        sha=BASE_SHA,
        # Another pull request, which takes nobody's place.
        edit=lambda document: document["source"].update(pull_request=13),
        **arms_at_base,
    )
    come_to_rest()
    adopt(theirs)
    come_to_rest()

    assert "NO_BASELINE" not in reasons(waiting)
    assert ChosenBaseline.objects.get(plan=waiting).baseline == theirs


def test_earlier_night_that_is_concluded_again_takes_the_baseline_back_from_none() -> None:
    project = make_gated_project(baseline={"auto_adopt": True})
    nights = []
    for number in (1, 2):
        night = make_scored_plan(
            project,
            scenarios=FEW,
            sha=str(number) * 40,
            event="schedule",
            edit=lambda document: document["source"].update(
                ref=f"refs/heads/{project.default_branch}", pull_request=None
            ),
        )
        registered_at = NOW + timedelta(days=number)
        Plan.objects.filter(pk=night.pk).update(is_verified=True, registered_at=registered_at)
        run_lanes(night, steady(f"night {number}"))
        concluded(night)
        nights.append(night)
    assert current_baseline(project, "support", BaselineKind.ROLLING) == nights[1]

    lifecycle.bump_inputs(nights[0], at=NOW)
    come_to_rest()

    assert current_baseline(project, "support", BaselineKind.ROLLING) == nights[1]
