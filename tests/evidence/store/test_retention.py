"""Retention: what goes because of its age, what stays in any case, and who may change that."""

from datetime import datetime, timedelta

import pytest
from pytest_django import Settings

from evalhub.tasks.models import SweepRun
from evalhub.tasks.names import TaskName
from evalhub.tasks.operations import record_sweep
from evidence.store import queries
from evidence.store.models import Pin, Removal, Segment
from evidence.store.operations import counting, pins, removals, retention
from evidence.store.operations.retention import Days, Due, RetentionInvalidError
from evidence.store.storage import object_store
from lanes.plans.models import Attempt, Plan, PlanState
from lanes.projects.models import AuditEntry
from tests.evidence.factories import make_refusal, make_run, send_members
from tests.lanes.factories import NOW, make_attempt, make_plan, make_project

pytestmark = pytest.mark.django_db

ACTOR = "user:maintainer"


def later(days: float) -> datetime:
    return NOW + timedelta(days=days)


def make_decided(attempt: Attempt | None = None) -> Plan:
    """Return a plan with a record and a bulk segment, concluded on all of it."""
    attempt = attempt or make_attempt(make_plan())
    make_run(attempt)
    plan = attempt.lane.plan
    decide(plan)
    counting.count_stored()
    return plan


def decide(plan: Plan) -> None:
    plan.refresh_from_db()
    Plan.objects.filter(pk=plan.pk).update(
        state=PlanState.CONCLUDED, concluded_version=plan.inputs_version, concluded_at=NOW
    )


def pins_seen(at: datetime) -> None:
    record_sweep(TaskName.SWEEP_PINS, started_at=at, ended_at=at)


def swept(days: float) -> list[str]:
    """Let the sweeps run some days later; return the kinds of segments whose bytes are there."""
    at = later(days)
    pins_seen(at)
    counting.count_stored()
    retention.sweep_retention(at=at)
    removals.sweep_removals(at=at)
    kept = [row for row in Segment.objects.all() if object_store().exists(row.object_key)]
    return sorted(row.segment_class for row in kept)


def test_bulk_goes_after_the_installations_days_and_records_stay(settings: Settings) -> None:
    settings.BULK_DAYS = 30
    make_decided()

    assert swept(29.9) == ["bulk", "record"]
    assert swept(30.1) == ["record"]
    assert swept(30_000) == ["record"]

    removal = Removal.objects.get()
    assert (removal.cause, removal.subject) == ("RETENTION", "bulk")
    assert removal.sentence == (
        "Removed by retention on 2026-12-29: transcripts, logs and files are kept for 30 days here."
    )


def test_installation_that_says_nothing_keeps_for_good(settings: Settings) -> None:
    settings.BULK_DAYS = 0
    make_decided()

    assert swept(30_000) == ["bulk", "record"]


def test_project_says_how_long_both_are_kept() -> None:
    plan = make_decided()
    retention.set_retention(plan.project, Days(90, 10), actor=ACTOR, at=NOW)

    assert swept(10.5) == ["record"]
    assert swept(90.5) == []

    other = make_decided()
    assert swept(89) == ["bulk", "record"]
    assert queries.removals_of_project(other.project).count() == 0


def test_age_counts_from_the_last_piece_that_came() -> None:
    attempt = make_attempt(make_plan())
    plan = make_decided(attempt)
    retention.set_retention(plan.project, Days(None, 10), actor=ACTOR, at=NOW)
    make_run(attempt, None, at=later(5), value=0.0)
    decide(plan)

    # The second delivery repeats paths of the first: it is refused, and stored all the same.
    assert swept(12).count("bulk") == 2
    assert swept(15.5).count("bulk") == 0


@pytest.mark.parametrize("undecided", ["running", "behind"])
def test_plan_that_is_not_decided_loses_nothing(undecided: str) -> None:
    plan = make_decided()
    retention.set_retention(plan.project, Days(5, 5), actor=ACTOR, at=NOW)
    changed = {"state": PlanState.RUNNING} if undecided == "running" else {"inputs_version": 99}
    Plan.objects.filter(pk=plan.pk).update(**changed)

    assert swept(100) == ["bulk", "record"]

    decide(plan)
    assert swept(100) == []


def test_cancelled_plan_waits_for_nothing() -> None:
    plan = make_decided()
    retention.set_retention(plan.project, Days(5, 5), actor=ACTOR, at=NOW)
    Plan.objects.filter(pk=plan.pk).update(state=PlanState.RUNNING, cancelled_at=NOW)

    assert swept(100) == []


def test_pinned_plan_loses_nothing_until_everybody_lets_go() -> None:
    plan = make_decided()
    retention.set_retention(plan.project, Days(5, 5), actor=ACTOR, at=NOW)
    pins.pin_plan(plan, reason="A talk in May.", actor=ACTOR, at=NOW)
    pins.hold_plans("baseline", {plan.pk: "The rolling baseline."}, at=NOW)

    assert swept(100) == ["bulk", "record"]
    pins.unpin_plan(plan, actor=ACTOR, at=NOW)
    assert swept(101) == ["bulk", "record"]
    assert pins.hold_plans("baseline", {}, at=NOW) == 1

    assert swept(102) == []
    assert list(AuditEntry.objects.order_by("pk").values_list("action", flat=True))[-2:] == [
        "plan.pin",
        "plan.unpin",
    ]


