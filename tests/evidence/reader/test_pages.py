"""Pages of evidence: who may see them, what they show, and that nothing in them can act."""

import hashlib
import re
from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries

from evalhub.protocol.messages import Heartbeat
from evidence.store.models import Item, Refusal, Run
from lanes.plans.models import Plan
from lanes.plans.operations import attempts
from lanes.projects.models import Role
from tests.evidence.factories import judge_line, make_refusal, seal_attempt
from tests.evidence.reader.factories import make_run, send, turn
from tests.lanes.factories import NOW, make_attempt, make_plan, make_project, make_user

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

Address = Callable[[Run], str]


def run_address(run: Run) -> str:
    return reverse("run", args=[run.pk])


PAGES: dict[str, Address] = {
    "runs": lambda run: reverse("runs", args=[run.plan.digest]),
    "run": run_address,
    "turn": lambda run: reverse("run-turn", args=[run.pk, 1]),
    "item": lambda run: reverse("item", args=[Item.objects.filter(run=run)[0].pk]),
    "item-file": lambda run: reverse("item-file", args=[Item.objects.filter(run=run)[0].pk]),
    "lane": lambda run: reverse("lane", args=[run.plan.digest, run.lane.name]),
    "quarantine": lambda run: reverse("quarantine", args=[run.plan.digest]),
}


def member_of(plan: Plan, role: Role = Role.VIEWER) -> User:
    return make_user(project=plan.project, role=role)


def page(client: Client, address: str, *, user: User | None = None, status: int = 200) -> str:
    if user is not None:
        client.force_login(user)
    response = client.get(address)
    assert response.status_code == status, response.content
    return str(response.content.decode())


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("role", [Role.VIEWER, Role.MAINTAINER])
def test_member_sees_each_page(client: Client, name: str, role: Role) -> None:
    run = make_run()

    client.force_login(member_of(run.plan, role))

    assert client.get(PAGES[name](run)).status_code == 200


@pytest.mark.parametrize("name", PAGES)
def test_member_of_another_project_finds_nothing(client: Client, name: str) -> None:
    run = make_run()
    client.force_login(make_user(project=make_project(), role=Role.MAINTAINER))

    response = client.get(PAGES[name](run))

    assert response.status_code == 404
    assert run.scenario not in response.content.decode()


@pytest.mark.parametrize("name", PAGES)
def test_nobody_is_asked_to_sign_in(client: Client, name: str) -> None:
    response = client.get(PAGES[name](make_run()))

    assert response.status_code == 302
    assert response["Location"].startswith(reverse("sign-in"))


@pytest.mark.parametrize(
    ("role", "status"), [(Role.VIEWER, 403), (Role.TRIAGER, 200), (Role.MAINTAINER, 200)]
)
def test_quarantined_bytes_are_for_triagers(client: Client, role: Role, status: int) -> None:
    refusal = make_refusal(make_attempt())
    client.force_login(member_of(refusal.plan, role))

    response = client.get(reverse("quarantine-file", args=[refusal.pk]))

    assert response.status_code == status


def test_quarantined_bytes_are_hidden_from_strangers(client: Client) -> None:
    refusal = make_refusal(make_attempt())
    address = reverse("quarantine-file", args=[refusal.pk])

    assert client.get(address).status_code == 302
    client.force_login(make_user())
    assert client.get(address).status_code == 404


def test_quarantine_tells_why_and_links_bytes_to_triagers_only(client: Client) -> None:
    refusal = make_refusal(make_attempt())
    address = reverse("quarantine", args=[refusal.plan.digest])
    download = reverse("quarantine-file", args=[refusal.pk])

    for_triager = page(client, address, user=member_of(refusal.plan, Role.TRIAGER))
    for_viewer = page(client, address, user=member_of(refusal.plan))

    assert download in for_triager
    assert download not in for_viewer
    assert "nobody-planned-this" in for_viewer
    assert refusal.category in for_viewer


