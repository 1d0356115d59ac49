"""Checks that were put off while the clock ran ahead are sent once it is set back."""

from datetime import timedelta

import pytest

from gates.checks import queries
from gates.checks.models import Check
from gates.checks.operations import clock_jumps
from tests.gates.checks.factories import make_check, make_checked_project
from tests.lanes.factories import NOW, make_plan

pytestmark = pytest.mark.django_db

AHEAD = NOW + timedelta(hours=2)


def test_check_that_was_put_off_ahead_is_due_and_free() -> None:
    check = make_check()
    Check.objects.filter(pk=check.pk).update(
        next_attempt_at=AHEAD + timedelta(minutes=10), claimed_until=AHEAD + timedelta(minutes=2)
    )
    assert not queries.due_checks(at=NOW).exists()

    clock_jumps.bring_back_checks(at=NOW)

    assert list(queries.due_checks(at=NOW)) == [check]


def test_pause_that_github_asked_for_stands() -> None:
    check = make_check()
    asked = NOW + timedelta(minutes=59)
    Check.objects.filter(pk=check.pk).update(next_attempt_at=asked, claimed_until=NOW)

    clock_jumps.bring_back_checks(at=NOW)

    check.refresh_from_db()
    assert (check.next_attempt_at, check.claimed_until) == (asked, NOW)


def test_check_that_was_looked_at_ahead_is_looked_at_again() -> None:
    plan = make_plan(make_checked_project())
    check = make_check(plan)
    Check.objects.filter(pk=check.pk).update(looked_at=AHEAD)

    clock_jumps.bring_back_checks(at=NOW)

    assert Check.objects.get(pk=check.pk).looked_at < plan.registered_at
