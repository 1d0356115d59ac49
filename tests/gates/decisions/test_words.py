"""The word of the newest conclusion lies with the plan, whoever concluded it."""

from importlib import import_module

import pytest
from django.apps import apps

from gates.decisions.operations import words
from lanes.plans.models import Plan
from tests.gates.factories import concluded, make_gated_project, make_scored_plan, run_lanes, steady

pytestmark = pytest.mark.django_db


def make_concluded_plan() -> Plan:
    plan = make_scored_plan(make_gated_project())
    run_lanes(plan, steady("candidate"))
    concluded(plan)
    plan.refresh_from_db()
    return plan


def as_an_earlier_release_left_it(plan: Plan, *, word: str | None = None, version: int = 0) -> None:
    Plan.objects.filter(pk=plan.pk).update(conclusion=word, conclusion_version=version)


def test_concluding_writes_the_word() -> None:
    plan = make_concluded_plan()

    assert plan.conclusion == "action_required"
    assert plan.conclusion_version == plan.concluded_version > 0
    assert words.copy_newer_words() == 0


def test_sweep_copies_the_word_of_a_conclusion_by_an_earlier_release() -> None:
    plan = make_concluded_plan()
    as_an_earlier_release_left_it(plan, word="success", version=1)

    assert words.copy_newer_words() == 1

    plan.refresh_from_db()
    assert (plan.conclusion, plan.conclusion_version) == ("action_required", plan.concluded_version)
    assert words.copy_newer_words() == 0


def test_plan_that_lost_its_conclusion_is_found_as_not_concluded() -> None:
    plan = make_scored_plan(make_gated_project())
    Plan.objects.filter(pk=plan.pk).update(concluded_version=1, conclusion="success")

    assert words.copy_newer_words() == 1

    plan.refresh_from_db()
    assert (plan.conclusion, plan.conclusion_version) == (None, 1)
    assert words.copy_newer_words() == 0


def test_migration_gives_each_plan_its_word() -> None:
    plan, open_plan = make_concluded_plan(), make_scored_plan(make_gated_project())
    as_an_earlier_release_left_it(plan)
    migration = import_module("gates.decisions.migrations.0002_copy_words_to_plans")

    migration.copy_words(apps, None)

    plan.refresh_from_db()
    open_plan.refresh_from_db()
    assert (plan.conclusion, plan.conclusion_version) == ("action_required", plan.concluded_version)
    assert (open_plan.conclusion, open_plan.conclusion_version) == (None, 0)
