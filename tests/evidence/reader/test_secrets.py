"""No page, answer or export shows a secret; who takes the bytes as they came is written down."""

import json

import pytest
from django.test import Client
from django.urls import reverse

from evidence.reader.queries import trajectories
from evidence.store.models import Item, Refusal, Run
from lanes.projects.models import AuditEntry, Role, Scope
from lanes.projects.operations import tokens
from tests.evalhub.protocol.secret_samples import AWS_KEY, GITHUB_TOKEN
from tests.evidence.factories import judge_line
from tests.evidence.reader.factories import make_run, send, turn
from tests.lanes.factories import NOW, make_user

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

SECRETS = f"{AWS_KEY} and {GITHUB_TOKEN}"


@pytest.fixture
def run() -> Run:
    made = make_run(
        outcome="failed",
        turns=[
            turn(1, SECRETS),
            turn(2, kind="tool_call", tool={"name": "t", "arguments": json.dumps({"k": SECRETS})}),
            turn(3, SECRETS + " x" * 20_000),
        ],
        judged=[judge_line(0.0, rationale=f"It told {SECRETS}.")],
        failure={
            "category": "leak",
            "root_cause": SECRETS,
            "by": "rules",
            "recommended_fix": {"target": "prompt", "description": SECRETS},
        },
        files={"notes.txt": SECRETS.encode()},
        error={"origin": "agent", "type": "Leak", "message": SECRETS},
        extra={"it": SECRETS},
    )
    send(made.attempt, {"lane/logs/agent.1.log": f"{SECRETS}\n".encode()})
    send(made.attempt, {"runs/not-planned/candidate/1/files/a": SECRETS.encode()})
    return made


def addresses(run: Run) -> list[str]:
    items = Item.objects.filter(attempt=run.attempt)
    return [
        reverse("run", args=[run.pk]),
        *(reverse("run-turn", args=[run.pk, n]) for n in (1, 2, 3)),
        *(reverse("item", args=[item.pk]) for item in items),
        *(reverse("item-file", args=[item.pk]) for item in items),
        reverse("lane", args=[run.plan.digest, run.lane.name]),
        reverse("quarantine", args=[run.plan.digest]),
        reverse("runs", args=[run.plan.digest]),
        reverse("plan", args=[run.plan.digest]),
        *(reverse("quarantine-file", args=[r.pk]) for r in Refusal.objects.all()),
    ]


@pytest.mark.parametrize("role", [Role.TRIAGER, Role.MAINTAINER])
def test_no_page_and_no_download_shows_a_secret(client: Client, run: Run, role: Role) -> None:
    client.force_login(make_user(project=run.plan.project, role=role))

    for address in addresses(run):
        response = client.get(address)
        assert response.status_code == 200, address
        text = response.content.decode()
        assert AWS_KEY not in text, address
        assert GITHUB_TOKEN not in text, address


def test_pages_say_that_secrets_were_found(client: Client, run: Run) -> None:
    client.force_login(make_user(project=run.plan.project, role=Role.VIEWER))
    item = Item.objects.get(run=run, kind="file")

    for address in (
        reverse("run", args=[run.pk]),
        reverse("item", args=[item.pk]),
        reverse("lane", args=[run.plan.digest, run.lane.name]),
    ):
        assert "Secrets were found in" in client.get(address).content.decode(), address
    text = client.get(reverse("item", args=[item.pk])).content.decode()
    assert '<mark class="redacted">[redacted:' in text
    assert reverse("item-unmasked", args=[item.pk]) not in text


def test_answers_of_the_api_show_no_secret(client: Client, run: Run) -> None:
    token = tokens.issue_token(run.plan.project, name="r", scopes=[Scope.READ], at=NOW).secret

    for name in ("api-run", "api-run-transcript"):
        answer = client.get(
            reverse(name, args=[run.pk]), headers={"Authorization": f"Bearer {token}"}
        )
        assert answer.status_code == 200
        assert AWS_KEY not in answer.content.decode()
        assert GITHUB_TOKEN not in answer.content.decode()
        assert "[redacted:" in answer.content.decode()


