"""Decision records: the same evidence gives the same records, in whatever order it came."""

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evalhub.protocol.canonical import document_digest
from evidence.store import queries as store
from evidence.store.models import Item, JudgeCall, Run, Score
from gates.verdicts.models import DecisionRecord
from gates.verdicts.queries.evaluation import Evaluation, evaluate
from gates.verdicts.queries.records import ENGINE_VERSION, evidence_digest
from lanes.plans.models import Plan
from tests.gates.factories import (
    SCENARIOS,
    make_baseline,
    make_conclusion,
    make_gated_project,
    make_scored_plan,
    run_lanes,
    steady,
    verdict,
)

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

FEW = [s for s in SCENARIOS if s[0].endswith(("0", "1"))]


def digests(evaluation: Evaluation) -> list[str]:
    return [draft.digest for draft in evaluation.drafts]


@given(dice=st.randoms(use_true_random=False))
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_records_do_not_depend_on_the_order_of_rows(sealed_plan: Plan, dice: Random) -> None:
    expected = digests(evaluate(sealed_plan))

    _shuffle_rows(sealed_plan, dice)

    assert digests(evaluate(sealed_plan)) == expected


@pytest.fixture
def sealed_plan() -> Plan:
    project = make_gated_project()
    make_baseline(project, scenarios=FEW)
    plan = make_scored_plan(project, scenarios=FEW)
    run_lanes(plan, steady("candidate", drop=1))
    run_lanes(plan, steady("again"), lanes=["ordinary-1"])
    return plan


def _shuffle_rows(plan: Plan, dice: Random) -> None:
    """Store the plan's runs and scores again in another order, under new ids."""
    runs = list(Run.objects.filter(plan=plan))
    dice.shuffle(runs)
    for run in runs:
        scores = list(Score.objects.filter(run=run))
        items, calls = [i.pk for i in run.items.all()], [c.pk for c in run.judge_calls.all()]
        Score.objects.filter(run=run).delete()
        old = run.pk
        run.pk = None
        run.epoch += 1000
        run.save(force_insert=True)
        Item.objects.filter(pk__in=items).update(run=run)
        JudgeCall.objects.filter(pk__in=calls).update(run=run)
        Run.objects.filter(pk=old).delete()
        Run.objects.filter(pk=run.pk).update(epoch=run.epoch - 1000)
        dice.shuffle(scores)
        for score in scores:
            score.pk, score.run = None, run
        Score.objects.bulk_create(scores)


def test_record_is_named_by_its_content_and_says_what_it_rests_on() -> None:
    project = make_gated_project()
    baseline = make_baseline(project, scenarios=FEW)
    conclusion = make_conclusion(project, steady("candidate"), scenarios=FEW)

    row = verdict(conclusion, rubric="correctness")

    record = DecisionRecord.objects.get(digest=row["record"])
    content = record.content
    assert document_digest(content) == record.digest
    assert content["plan"] == conclusion.plan.digest
    assert (content["arm"], content["rubric"], content["slice"]) == (
        "candidate",
        "correctness",
        None,
    )
    assert content["comparison"] == "history"
    assert content["policy_digest"] == conclusion.plan.policy.digest
    assert content["evidence_digest_b"] == evidence_digest([baseline.plan_id])
    assert content["evidence_digest_c"] == evidence_digest([conclusion.plan_id])
    assert content["engine_version"] == ENGINE_VERSION == conclusion.content["engine_version"]
    assert conclusion.content["evidence_digest"] == content["evidence_digest_c"]


def test_evidence_digest_is_that_of_the_sorted_record_items() -> None:
    plan = make_scored_plan(make_gated_project(), scenarios=FEW)
    run_lanes(plan, steady("candidate"))
    items = store.record_items([plan.pk])

    digest = evidence_digest([plan.pk])

    rows: Sequence[list[str]] = sorted([i.plan, i.attempt, i.path, i.sha256] for i in items)
    assert len(rows) == 2 * len(FEW) * 2
    assert digest == document_digest(rows)
    assert digest != evidence_digest([])
