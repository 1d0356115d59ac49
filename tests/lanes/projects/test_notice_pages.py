"""The pages of notices and channels: what they show, to whom, and what their buttons do."""

from collections.abc import Callable
from datetime import timedelta
from urllib.parse import unquote

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from lanes.projects.models import (
    AuditEntry,
    Channel,
    ChannelKind,
    Delivery,
    Notice,
    NoticeKind,
    NoticeState,
    Project,
    Role,
)
from lanes.projects.operations import notices
from lanes.projects.views.notices import PER_PAGE
from tests.lanes import factories
from tests.lanes.factories import NOW
from tests.lanes.projects.made import make_channel, make_notice

pytestmark = pytest.mark.django_db


@pytest.fixture
def project() -> Project:
    return factories.make_project("acme/agent")


def as_member(client: Client, project: Project, role: Role) -> Client:
    client.force_login(
        factories.make_user(f"{role.lower()}-of-{project.pk}", project=project, role=role)
    )
    return client


def page(client: Client, path: str) -> str:
    response = client.get(path)
    assert response.status_code == 200, response.content
    return response.content.decode()


def test_list_shows_open_notices_first(client: Client, project: Project) -> None:
    older, newer = (
        make_notice(project, subject="Older red"),
        make_notice(project, subject="Newer red"),
    )
    notices.acknowledge_notice(newer, actor="user:ada", at=NOW)
    make_notice(factories.make_project(), subject="Of another project")

    text = page(as_member(client, project, Role.VIEWER), "/projects/acme/agent/notices/")

    assert text.index("Older red") < text.index("Newer red")
    assert "user:ada" in text
    assert "Of another project" not in text
    assert f"/notices/{older.pk}/" in text
    assert "Channels</a>" not in text


def test_list_is_filtered_by_state_and_kind(client: Client, project: Project) -> None:
    red = make_notice(project, subject="Red one")
    make_notice(project, kind=NoticeKind.DRIFT, subject="Drifting one")
    notices.resolve_notice(project, kind=NoticeKind.NIGHTLY_RED, key=red.key, at=NOW)
    as_member(client, project, Role.VIEWER)

    over = page(client, "/projects/acme/agent/notices/?state=RESOLVED")
    drifting = page(client, "/projects/acme/agent/notices/?kind=DRIFT&state=OPEN")
    none = page(client, "/projects/acme/agent/notices/?kind=BUDGET")

    assert "Red one" in over
    assert "Drifting one" not in over
    assert "Drifting one" in drifting
    assert "Red one" not in drifting
    assert "No notice matches" in none


def test_pages_follow_each_other_through_open_and_others(client: Client, project: Project) -> None:
    total = PER_PAGE * 2 + 10
    for number in range(total):
        notice = make_notice(project, subject=f"subject {number:03}")
        if number % 2:
            notices.acknowledge_notice(notice, actor="user:ada", at=NOW)
    as_member(client, project, Role.VIEWER)
    seen: list[str] = []
    query: str | None = "?"
    pages = 0
    while query is not None:
        response = client.get(f"/projects/acme/agent/notices/{query}")
        seen += [notice.subject for notice in response.context["notices"]]
        query = response.context["next"]
        pages += 1

    expected = [f"subject {n:03}" for n in range(total)][::-1]
    assert seen == expected[1::2] + expected[0::2]
    assert pages == 3