def test_trajectories_show_no_secret(run: Run) -> None:
    known = trajectories.known_runs(run.plan)

    text = json.dumps(list(trajectories.trajectories(run.plan, known)))

    assert AWS_KEY not in text
    assert GITHUB_TOKEN not in text
    assert "[redacted:" in text


@pytest.mark.parametrize(
    ("role", "status"), [(Role.VIEWER, 403), (Role.TRIAGER, 403), (Role.MAINTAINER, 200)]
)
@pytest.mark.parametrize("what", ["item-unmasked", "quarantine-unmasked"])
def test_bytes_as_they_came_are_for_maintainers_and_audited(
    client: Client, run: Run, role: Role, status: int, what: str
) -> None:
    user = make_user(project=run.plan.project, role=role)
    client.force_login(user)
    number = Item.objects.get(run=run, kind="file").pk
    if what == "quarantine-unmasked":
        number = Refusal.objects.get().pk

    response = client.post(reverse(what, args=[number]))

    assert response.status_code == status
    looks = AuditEntry.objects.filter(action="evidence.raw")
    if status == 200:
        assert response.content == SECRETS.encode()
        assert response["Content-Security-Policy"] == "default-src 'none'; sandbox"
        assert [look.actor for look in looks] == [f"user:{user.get_username()}"]
        assert run.attempt.key in looks[0].subject
    else:
        assert not looks


@pytest.mark.parametrize("what", ["item-unmasked", "quarantine-unmasked"])
def test_a_link_alone_unmasks_nothing(client: Client, run: Run, what: str) -> None:
    client.force_login(make_user(project=run.plan.project, role=Role.MAINTAINER))

    assert client.get(reverse(what, args=[1])).status_code == 405


def test_a_page_full_of_fake_markers_is_a_page(client: Client) -> None:
    fakes = "[redacted:aws:1]" * 5_000 + "[redacted:<b>:1] [redacted:aws:99999999999]"
    run = make_run(turns=[turn(1, fakes), turn(2, "[redacted:aws:1] <i>")])
    client.force_login(make_user(project=run.plan.project))

    text = client.get(reverse("run-turn", args=[run.pk, 1])).content.decode()

    assert text.count('<mark class="redacted">') <= 1_000
    assert text.count("[redacted:aws:1]") >= 5_000
    assert "<b>" not in text.partition("<article")[2]
    short = client.get(reverse("run", args=[run.pk])).content.decode()
    assert '<mark class="redacted">[redacted:aws:1]</mark> &lt;i&gt;' in short


def test_what_was_refused_shows_no_secret_in_names_or_fields(client: Client) -> None:
    run = make_run()
    name = f"runs/{run.scenario}/{run.arm}/1/files/{GITHUB_TOKEN}"
    failure = f"runs/{run.scenario}/{run.arm}/1/failure.json"
    send(run.attempt, {name: b"one"})
    send(run.attempt, {name: b"another"})
    send(run.attempt, {"lane/redactions.json": json.dumps({"seen": GITHUB_TOKEN}).encode()})
    send(run.attempt, {failure: json.dumps({"outcome": GITHUB_TOKEN}).encode()})
    client.force_login(make_user(project=run.plan.project, role=Role.TRIAGER))
    refusals = list(Refusal.objects.all())
    assert len(refusals) == 3

    for address in (
        reverse("quarantine", args=[run.plan.digest]),
        reverse("lane", args=[run.plan.digest, run.lane.name]),
        *(reverse("quarantine-file", args=[refusal.pk]) for refusal in refusals),
    ):
        response = client.get(address)
        assert response.status_code == 200
        assert GITHUB_TOKEN not in response.content.decode(), address
        assert GITHUB_TOKEN not in str(response.headers), address