@pytest.mark.parametrize("name", ["item-file", "quarantine-file"])
def test_raw_bytes_are_an_attachment_that_cannot_act(client: Client, name: str) -> None:
    run = make_run(files={"page.html": b"<script>alert(1)</script>"})
    client.force_login(member_of(run.plan, Role.TRIAGER))
    if name == "item-file":
        item = Item.objects.get(run=run, kind="file")
        response = client.get(reverse("item-file", args=[item.pk]))
        assert response.content == b"<script>alert(1)</script>"
    else:
        refusal = make_refusal(run.attempt)
        response = client.get(reverse("quarantine-file", args=[refusal.pk]))

    assert response["Content-Disposition"].startswith("attachment; filename=")
    assert response["Content-Type"] == "application/octet-stream"
    assert response["X-Content-Type-Options"] == "nosniff"
    assert response["Content-Security-Policy"] == "default-src 'none'; sandbox"


HOSTILE = (
    '<script>alert(1)</script><img src=x onerror=alert(2)><a href="javascript:alert(3)">x</a>'
    " https://evil.example/ \x1b[31mred\x1b[0m \u202egnp.exe {{ 7|add:7 }}"
)


def hostile_run() -> Run:
    return make_run(
        outcome="failed",
        turns=[
            turn(1, HOSTILE, agent=HOSTILE),
            turn(2, kind="tool_call", tool={"name": HOSTILE, "arguments": HOSTILE}),
            turn(3, HOSTILE + "x" * 30_000),
        ],
        judged=[judge_line(0.0, rationale=HOSTILE, cites=[1])],
        failure={"category": "x", "root_cause": HOSTILE, "turns": [2], "by": "rules"},
        error={"origin": "agent", "type": "Error", "message": HOSTILE},
        files={"<b>.txt": HOSTILE.encode()},
    )


@pytest.mark.parametrize("name", ["run", "turn", "item", "runs", "lane"])
def test_hostile_evidence_stays_text(client: Client, name: str) -> None:
    run = hostile_run()
    if name == "item":
        address = reverse("item", args=[Item.objects.get(run=run, kind="file").pk])
    else:
        address = PAGES[name](run)

    html = page(client, address, user=member_of(run.plan))

    assert "<script>alert" not in html
    assert not re.search(r"<img[^>]+onerror", html)
    assert not re.search(r'href="(javascript:|https?://evil)', html)
    assert "\x1b" not in html
    assert "\u202e" not in html
    if name in {"run", "turn", "item"}:
        assert "&lt;script&gt;alert(1)" in html
        assert "⟦U+202E⟧" in html


def test_run_page_shows_rationale_beside_the_turns_that_it_cites(client: Client) -> None:
    run = make_run(
        outcome="failed",
        turns=[turn(1, "Hello.", role="user"), turn(2, "Done, though it was not.")],
        judged=[judge_line(0.0, rationale="A false promise.", cites=[2])],
        failure={
            "category": "wrong_tool",
            "root_cause": "Did not look at the error.",
            "turns": [2],
            "recommended_fix": {"target": "prompt", "description": "Say so."},
            "by": "rules",
        },
    )

    html = page(client, run_address(run), user=member_of(run.plan))

    for words in ("A false promise.", "Did not look at the error.", "Say so.", "wrong tool"):
        assert words in html
    assert 'href="#turn-2"' in html
    assert 'id="turn-2"' in html


def test_run_page_of_a_long_transcript_shows_the_asked_turns(client: Client) -> None:
    run = make_run(turns=[turn(number, f"text {number}") for number in range(1, 451)])

    html = page(client, f"{run_address(run)}?from=300", user=member_of(run.plan))

    assert 'id="turn-300"' in html
    assert 'id="turn-450"' in html
    assert 'id="turn-299"' not in html
    assert "turns 300 to 450 of 450" in html


def test_text_kept_as_an_attachment_is_linked_from_its_turn(client: Client) -> None:
    body = b"a long text " * 10
    name = "body-" + sha256_of(body)
    run = make_run(turns=[turn(1, body=f"sha256:{sha256_of(body)}")], files={name: body})

    html = page(client, run_address(run), user=member_of(run.plan))

    item = Item.objects.get(run=run, kind="file")
    assert f'href="{reverse("item", args=[item.pk])}"' in html
    assert "Read the text of turn 1" in html


