"""What a conclusion says when evidence was removed; and that baselines keep theirs."""

from datetime import timedelta
from typing import Any

import pytest

from evalhub.tasks.names import TaskName
from evalhub.tasks.operations import record_sweep
from evidence.store.models import Pin, Segment
from evidence.store.operations import counting, purging, removals, retention
from evidence.store.operations.retention import Days
from gates.decisions.models import Conclusion
from gates.verdicts.models import BaselineKind
from gates.verdicts.operations import pins
from gates.verdicts.operations.baselines import BaselineNotEligibleError, adopt_baseline
from lanes.plans.models import Plan
from tests.gates.factories import (
    codes,
    concluded,
    make_baseline,
    make_gated_project,
    make_scored_plan,
    run_lanes,
    steady,
    verdicts,
)
from tests.lanes.factories import NOW

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

WHO: Any = {"reason": "A name was in it.", "actor": "user:maintainer"}


def make_candidate() -> Plan:
    project = make_gated_project()
    make_baseline(project)
    plan = make_scored_plan(project)
    run_lanes(plan, steady("candidate"))
    return plan


def said(conclusion: Conclusion) -> list[tuple[object, ...]]:
    """Return what each verdict says, without the record that it names."""
    rows = verdicts(conclusion)
    return [(row["rubric"], row["verdict"], row["delta"], row["n"]) for row in rows]


def one_segment(plan: Plan, segment_class: str) -> purging.Target:
    segment = Segment.objects.filter(attempt__lane__plan=plan, segment_class=segment_class).first()
    assert segment is not None
    return purging.one_segment(plan, segment.attempt.key, segment.seq)


def test_plan_whose_records_were_purged_is_never_green_again() -> None:
    plan = make_candidate()
    before = concluded(plan)
    assert before.conclusion == "success"

    purging.purge(one_segment(plan, "record"), at=NOW, **WHO)
    removals.sweep_removals(at=NOW)
    after = concluded(plan)

    assert after.conclusion == "action_required"
    found = codes(after)["purged"]
    assert (found["class"], found["effect"]) == ("evidence", "action_required")
    assert len(found["subjects"]) == 1
    assert "records of 1 attempt were removed" in after.title
    # What was scored stays scored.
    assert said(after) == said(before)
    plan.refresh_from_db()
    with pytest.raises(BaselineNotEligibleError, match="purged"):
        adopt_baseline(
            plan.project, plan, kind=BaselineKind.ROLLING, reason="no", actor="user:ada", at=NOW
        )


def test_baselines_are_pinned_and_keep_their_evidence() -> None:
    plan = make_candidate()
    concluded(plan)
    baseline = plan.project.baselines.get().plan
    counting.count_stored()
    retention.set_retention(plan.project, Days(5, 5), actor="user:ada", at=NOW)
    late = NOW + timedelta(days=100)

    assert pins.hold_baselines(at=late) == 1
    assert pins.hold_baselines(at=late) == 0
    record_sweep(TaskName.SWEEP_PINS, started_at=late, ended_at=late)
    while retention.sweep_retention(at=late):
        while removals.sweep_removals(at=late):
            pass

    assert Pin.objects.get().plan == baseline
    gone = Segment.objects.filter(removal__isnull=False)
    assert not gone.filter(attempt__lane__plan=baseline).exists()
    assert not Segment.objects.filter(attempt__lane__plan=plan, gone_at__isnull=True).exists()
