"""Storage by page and by the API: who sees it, who changes it, and what each is told first."""

import json
from typing import Any

import pytest
from django.test import Client

from evidence.store.models import Item, Pin, Removal, Segment
from evidence.store.operations import counting, purging, removals, retention
from evidence.store.operations.retention import Days
from lanes.plans.models import Plan, PlanState
from lanes.projects.models import AuditEntry, Role, Scope
from tests.evidence.factories import make_run
from tests.lanes.factories import NOW, make_attempt, make_plan, make_token, make_user

pytestmark = pytest.mark.django_db

REASON = "A customer's name was in it."


@pytest.fixture
def plan() -> Plan:
    """Return a decided plan with one run, counted."""
    attempt = make_attempt(make_plan())
    make_run(attempt)
    counting.count_stored()
    plan = attempt.lane.plan
    plan.refresh_from_db()
    Plan.objects.filter(pk=plan.pk).update(
        state=PlanState.CONCLUDED, concluded_version=plan.inputs_version, concluded_at=NOW
    )
    return plan


def signed_in(client: Client, plan: Plan, role: Role) -> Client:
    client.force_login(make_user(project=plan.project, role=role))
    return client


def call(
    client: Client, method: str, path: str, plan: Plan, *scopes: Scope, body: Any = None
) -> Any:
    secret = make_token(plan.project, *(scopes or (Scope.PROJECT_ADMIN,))).secret
    return client.generic(
        method,
        f"/api/v1{path}",
        json.dumps(body) if body is not None else b"",
        content_type="application/json",
        headers={"Authorization": f"Bearer {secret}"},
    )


def storage_url(plan: Plan) -> str:
    return f"/projects/{plan.project.name}/storage/"


def test_viewer_sees_storage_and_no_form(client: Client, plan: Plan) -> None:
    page = signed_in(client, plan, Role.VIEWER).get(storage_url(plan))

    text = page.content.decode()
    assert page.status_code == 200
    assert "Largest plans" in text
    assert plan.digest[7:19] in text
    assert "See what would go" not in text
    assert client.post(storage_url(plan), {"bulk_days": "3"}).status_code == 403
    assert client.get(f"/plans/{plan.digest}/purge/").status_code == 403
    assert client.post(f"/plans/{plan.digest}/pin/", {"reason": "Mine."}).status_code == 403


def test_stranger_learns_nothing(client: Client, plan: Plan) -> None:
    client.force_login(make_user())

    for path in (storage_url(plan), f"/plans/{plan.digest}/purge/"):
        assert client.get(path).status_code == 404


def test_maintainer_sees_what_would_go_before_it_goes(client: Client, plan: Plan) -> None:
    signed_in(client, plan, Role.MAINTAINER)

    shown = client.post(storage_url(plan), {"bulk_days": "1", "record_days": ""})
    assert "of bulk: 1 segment of 1 plan" in " ".join(shown.content.decode().split())
    assert not AuditEntry.objects.filter(action="retention.set").exists()
    done = client.post(storage_url(plan), {"bulk_days": "1", "confirmed": "yes"}, follow=True)

    assert "Evidence is kept as you set it." in done.content.decode()
    assert retention.days_of(plan.project) == Days(None, 1)
    refused = client.post(storage_url(plan), {"bulk_days": "9", "record_days": "3"})
    assert refused.status_code == 422
    assert "keep records at least as long" in refused.content.decode()


def test_maintainer_pins_unpins_and_purges_by_page(client: Client, plan: Plan) -> None:
    signed_in(client, plan, Role.MAINTAINER)
    page = f"/plans/{plan.digest}/purge/"

    client.post(f"/plans/{plan.digest}/pin/", {"reason": "Shown in May."})
    assert "Shown in May." in client.get(page).content.decode()
    refused = client.post(page, {"reason": REASON})
    assert (refused.status_code, "is pinned" in refused.content.decode()) == (409, True)
    client.post(f"/plans/{plan.digest}/unpin/")
    assert not Pin.objects.exists()
    assert client.post(page, {"reason": ""}).status_code == 422
    done = client.post(page, {"reason": REASON}, follow=True)

    assert "2 segments are being removed" in done.content.decode()
    assert "being removed" in done.content.decode()
    removals.sweep_removals(at=NOW)
    assert "Nothing is left of it that could be purged." in client.get(page).content.decode()


def test_purge_page_aims_at_what_its_address_names(client: Client, plan: Plan) -> None:
    signed_in(client, plan, Role.MAINTAINER)
    segment = Segment.objects.get(segment_class="bulk")
    page = f"/plans/{plan.digest}/purge/?attempt={segment.attempt.key}&seq={segment.seq}"

    text = client.get(page).content.decode()
    client.post(page, {"reason": REASON})

    assert f"{segment.attempt.key}/{segment.seq}" in text
    assert "takes no evidence any more" not in text
    assert Removal.objects.get().subject == f"{segment.attempt.key}/{segment.seq}"
    assert client.get(f"/plans/{plan.digest}/purge/?seq=1").status_code == 422
    assert client.get(f"/plans/{plan.digest}/purge/?run=99999").status_code == 404


