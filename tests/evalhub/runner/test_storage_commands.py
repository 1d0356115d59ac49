"""`evalhub storage`, `pin` and `purge` against the real store."""

import json
from typing import Any

import pytest
from pytest_django.live_server_helper import LiveServer

from evalhub.runner import cli
from evalhub.runner.errors import Exit
from evidence.store.models import Segment
from evidence.store.operations import counting, retention
from evidence.store.operations.retention import Days
from lanes.plans.models import Attempt, Plan
from tests.evidence.factories import make_run
from tests.lanes.factories import make_attempt, make_plan, make_project, make_token

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

PROJECT = ["--project", "acme/support-agent"]


@pytest.fixture
def attempt(live_server: LiveServer, monkeypatch: pytest.MonkeyPatch) -> Attempt:
    """Return an attempt with a run of the project that the command line speaks for."""
    project = make_project("acme/support-agent")
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    monkeypatch.setenv("EVALHUB_URL", live_server.url)
    monkeypatch.setenv("EVALHUB_TOKEN", make_token(project).secret)
    made = make_attempt(make_plan(project))
    make_run(made)
    counting.count_stored()
    return made


@pytest.fixture
def plan(attempt: Attempt) -> Plan:
    return attempt.lane.plan


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    capsys.readouterr()
    assert cli.main(["--json", *arguments]) == Exit.GOOD
    return json.loads(capsys.readouterr().out)


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert cli.main([*arguments]) == Exit.GOOD
    return capsys.readouterr().out


def test_storage_is_shown_and_kept_for_days_only_when_meant(
    capsys: pytest.CaptureFixture[str], plan: Plan
) -> None:
    assert "transcripts, logs and files for 400 days" in said(capsys, "storage", "show", *PROJECT)

    asked = said(capsys, "storage", "keep", *PROJECT, "--bulk", "30")
    assert "Nothing was changed; --yes does it." in asked
    assert retention.days_of(plan.project) == Days(None, 400)
    done = told(capsys, "storage", "keep", *PROJECT, "--bulk", "30", "--records", "900", "--yes")
    assert done["after"] == {"record_days": 900, "bulk_days": 30}
    # What is not named stays as it is.
    told(capsys, "storage", "keep", *PROJECT, "--records", "for-good", "--yes")
    assert retention.days_of(plan.project) == Days(None, 30)
    assert cli.main(["storage", "keep", *PROJECT, "--bulk", "soon"]) == Exit.WRONG_INPUT
    assert "expected a number or for-good" in capsys.readouterr().err


def test_plan_is_pinned_then_purged_only_by_who_means_it(
    capsys: pytest.CaptureFixture[str], plan: Plan
) -> None:
    reason = ["--reason", "A name was in it."]
    assert told(capsys, "pin", "set", plan.digest, *reason)["pins"][0]["holder"] == "maintainer"

    asked = said(capsys, "purge", plan.digest, *reason)
    assert "2 segments" in asked
    assert "Needed by maintainer: A name was in it." in asked
    assert "Nothing was removed; --yes --even-pinned does it." in asked
    assert cli.main(["purge", plan.digest, *reason, "--yes"]) != Exit.GOOD
    assert "is pinned" in capsys.readouterr().err
    assert not Segment.objects.filter(removal__isnull=False).exists()
    assert said(capsys, "pin", "remove", plan.digest) == "The plan is unpinned.\n"

    done = said(capsys, "purge", plan.digest, *reason, "--yes")

    assert "2 segments" in done
    assert "are gone." in done
    assert not Segment.objects.filter(gone_at__isnull=True).exists()


def test_purge_aims_at_a_segment_or_a_run(
    capsys: pytest.CaptureFixture[str], attempt: Attempt
) -> None:
    digest, reason = attempt.lane.plan.digest, ["--reason", "A name was in it."]
    run = attempt.runs.get()

    assert told(capsys, "purge", digest, "--run", str(run.pk), *reason)["segments"] == 2
    one = ["--attempt", attempt.key, "--segment", "2"]
    assert told(capsys, "purge", digest, *one, *reason, "--yes")["subject"] == f"{attempt.key}/2"
    assert cli.main(["purge", digest, "--segment", "2", *reason]) == Exit.WRONG_INPUT
    assert cli.main(["purge", digest, *one, "--run", "1", *reason]) == Exit.WRONG_INPUT
