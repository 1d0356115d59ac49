"""Nothing is concluded, and no baseline made, while a part of the rows is being made again."""

import pytest

from evidence.store.models import PlanCopy
from gates.decisions.models import Conclusion
from gates.decisions.operations.conclusion import conclude
from gates.verdicts.models import BaselineKind
from gates.verdicts.operations.baselines import BaselineNotEligibleError, adopt_baseline
from lanes.plans.operations.lifecycle import close_plan
from tests.gates.factories import (
    concluded,
    make_baseline,
    make_gated_project,
    make_scored_plan,
    run_lanes,
    steady,
)
from tests.lanes.factories import NOW

pytestmark = pytest.mark.django_db


def test_plan_is_concluded_once_all_of_its_rows_are_there() -> None:
    plan = make_scored_plan(make_gated_project())
    run_lanes(plan, steady("candidate"))
    PlanCopy.objects.create(plan=plan, rebuild_counted=3)
    close_plan(plan, at=NOW)

    assert conclude(plan, at=NOW) is None
    assert not Conclusion.objects.exists()

    PlanCopy.objects.update(rebuild_counted=None)
    assert conclude(plan, at=NOW) is not None


def test_plan_waits_for_the_rows_of_its_baseline_too() -> None:
    project = make_gated_project()
    baseline = make_baseline(project, steady("baseline")).plan
    plan = make_scored_plan(project)
    run_lanes(plan, steady("candidate"))
    copy = PlanCopy.objects.create(plan=baseline, rebuild_counted=0)

    assert conclude(plan, at=NOW) is None

    copy.delete()
    assert concluded(plan).plan == plan


def test_no_plan_becomes_a_baseline_by_a_part_of_its_rows() -> None:
    project = make_gated_project()
    plan = make_scored_plan(project)
    run_lanes(plan, steady("candidate"))
    concluded(plan)
    plan.refresh_from_db()
    PlanCopy.objects.create(plan=plan, rebuild_counted=0)

    with pytest.raises(BaselineNotEligibleError, match=r"let `manage\.py reindex` come"):
        adopt_baseline(
            project, plan, kind=BaselineKind.ROLLING, reason="read", actor="user:anna", at=NOW
        )
