"""What registering a plan stores, answers and refuses."""

import pytest

from lanes.plans import queries
from lanes.plans.models import Lane, Plan
from tests.lanes import factories

pytestmark = pytest.mark.django_db


def test_registration_stores_plan_and_lanes() -> None:
    plan = factories.make_plan(epochs=2)

    assert plan.run_count == 6
    assert [lane.name for lane in queries.lanes_of(plan)] == ["ordinary-1", "ordinary-2"]
    assert queries.plan_document(plan).project == plan.project.name
    assert Plan.objects.count() == 1
    assert Lane.objects.filter(is_required=True).count() == 2
    attempt = factories.make_attempt(plan)
    assert attempt.number == 1