@pytest.mark.parametrize("cause", ["purge", "retention"])
def test_run_page_says_what_was_removed_instead_of_an_error(
    client: Client, plan: Plan, cause: str
) -> None:
    if cause == "purge":
        target = purging.whole_plan(plan)
        purging.purge(target, reason=REASON, actor="user:anna", at=NOW)
        said = "Purged by user:anna on 2026-11-29: A customer&#x27;s name was in it."
    else:
        storage = plan.storage.get(stored_class="bulk")
        at = NOW.replace(year=2028)
        assert retention._order(storage, 30, at=at)
        said = "Removed by retention on 2028-11-29: transcripts, logs and files are kept for 30"
    removals.sweep_removals(at=NOW)
    signed_in(client, plan, Role.VIEWER)
    item = Item.objects.get(kind="transcript")

    for path in (f"/runs/{item.run_id}/", f"/items/{item.pk}/"):
        page = client.get(path)
        assert (path, page.status_code) == (path, 200)
        assert said in page.content.decode()
    run = client.get(f"/runs/{item.run_id}/").content.decode()
    assert ("The refund exists once" in run) == (cause == "retention")
    assert client.get(f"/plans/{plan.digest}/lanes/{item.attempt.lane.name}/").status_code == 200


def test_api_tells_storage_to_readers(client: Client, plan: Plan) -> None:
    answer = call(client, "GET", f"/projects/{plan.project.name}/storage", plan, Scope.READ)

    told = answer.json()
    sizes = dict(Segment.objects.values_list("segment_class", "size_bytes"))
    assert {row["class"]: row["size_bytes"] for row in told["classes"]} == {**sizes, "refused": 0}
    assert told["retention"] == {"record_days": None, "bulk_days": 400}
    assert [row["plan"] for row in told["largest"]] == [plan.digest]
    assert told["pinned_plans"] == 0


def test_api_changes_retention_for_administrators_and_says_first_what_goes(
    client: Client, plan: Plan
) -> None:
    path, body = f"/projects/{plan.project.name}/retention", {"record_days": None, "bulk_days": 1}

    assert call(client, "PUT", path, plan, Scope.READ, body=body).status_code == 403
    asked = call(client, "PUT", path, plan, body={**body, "dry_run": True}).json()
    assert retention.days_of(plan.project) == Days(None, 400)
    done = call(client, "PUT", path, plan, body=body).json()

    assert (asked["due"], asked["dry_run"]) == (done["due"], True)
    assert [(row["class"], row["segments"]) for row in done["due"]] == [("bulk", 1)]
    assert (done["before"]["bulk_days"], done["after"]["bulk_days"]) == (400, 1)
    assert call(client, "PUT", path, plan, body={"bulk_days": 0}).status_code == 422


def test_api_pins_and_unpins(client: Client, plan: Plan) -> None:
    path = f"/plans/{plan.digest}/pin"

    assert call(client, "PUT", path, plan, Scope.READ, body={"reason": REASON}).status_code == 403
    (told,) = call(client, "PUT", path, plan, body={"reason": REASON}).json()["pins"]
    assert (told["holder"], told["reason"]) == ("maintainer", REASON)
    assert call(client, "DELETE", path, plan).json() == {"pins": []}
    assert call(client, "DELETE", path, plan).status_code == 404


def test_api_purges_and_tells_when_the_bytes_are_gone(client: Client, plan: Plan) -> None:
    path, run = f"/plans/{plan.digest}/purges", plan.runs.get()
    body = {"scope": "run", "run": run.pk, "reason": REASON}

    assert call(client, "POST", path, plan, Scope.READ, body=body).status_code == 403
    asked = call(client, "POST", path, plan, body={**body, "dry_run": True}).json()
    assert (asked["segments"], asked["runs"], asked["records"]) == (2, 1, 1)
    assert not Removal.objects.exists()
    ordered = call(client, "POST", path, plan, body=body)
    removals.sweep_removals(at=NOW)
    (told,) = call(client, "GET", path, plan, Scope.READ).json()["removals"]

    assert (ordered.status_code, ordered.json()["finished_at"]) == (202, None)
    assert (told["removal"], told["finished_at"]) == (
        ordered.json()["removal"],
        "2026-11-29T12:00:00Z",
    )
    gone = call(client, "GET", f"/runs/{run.pk}/transcript", plan, Scope.READ)
    assert (gone.status_code, gone.json()["code"]) == (410, "evidence-removed")
    assert call(client, "POST", path, plan, body=body).json()["code"] == "nothing-to-purge"


@pytest.mark.parametrize(
    "body",
    [
        {"scope": "plan", "reason": REASON, "attempt": "att_x"},
        {"scope": "attempt", "reason": REASON},
        {"scope": "segment", "reason": REASON, "attempt": "att_x"},
        {"scope": "run", "reason": REASON},
        {"scope": "plan"},
        {"scope": "everything", "reason": REASON},
    ],
)
def test_purge_that_does_not_say_what_is_refused(
    client: Client, plan: Plan, body: dict[str, object]
) -> None:
    answer = call(client, "POST", f"/plans/{plan.digest}/purges", plan, body=body)

    assert answer.status_code == 422
    assert not Removal.objects.exists()