def test_run_without_a_result_says_so(client: Client) -> None:
    plan = make_plan()
    attempt = make_attempt(plan)
    send(
        attempt,
        {
            "runs/order-lookup/candidate/1/transcript.1.ndjson": b'{"turn":1,"role":"user","kind":"message","text":"Hi"}\n'
        },
    )
    run = Run.objects.get(attempt=attempt)

    html = page(client, run_address(run), user=member_of(plan))

    assert "No result was accepted for this run." in html
    assert "no result" in html


@pytest.mark.parametrize("value", ["0", "-1", "x", "1.5", "9" * 30])
def test_bad_number_is_named(client: Client, value: str) -> None:
    run = make_run()

    html = page(client, f"{run_address(run)}?from={value}", user=member_of(run.plan), status=400)

    assert "The parameter &#x27;from&#x27; was" in html
    assert "it takes a whole number from 1" in html


def test_run_list_filters_by_category_and_outcome(client: Client) -> None:
    plan = make_plan()
    make_run("order-lookup", plan=plan)
    make_run("refund-twice", plan=plan, outcome="failed")
    address = reverse("runs", args=[plan.digest])

    html = page(client, f"{address}?category=refunds&outcome=failed", user=member_of(plan))

    assert "refund-twice" in html
    assert ">order-lookup</a>" not in html


def test_run_list_takes_the_same_queries_for_more_runs(
    client: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    plan = make_plan(epochs=4)
    make_run(plan=plan, epoch=1)
    client.force_login(member_of(plan))
    address = reverse("runs", args=[plan.digest])
    client.get(address)

    with django_assert_num_queries(9):
        client.get(address)
    for epoch in (2, 3, 4):
        make_run(plan=plan, epoch=epoch)
    with django_assert_num_queries(9):
        client.get(address)


def test_quarantine_takes_the_same_queries_for_more_refusals(
    client: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    attempt = make_attempt()
    make_refusal(attempt)
    client.force_login(member_of(attempt.lane.plan))
    address = reverse("quarantine", args=[attempt.lane.plan.digest])

    with django_assert_num_queries(9):
        client.get(address)
    send(attempt, {f"runs/x{n}/candidate/1/result.json": b"{}" for n in range(5)})
    assert Refusal.objects.count() == 6
    with django_assert_num_queries(9):
        client.get(address)


def test_lane_page_shows_how_its_log_ended(client: Client) -> None:
    attempt = make_attempt()
    log = "".join(f"line {number}\n" for number in range(1, 200)) + "\x1b[31mKilled\x1b[0m\n"
    guard = b'{"guards":[{"name":"simulator_up","expected":200,"observed":503,"result":"failed","fix":"Start it."}]}'
    send(attempt, {"lane/logs/agent.1.log": log.encode(), "lane/preflight.json": guard})
    plan = attempt.lane.plan

    html = page(client, reverse("lane", args=[plan.digest, "ordinary-1"]), user=member_of(plan))

    assert "line 199\nKilled" in html
    assert "line 1\n" not in html
    assert "simulator up" in html
    assert "Start it." in html


def test_lane_page_shows_the_phase_until_the_attempt_has_ended(client: Client) -> None:
    attempt = make_attempt()
    attempts.record_heartbeat(attempt, Heartbeat(phase="running", done=20, total=27), at=NOW)
    plan = attempt.lane.plan
    address, user = reverse("lane", args=[plan.digest, "ordinary-1"]), member_of(plan)

    assert "20 of 27" in page(client, address, user=user)
    seal_attempt(attempt)
    html = page(client, address, user=user)

    assert "20 of 27" not in html
    assert "running" not in html


def test_lane_that_is_not_planned_is_not_found(client: Client) -> None:
    plan = make_plan()

    page(client, reverse("lane", args=[plan.digest, "other"]), user=member_of(plan), status=404)


def test_lane_without_an_attempt_says_so(client: Client) -> None:
    plan = make_plan()

    html = page(client, reverse("lane", args=[plan.digest, "ordinary-1"]), user=member_of(plan))

    assert "No attempt was opened" in html


def sha256_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
