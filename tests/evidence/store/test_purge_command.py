"""`manage.py purge`: for whoever runs the server."""

import pytest
from django.core.management import CommandError, call_command

from evidence.store.models import Removal, Segment
from evidence.store.operations import pins
from evidence.store.storage import object_store
from lanes.plans.models import Attempt
from lanes.projects.models import AuditEntry
from tests.evidence.factories import make_run
from tests.lanes.factories import NOW, make_attempt, make_plan

pytestmark = pytest.mark.django_db

REASON = ("--reason", "A name was in it.")


@pytest.fixture
def attempt() -> Attempt:
    attempt = make_attempt(make_plan())
    make_run(attempt)
    return attempt


def test_command_says_what_would_go_and_removes_it_when_told_to(
    attempt: Attempt, capsys: pytest.CaptureFixture[str]
) -> None:
    digest = attempt.lane.plan.digest

    call_command("purge", digest, *REASON)
    assert "2 segments with" in capsys.readouterr().out
    assert not Removal.objects.exists()
    call_command("purge", digest, "--attempt", attempt.key, "--segment", "2", *REASON, "--yes")
    call_command("purge", digest, *REASON, "--yes")

    assert "1 segments with" in capsys.readouterr().out
    assert [key for key in object_store().keys("") if key.endswith(".zip")] == []
    assert not Segment.objects.filter(gone_at__isnull=True).exists()
    assert set(
        AuditEntry.objects.filter(action="evidence.purge").values_list("actor", flat=True)
    ) == {"system"}


def test_command_names_the_option_that_a_pinned_plan_needs(
    attempt: Attempt, capsys: pytest.CaptureFixture[str]
) -> None:
    digest = attempt.lane.plan.digest
    pins.pin_plan(attempt.lane.plan, reason="Needed.", actor="user:ada", at=NOW)

    call_command("purge", digest, *REASON)
    assert "--yes --even-pinned does it." in capsys.readouterr().out
    call_command("purge", digest, *REASON, "--even-pinned")
    assert "; --yes does it." in capsys.readouterr().out


def test_command_refuses_in_a_sentence(attempt: Attempt) -> None:
    digest = attempt.lane.plan.digest
    pins.pin_plan(attempt.lane.plan, reason="Needed.", actor="user:ada", at=NOW)

    for arguments, sentence in {
        (digest, "--yes"): "is pinned",
        (digest, "--attempt", "att_nothing"): "has no attempt",
        (digest, "--segment", "1"): "without --attempt",
        (digest, "--run", "9999"): "no run 9999",
        (digest, "--run", "1", "--attempt", attempt.key): "both given",
    }.items():
        with pytest.raises(CommandError, match=sentence):
            call_command("purge", *arguments, *REASON)