def test_pin_that_comes_between_looking_and_ordering_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = make_decided()
    retention.set_retention(plan.project, Days(5, 5), actor=ACTOR, at=NOW)
    at = later(100)
    due = list(retention._old(plan.project, Days(5, 5), at=at))
    pins.pin_plan(plan, reason="Just now.", actor=ACTOR, at=at)

    assert [retention._order(storage, kept_for, at=at) for storage, kept_for in due] == [
        False,
        False,
    ]
    assert not Removal.objects.exists()


def test_retention_waits_until_those_who_need_plans_have_said_so() -> None:
    plan = make_decided()
    retention.set_retention(plan.project, Days(5, 5), actor=ACTOR, at=NOW)

    assert retention.sweep_retention(at=later(100)) == 0
    pins_seen(later(99))
    assert retention.sweep_retention(at=later(100)) == 0
    SweepRun.objects.all().delete()
    pins_seen(later(100))
    assert retention.sweep_retention(at=later(100)) == 2


def test_retention_waits_until_everything_is_counted() -> None:
    attempt = make_attempt(make_plan())
    plan = make_decided(attempt)
    retention.set_retention(plan.project, Days(5, 5), actor=ACTOR, at=NOW)
    pins_seen(later(100))
    make_refusal(attempt, at=later(99))
    decide(plan)

    assert retention.sweep_retention(at=later(100)) == 0
    counting.count_stored()
    # What came yesterday makes the plan's records young again; its transcripts are not.
    assert retention.sweep_retention(at=later(100)) == 1


def test_what_comes_between_looking_and_ordering_stays_though_its_plan_is_concluded_again() -> None:
    attempt = make_attempt(make_plan())
    plan = make_decided(attempt)
    retention.set_retention(plan.project, Days(5, 5), actor=ACTOR, at=NOW)
    at = later(100)
    due = list(retention._old(plan.project, Days(5, 5), at=at))
    send_members(attempt, {"lane/logs/agent.1.log": b"More.\n"}, at=at)
    decide(plan)

    assert not any(retention._order(storage, kept_for, at=at) for storage, kept_for in due)
    assert not Removal.objects.exists()


def test_other_plans_that_are_not_counted_hold_nothing_up() -> None:
    plan = make_decided()
    retention.set_retention(plan.project, Days(5, 5), actor=ACTOR, at=NOW)
    make_run(make_attempt(make_plan()))
    pins_seen(later(100))

    assert retention.sweep_retention(at=later(100)) == 2


def test_dry_run_counts_what_would_go_and_changes_nothing() -> None:
    plan = make_decided()
    sizes = dict(Segment.objects.values_list("segment_class", "size_bytes"))
    pinned = make_decided(make_attempt(make_plan(plan.project, source={"head_sha": "d" * 40})))
    pins.pin_plan(pinned, reason="Needed.", actor=ACTOR, at=NOW)

    told = retention.due_with(plan.project, Days(50, 5), at=later(6))
    both = retention.due_with(plan.project, Days(50, 5), at=later(51))

    assert told == [Due("bulk", 1, 1, sizes["bulk"])]
    assert both == [Due("record", 1, 1, sizes["record"]), *told]
    assert retention.due_with(plan.project, Days(None, None), at=later(9_999)) == []
    assert not Removal.objects.exists()


def test_change_is_written_down_with_before_and_after(settings: Settings) -> None:
    settings.BULK_DAYS = 400
    project = make_project()

    retention.set_retention(project, Days(None, 30), actor=ACTOR, at=NOW)
    retention.set_retention(project, Days(None, None), actor=ACTOR, at=NOW)

    told = AuditEntry.objects.filter(action="retention.set").order_by("pk")
    assert [
        ((entry.before or {})["bulk_days"], (entry.after or {})["bulk_days"]) for entry in told
    ] == [
        (400, 30),
        (30, None),
    ]
    assert retention.days_of(project) == Days(None, None)


@pytest.mark.parametrize("days", [Days(0, 5), Days(5, 0), Days(10, 11), Days(10, None)])
def test_days_that_make_no_sense_are_refused(days: Days) -> None:
    project = make_project()

    with pytest.raises(RetentionInvalidError):
        retention.set_retention(project, days, actor=ACTOR, at=NOW)
    with pytest.raises(RetentionInvalidError):
        retention.due_with(project, days, at=NOW)


def test_two_sweeps_order_once() -> None:
    plan = make_decided()
    retention.set_retention(plan.project, Days(None, 5), actor=ACTOR, at=NOW)
    pins_seen(later(100))

    assert retention.sweep_retention(at=later(100)) == 1
    assert retention.sweep_retention(at=later(100)) == 0
    assert Removal.objects.count() == 1


def test_pin_says_who_holds_and_why() -> None:
    plan = make_decided()

    pins.pin_plan(plan, reason="First.", actor=ACTOR, at=NOW)
    pins.pin_plan(plan, reason="Second.", actor="token:ab… ci", at=later(1))

    pin = Pin.objects.get()
    assert (pin.holder, pin.reason, pin.pinned_by) == ("maintainer", "Second.", "token:ab… ci")
    with pytest.raises(pins.PinNotThereError):
        pins.unpin_plan(make_plan(), actor=ACTOR, at=NOW)