@pytest.mark.slow
def test_page_among_ten_thousand_reads_a_page(
    client: Client, project: Project, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    resolved = {"state": NoticeState.RESOLVED, "resolved_at": NOW}
    Notice.objects.bulk_create(
        (
            Notice(
                project=project,
                kind=NoticeKind.NIGHTLY_RED,
                key=f"k{number}",
                subject=f"s{number}",
                raised_at=NOW,
                updated_at=NOW,
                path="/",
                **(resolved if number % 50 else {}),
            )
            for number in range(10_000)
        ),
        batch_size=5000,
    )
    as_member(client, project, Role.VIEWER)

    # Session, person, project, role, the open ones, role again, the feed's address, the state of the
    # worker, the count in the navigation.
    with django_assert_num_queries(9):
        response = client.get("/projects/acme/agent/notices/")
    assert len(response.context["notices"]) == PER_PAGE
    last = page(client, "/projects/acme/agent/notices/?part=rest&before=1000000")
    assert "s9999" in last
    assert '<span class="count">100+' in last


def test_bad_places_are_refused(client: Client, project: Project) -> None:
    as_member(client, project, Role.VIEWER)

    for query in ("before=x", "before=-1", "before=1&part=middle", f"before={'9' * 20}"):
        assert client.get(f"/projects/acme/agent/notices/?{query}").status_code == 400


def test_notice_shows_hostile_text_as_text(client: Client, project: Project) -> None:
    notice = make_notice(
        project, subject="<script>alert(1)</script>", detail="<img src=x onerror=alert(1)>\x1b[31m"
    )

    text = page(
        as_member(client, project, Role.VIEWER), f"/projects/acme/agent/notices/{notice.pk}/"
    )

    assert "<script>alert" not in text
    assert "<img src=x" not in text
    assert "&lt;script&gt;alert(1)" in text


def test_acknowledging_shows_who_and_when_and_is_idempotent(
    client: Client, project: Project
) -> None:
    notice = make_notice(project)
    as_member(client, project, Role.TRIAGER)
    address = f"/projects/acme/agent/notices/{notice.pk}/"
    assert "Acknowledge</button>" in page(client, address)

    for _ in range(2):
        response = client.post(f"{address}acknowledge/")
        assert (response.status_code, response.headers["Location"]) == (302, address)

    text = page(client, address)
    assert f"user:triager-of-{project.pk}" in text
    assert "Acknowledge</button>" not in text
    assert AuditEntry.objects.filter(action="notice.acknowledge").count() == 1


def test_acknowledging_takes_the_form_of_this_server(project: Project) -> None:
    notice = make_notice(project)
    client = as_member(Client(enforce_csrf_checks=True), project, Role.TRIAGER)
    address = f"/projects/acme/agent/notices/{notice.pk}/acknowledge/"

    assert client.post(address).status_code == 403
    assert client.get(address).status_code == 405
    notice.refresh_from_db()
    assert notice.state == NoticeState.OPEN


READ = ["/projects/acme/agent/notices/", "/projects/acme/agent/notices/{notice}/"]
TRIAGE = ["/projects/acme/agent/notices/{notice}/acknowledge/"]
KEEP = [
    "/projects/acme/agent/notices/channels/",
    "/projects/acme/agent/notices/channels/mail/",
    "/projects/acme/agent/notices/channels/mail/test/",
    "/projects/acme/agent/notices/channels/mail/disable/",
]


@pytest.mark.parametrize(
    ("paths", "method", "allowed"),
    [
        (READ, "get", {Role.VIEWER, Role.TRIAGER, Role.MAINTAINER}),
        (TRIAGE, "post", {Role.TRIAGER, Role.MAINTAINER}),
        (KEEP[:2], "get", {Role.MAINTAINER}),
        (KEEP[2:], "post", {Role.MAINTAINER}),
    ],
)
def test_pages_open_by_role_and_to_no_stranger(
    project: Project, paths: list[str], method: str, allowed: set[Role]
) -> None:
    make_channel(project, name="mail")
    notice = make_notice(project)
    other = factories.make_project()
    stranger, nobody = as_member(Client(), other, Role.MAINTAINER), Client()
    for path in (path.format(notice=notice.pk) for path in paths):
        for role in Role:
            member = Client()
            member.force_login(factories.make_user(project=project, role=role))
            status = getattr(member, method)(path).status_code
            assert status in ({200, 302} if role in allowed else {403}), (path, role)
        assert getattr(stranger, method)(path).status_code == 404
        answer = getattr(nobody, method)(path)
        assert answer.status_code == 302
        assert "/sign-in/" in unquote(answer.headers["Location"])


def test_unknown_and_foreign_projects_look_alike(client: Client, project: Project) -> None:
    make_notice(project)
    as_member(client, factories.make_project(), Role.MAINTAINER)

    foreign = client.get("/projects/acme/agent/notices/")
    unknown = client.get("/projects/acme/nothing/notices/")

    assert (foreign.status_code, unknown.status_code) == (404, 404)
    assert foreign.content.partition(b"<main")[2] == unknown.content.partition(b"<main")[2]


def test_notice_of_another_project_is_not_found_under_this_one(
    client: Client, project: Project
) -> None:
    foreign = make_notice(factories.make_project())
    as_member(client, project, Role.MAINTAINER)

    assert client.get(f"/projects/acme/agent/notices/{foreign.pk}/").status_code == 404
    answer = client.post(f"/projects/acme/agent/notices/{foreign.pk}/acknowledge/")
    assert answer.status_code == 404
    foreign.refresh_from_db()
    assert foreign.state == NoticeState.OPEN


def test_overview_leads_to_the_only_project(client: Client, project: Project) -> None:
    make_notice(project)
    user = factories.make_user(project=project)
    client.force_login(user)

    assert client.get("/notices/").headers["Location"] == "/projects/acme/agent/notices/"
    other = factories.make_project("acme/zoo")
    other.memberships.create(user=user, role=Role.VIEWER)
    text = page(client, "/notices/")
    assert text.index("acme/agent") < text.index("acme/zoo")


def test_navigation_counts_open_notices_of_ones_own_projects(
    client: Client, project: Project
) -> None:
    make_notice(project)
    make_notice(factories.make_project())

    own = page(as_member(client, project, Role.VIEWER), "/plans/")
    assert '<span class="count">1<' in own
    client.force_login(factories.make_user())
    assert 'class="count"' not in page(client, "/plans/")


def test_errors_and_places_are_shown_to_maintainers(client: Client, project: Project) -> None:
    make_channel(project)
    notice = make_notice(project)
    Delivery.objects.update(last_error="550 no such user ada@example.org", attempts=3)
    address = f"/projects/acme/agent/notices/{notice.pk}/"

    assert "ada@example.org" in page(as_member(client, project, Role.MAINTAINER), address)
    assert "ada@example.org" not in page(as_member(Client(), project, Role.TRIAGER), address)


def test_deliveries_ask_for_themselves_only_while_something_is_about_to_be_sent(
    client: Client, project: Project
) -> None:
    make_channel(project)
    notice = make_notice(project)
    as_member(client, project, Role.VIEWER)
    address = f"/projects/acme/agent/notices/{notice.pk}/"

    part = client.get(address, headers={"HX-Request": "true"})
    assert "hx-get" in part.content.decode()
    assert "<h1>" not in part.content.decode()
    assert "HX-Request" in part.headers["Vary"]
    Delivery.objects.update(last_error="refused")
    assert "hx-get" not in page(client, address)


def form(**changes: object) -> dict[str, object]:
    return {
        "name": "hook",
        "kind": "WEBHOOK",
        "target": "https://hub.test/in/geheim",
        "notices": ["BUDGET"],
        **changes,
    }


def test_channel_is_made_and_its_secret_shown_this_once(client: Client, project: Project) -> None:
    as_member(client, project, Role.MAINTAINER)

    made = client.post("/projects/acme/agent/notices/channels/", form())

    channel = Channel.objects.get()
    assert channel.secret.startswith("whsec_")
    assert channel.secret in made.content.decode()
    assert "no-store" in made.headers["Cache-Control"]
    for path in ("channels/", "channels/hook/", ""):
        text = page(client, f"/projects/acme/agent/notices/{path}")
        assert channel.secret not in text
        assert "geheim" not in text
    renewed = client.post(
        "/projects/acme/agent/notices/channels/hook/",
        {"target": "", "notices": ["DRIFT"], "new_secret": "on"},
    )
    assert channel.secret not in renewed.content.decode()
    channel.refresh_from_db()
    assert channel.secret in renewed.content.decode()
    assert channel.target == "https://hub.test/in/geheim"
    assert channel.notice_kinds == ["DRIFT"]


@pytest.mark.parametrize(
    ("changes", "status", "said"),
    [
        ({"name": "Hook"}, 422, "lower-case letters"),
        ({"target": "https://127.0.0.1:22/"}, 422, "port was 22"),
        ({"target": "http://hub.test/"}, 422, "must begin with https"),
        ({"target": "https://[::1]/"}, 422, "is not public"),
        ({"target": "https://10.0.0.7/in"}, 422, "is not public"),
        ({"notices": []}, 422, "This field is required"),
        ({"notices": ["TEST"]}, 422, "not one of the available choices"),
        ({"kind": "PIGEON"}, 422, "not one of the available choices"),
        ({"name": "mail"}, 409, "There is a channel mail already"),
    ],
)
def test_wrong_channels_are_refused_beside_what_was_typed(
    client: Client, project: Project, changes: dict[str, object], status: int, said: str
) -> None:
    make_channel(project, name="mail")
    as_member(client, project, Role.MAINTAINER)

    answer = client.post("/projects/acme/agent/notices/channels/", form(**changes))

    assert answer.status_code == status
    assert said in answer.content.decode()
    assert Channel.objects.count() == 1


def test_channel_is_disabled_and_used_again(client: Client, project: Project) -> None:
    make_channel(project, name="mail")
    as_member(client, project, Role.MAINTAINER)
    address = "/projects/acme/agent/notices/channels/mail/"

    client.post(f"{address}disable/")
    text = page(client, address)
    assert "disabled" in text
    assert "Send a test" not in text
    assert client.post(f"{address}test/").status_code == 409
    client.post(address, {"target": "", "notices": ["BUDGET"]})
    assert Channel.objects.get().disabled_at is None


def test_failing_channel_says_why_and_when_it_is_tried_again(
    client: Client, project: Project
) -> None:
    make_channel(project, name="mail")
    Channel.objects.update(
        failures=7,
        last_error="The mail server refused the letter: 550 <b>no</b>.",
        last_error_at=NOW,
        paused_until=NOW + timedelta(minutes=40),
    )
    as_member(client, project, Role.MAINTAINER)

    for path in ("channels/", "channels/mail/"):
        text = page(client, f"/projects/acme/agent/notices/{path}")
        assert "failing" in text
        assert "550 &lt;b&gt;no&lt;/b&gt;" in text
        assert ("Failed 7 times in a row" in text) == ("mail/" in path)
        assert ("2026-11-29 12:40 UTC" in text) == ("mail/" in path)


def test_test_of_a_channel_leads_to_its_notice(
    client: Client,
    project: Project,
    django_capture_on_commit_callbacks: Callable[..., object],
) -> None:
    make_channel(project, ChannelKind.GITHUB_ISSUE, name="issue")
    as_member(client, project, Role.MAINTAINER)

    answer = client.post("/projects/acme/agent/notices/channels/issue/test/")

    notice = Notice.objects.get(kind=NoticeKind.TEST)
    assert answer.headers["Location"] == f"/projects/acme/agent/notices/{notice.pk}/"
    assert "about to be sent" in page(client, answer.headers["Location"])


def test_rolling_issue_is_changed_without_a_target(client: Client, project: Project) -> None:
    make_channel(project, ChannelKind.GITHUB_ISSUE, name="issue")
    as_member(client, project, Role.MAINTAINER)
    address = "/projects/acme/agent/notices/channels/issue/"

    assert "Where to</label>" not in page(client, address)
    assert client.post(address, {"notices": ["DRIFT"]}).status_code == 302
    assert Channel.objects.get().notice_kinds == ["DRIFT"]


def test_notice_behind_a_paused_channel_says_why_it_waits(client: Client, project: Project) -> None:
    make_channel(project)
    notice = make_notice(project)
    Channel.objects.update(
        failures=3,
        last_error="The mail server is away.",
        paused_until=timezone.now() + timedelta(hours=1),
    )
    as_member(client, project, Role.MAINTAINER)

    text = page(client, f"/projects/acme/agent/notices/{notice.pk}/")

    assert "not sent yet" in text
    assert "The mail server is away." in text
    assert "hx-get" not in text
