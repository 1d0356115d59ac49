"""Lists of runs and refusals: in one order, by key, and counted."""

import pytest

from evidence.reader.queries import runs
from evidence.store.models import Run
from lanes.plans import queries as plan_queries
from lanes.plans.models import Plan
from tests.evidence.factories import judge_line
from tests.evidence.reader.factories import make_run, send
from tests.lanes.factories import make_attempt, make_plan, make_project

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

EVERYTHING = runs.RunFilter()


def make_filled_plan(*, epochs: int = 2) -> Plan:
    plan = make_plan(epochs=epochs)
    for scenario, outcome in [
        ("refund-twice", "failed"),
        ("refund-late", "passed"),
        ("order-lookup", "passed"),
    ]:
        for epoch in range(1, epochs + 1):
            make_run(scenario, plan=plan, epoch=epoch, outcome=outcome)
    return plan


def keys(page: runs.RunPage) -> list[str]:
    return [str(run) for run in page.runs]


def test_pages_go_through_all_runs_once_in_order() -> None:
    plan = make_filled_plan()

    first = runs.run_page(plan, wanted=EVERYTHING, after=None, limit=4)
    second = runs.run_page(plan, wanted=EVERYTHING, after=first.next, limit=4)

    assert keys(first) + keys(second) == [
        "order-lookup/candidate/1",
        "order-lookup/candidate/2",
        "refund-late/candidate/1",
        "refund-late/candidate/2",
        "refund-twice/candidate/1",
        "refund-twice/candidate/2",
    ]
    assert second.next is None


@pytest.mark.parametrize(
    ("wanted", "count"),
    [
        (runs.RunFilter(outcome="failed"), 2),
        (runs.RunFilter(outcome="none"), 0),
        (runs.RunFilter(lane="ordinary-1"), 2),
        (runs.RunFilter(arm="candidate"), 6),
        (runs.RunFilter(arm="other"), 0),
        (runs.RunFilter(scenario="late"), 2),
        (runs.RunFilter(scenarios=["order-lookup"]), 2),
        (runs.RunFilter(scenarios=[]), 0),
    ],
)
def test_filters_select_runs(wanted: runs.RunFilter, count: int) -> None:
    plan = make_filled_plan()

    assert len(runs.run_page(plan, wanted=wanted, after=None, limit=50).runs) == count


def test_runs_of_another_plan_are_not_listed() -> None:
    plan, other = make_plan(), make_plan()
    run = make_run(plan=other)

    assert runs.run_page(plan, wanted=EVERYTHING, after=run.pk, limit=5).runs == []
    assert runs.outcome_counts(plan) == {}


def test_failed_runs_come_in_the_order_of_what_the_baseline_passed() -> None:
    project = make_project()
    baseline, plan = make_plan(project, epochs=2), make_plan(project)
    for scenario, outcomes in {
        "order-lookup": ["passed", "passed"],
        "refund-late": ["passed", "failed"],
        "refund-twice": ["failed", "failed"],
    }.items():
        for epoch, outcome in enumerate(outcomes, start=1):
            make_run(scenario, plan=baseline, epoch=epoch, outcome=outcome)
        make_run(scenario, plan=plan, outcome="failed")
    against = {"candidate": runs.BaselineArm(baseline.pk, "candidate")}

    failed = runs.failed_runs(plan, baselines=against, limit=10)

    assert [
        (row.run.scenario, row.baseline_passed, row.baseline_runs, row.is_new) for row in failed
    ] == [
        ("order-lookup", 2, 2, True),
        ("refund-late", 1, 2, False),
        ("refund-twice", 0, 2, False),
    ]
    assert len(runs.failed_runs(plan, baselines={}, limit=2)) == 2


def test_run_without_a_result_counts_as_failed_and_has_no_outcome() -> None:
    plan = make_plan()
    run = make_run(plan=plan, outcome="infra_error", judged=[])
    Run.objects.filter(pk=run.pk).update(outcome=None)

    assert [row.run.pk for row in runs.failed_runs(plan, baselines={}, limit=5)] == [run.pk]
    assert runs.outcome_counts(plan) == {None: 1}


def test_deciding_score_is_that_of_the_last_stage_with_a_value() -> None:
    plan = make_plan()
    run = make_run(plan=plan, judged=[judge_line(0.0), judge_line(1.0, repeat=2)])
    policy = plan_queries.policy_document(plan.policy)

    scores = runs.deciding_scores([run], rubrics=["latency_s", "resolved"], policy=policy)

    assert scores == {run.pk: {"latency_s": 12.4, "resolved": 0.5}}


def test_unscored_rubric_has_no_value_rather_than_zero() -> None:
    plan = make_plan()
    run = make_run(plan=plan, judged=[judge_line(None)], scores={})
    policy = plan_queries.policy_document(plan.policy)

    scores = runs.deciding_scores([run], rubrics=["latency_s", "resolved"], policy=policy)

    assert scores.get(run.pk, {}) == {}


def test_run_of_key_prefers_the_epoch_and_takes_another() -> None:
    plan = make_filled_plan()

    same = runs.run_of_key(plan.pk, scenario="refund-twice", arm="candidate", epoch=2)
    other = runs.run_of_key(plan.pk, scenario="refund-twice", arm="candidate", epoch=9)

    assert (same and same.epoch, other and other.epoch) == (2, 1)
    assert runs.run_of_key(plan.pk, scenario="unknown", arm="candidate", epoch=1) is None


def test_refusals_are_paged_and_counted_over_the_whole_plan() -> None:
    attempt = make_attempt()
    send(attempt, {f"runs/unplanned/candidate/{n}/result.json": b"{}" for n in range(1, 4)})
    plan = attempt.lane.plan

    first = runs.refusal_page(plan, category="", before=None, limit=2)
    second = runs.refusal_page(plan, category="", before=first.next, limit=2)

    assert len({refusal.path for refusal in first.refusals + second.refusals}) == 3
    assert second.next is None
    assert sum(first.counts.values()) == 3
    assert runs.refusal_page(plan, category="stale", before=None, limit=2).refusals == []


def test_lane_attempts_count_items_and_refusals_apart() -> None:
    plan = make_plan()
    earlier = make_attempt(plan)
    make_run(attempt=earlier)
    send(earlier, {f"runs/unplanned/candidate/{n}/result.json": b"{}" for n in range(1, 4)})
    newer = make_attempt(plan)

    found = runs.lane_attempts(plan, "ordinary-1")

    assert [(row.attempt.key, row.accepted, row.refused) for row in found] == [
        (newer.key, 0, 0),
        (earlier.key, 3, 3),
    ]
