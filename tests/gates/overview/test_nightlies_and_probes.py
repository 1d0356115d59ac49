"""The parts of pages that say whether nightlies come and how simulators answer."""

from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from evalhub.protocol.messages import ScheduleRequest
from lanes.fidelity.models import MatchRate
from lanes.plans.models import ExpectedSchedule, Plan
from lanes.plans.operations import schedules
from lanes.projects.models import Notice, NoticeKind, Project, Role, Scope
from tests.evidence.factories import ndjson, send_members
from tests.evidence.store.test_probes import make_probing_attempt, probe_line
from tests.gates.factories import concluded
from tests.lanes.factories import (
    NOW,
    make_plan,
    make_policy,
    make_project,
    make_suite,
    make_token,
    make_user,
)
from tests.lanes.wire import assert_problem, send

pytestmark = pytest.mark.django_db


def page(client: Client, address: str, project: Project) -> str:
    client.force_login(make_user(project=project, role=Role.VIEWER))
    response = client.get(address)
    assert response.status_code == 200
    return str(response.content.decode())


def expect_nightly(project: Project) -> ExpectedSchedule:
    make_suite(project)
    wanted = ScheduleRequest(cron="0 3 * * *", timezone="Europe/Berlin")
    return schedules.put_schedule(project, "support", wanted, at=timezone.now()).schedule


def test_list_of_plans_shows_what_is_waited_for(client: Client) -> None:
    project = make_project()
    expect_nightly(project)
    plan = make_plan(project, source={"event": "schedule", "pull_request": None})

    text = page(client, reverse("plans"), project)

    assert "Expected nightlies" in text
    assert "0 3 * * *" in text
    assert "Europe/Berlin, at most 120 min late" in text
    assert f'<td class="nowrap"><a href="/plans/{plan.digest}/">' in text


def test_list_of_plans_says_since_when_a_nightly_is_absent(client: Client) -> None:
    project = make_project()
    schedule = expect_nightly(project)
    since = timezone.now() - timedelta(days=3)
    ExpectedSchedule.objects.filter(pk=schedule.pk).update(missed_since=since, missed_count=3)

    text = page(client, f"{reverse('plans')}?project={project.name}&suite=support", project)

    assert "</svg> absent</span>" in text
    assert "3 missed since" in text
    assert "never" in text
    client.force_login(make_user(project=project))
    other = client.get(f"{reverse('plans')}?suite=other").content.decode()
    assert "Expected nightlies" not in other


def test_list_of_plans_shows_no_schedule_of_another_project(client: Client) -> None:
    expect_nightly(make_project())
    project = make_project()

    assert "Expected nightlies" not in page(client, reverse("plans"), project)


def probed_plan() -> Plan:
    attempt = make_probing_attempt()
    lines = [
        probe_line("pi.create"),
        probe_line("pi.list.<script>", "mismatch", paths=["/data/*/<b>"]),
        probe_line("pi.cancel", "status_only", paths=["/error/code"]),
        probe_line("pi.old", "unverified"),
    ]
    send_members(attempt, {"lane/probes.1.ndjson": ndjson(*lines)})
    return attempt.lane.plan


def test_page_of_a_plan_shows_the_rate_with_its_interval_and_what_differs(client: Client) -> None:
    plan = probed_plan()

    text = page(client, reverse("plan", args=[plan.digest]), plan.project)

    assert "33.3%" in text
    assert "(6.15% to 79.2%)" in text
    assert "2 probes of payments" in text
    assert "pi.list.&lt;script&gt;" in text
    assert "<code>/data/*/&lt;b&gt;</code>" in text
    assert "<b>" not in text


def test_page_of_a_plan_says_when_nothing_could_be_verified(client: Client) -> None:
    attempt = make_probing_attempt()
    lines = ndjson(probe_line(result="unverified"))
    send_members(attempt, {"lane/probes.1.ndjson": lines})
    plan = attempt.lane.plan

    text = page(client, reverse("plan", args=[plan.digest]), plan.project)

    assert "no probe could be verified" in text
    assert "0%" not in text.split("Simulators against")[1].split("</section>")[0]


def test_page_of_a_plan_without_probes_says_nothing_of_them(client: Client) -> None:
    plan = make_plan()

    text = page(client, reverse("plan", args=[plan.digest]), plan.project)

    assert "Simulators against" not in text


def test_probes_of_a_plan_are_read_by_the_project_alone() -> None:
    plan = probed_plan()
    path = f"/plans/{plan.digest}/probes"
    reader = make_token(plan.project, Scope.READ).secret

    (simulator,) = send("GET", path, secret=reader).body["simulators"]

    assert (simulator["simulator"], simulator["match_rate"]) == ("payments", pytest.approx(1 / 3))
    assert simulator["interval95"] == [
        pytest.approx(0.0615, abs=1e-3),
        pytest.approx(0.792, abs=1e-3),
    ]
    assert [simulator[word] for word in ("matched", "status_only", "mismatched", "unverified")] == [
        1,
        1,
        1,
        1,
    ]
    differing = {row["probe"]: row["paths"] for row in simulator["mismatches"]}
    assert differing == {"pi.list.<script>": ["/data/*/<b>"], "pi.cancel": ["/error/code"]}
    stranger = make_token(make_project(), Scope.READ).secret
    assert_problem(send("GET", path, secret=stranger), 403, "forbidden")
    lane = make_token(plan.project, Scope.LANE_WRITE).secret
    assert_problem(send("GET", path, secret=lane), 403, "forbidden")
    bare = make_plan(plan.project)
    assert send("GET", f"/plans/{bare.digest}/probes", secret=reader).body == {"simulators": []}


def test_conclusion_weighs_the_probes_and_raises_the_policy_s_alarm() -> None:
    project = make_project()
    make_policy(project, environment={"minimum_match_rate": 0.95})
    attempt = make_probing_attempt(project)
    lines = [probe_line(f"probe-{n}", "match" if n < 5 else "mismatch") for n in range(20)]
    send_members(attempt, {"lane/probes.1.ndjson": ndjson(*lines)})
    plan = attempt.lane.plan
    assert not MatchRate.objects.exists()

    concluded(plan, at=NOW)

    rate = MatchRate.objects.get()
    assert (rate.plan, rate.matched, rate.verified) == (plan.digest, 5, 20)
    notice = Notice.objects.get(kind=NoticeKind.DRIFT)
    assert "5 of 20 verified probes match (25%" in notice.detail
    assert "The policy asks for at least 95%." in notice.detail
    # Concluded again on late evidence: the same alarm.
    late = ndjson(probe_line("late", "mismatch"))
    send_members(attempt, {"lane/probes.2.ndjson": late})
    plan.refresh_from_db()
    concluded(plan, at=NOW)
    assert MatchRate.objects.get().mismatched == 16
    assert Notice.objects.filter(kind=NoticeKind.DRIFT).count() == 1
