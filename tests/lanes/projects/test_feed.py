"""The Atom feed: valid whatever is in it, stable, conditional, and open to whom it should be."""

import re
from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree

import pytest
from django.test import Client
from django.utils.http import http_date

from lanes.projects.models import AuditEntry, FeedLink, Notice, NoticeKind, Project, Role, Scope
from lanes.projects.operations import feeds, notices
from lanes.projects.queries import feeds as feed_queries
from lanes.projects.views.feeds import PER_PAGE
from tests.lanes import factories
from tests.lanes.factories import NOW
from tests.lanes.projects.made import make_notice
from tests.lanes.threads import at_once

pytestmark = pytest.mark.django_db

FEED = "/projects/acme/agent/notices.atom"
ATOM = "{http://www.w3.org/2005/Atom}"
LATER = NOW + timedelta(hours=3)


@pytest.fixture
def project() -> Project:
    return factories.make_project("acme/agent")


@pytest.fixture
def reader(client: Client, project: Project) -> Client:
    client.force_login(factories.make_user("ada", project=project))
    return client


def parsed(client: Client, path: str = FEED) -> ElementTree.Element:
    response = client.get(path)
    assert response.status_code == 200, response.content
    assert response.headers["Content-Type"] == "application/atom+xml; charset=utf-8"
    return ElementTree.fromstring(response.content)  # noqa: S314 - from ourselves


def texts(feed: ElementTree.Element, name: str) -> list[str]:
    return [entry.findtext(f"{ATOM}{name}", "") for entry in feed.iter(f"{ATOM}entry")]


def test_entries_are_stable_and_say_what_became_of_them(reader: Client, project: Project) -> None:
    older, newer = make_notice(project, subject="Older"), make_notice(project, subject="Newer")
    before = parsed(reader)
    notices.acknowledge_notice(older, actor="user:ada", at=LATER)
    notices.resolve_notice(project, kind=NoticeKind.NIGHTLY_RED, key=newer.key, at=LATER)
    after = parsed(reader)

    assert texts(before, "title") == texts(after, "title") == ["Newer", "Older"]
    assert (
        texts(before, "id") == texts(after, "id") == [f"urn:uuid:{n.uid}" for n in (newer, older)]
    )
    assert texts(before, "updated") == ["2026-11-29T12:00:00+00:00"] * 2
    assert texts(after, "updated") == ["2026-11-29T15:00:00+00:00"] * 2
    assert texts(after, "published") == texts(before, "published")
    assert after.findtext(f"{ATOM}updated") == "2026-11-29T15:00:00+00:00"
    over, acknowledged = texts(after, "summary")
    assert "Over since 2026-11-29 15:00 UTC." in over
    assert "Acknowledged by user:ada 2026-11-29 15:00 UTC." in acknowledged


def test_hostile_text_is_read_as_text_and_the_feed_stays_valid(
    reader: Client, project: Project
) -> None:
    hostile = "<script>alert(1)</script> ]]> & \x00\x08\x0b\x1b\ufffe\u202e <!-- 😀"
    make_notice(project, subject=hostile, detail=hostile)
    # What an earlier release, or somebody with the database, may have written.
    Notice.objects.update(
        acknowledged_by="token: \x1b[31m<b>", acknowledged_at=NOW, state="ACKNOWLEDGED"
    )

    feed = parsed(reader)

    (title,), (summary,) = texts(feed, "title"), texts(feed, "summary")
    assert title.startswith("<script>alert(1)</script> ]]> & ")
    assert "😀" in title
    # Readers take the summary for HTML: what was escaped once more is text there.
    assert "&lt;script&gt;" in summary
    assert "<script" not in summary
    assert "&lt;b&gt;" in summary
    assert set(re.findall(r"<(\w+)", summary)) <= {"p", "br"}


def test_unchanged_feed_is_not_sent_again(reader: Client, project: Project) -> None:
    notice = make_notice(project, at=NOW)
    first = reader.get(FEED)
    etag, modified = first.headers["ETag"], first.headers["Last-Modified"]

    assert reader.get(FEED, headers={"If-None-Match": etag}).status_code == 304
    assert reader.get(FEED, headers={"If-Modified-Since": modified}).status_code == 304
    assert modified == http_date(NOW.timestamp())
    assert set(first.headers["Vary"].split(", ")) >= {"Cookie", "Authorization"}
    assert "private" in first.headers["Cache-Control"]
    notices.acknowledge_notice(notice, actor="user:ada", at=LATER)
    assert reader.get(FEED, headers={"If-None-Match": etag}).status_code == 200
    assert reader.get(FEED, headers={"If-Modified-Since": modified}).status_code == 200
    make_notice(project)
    assert reader.get(FEED).headers["ETag"] != etag


def test_empty_feed_is_valid_and_has_a_time_of_its_own(reader: Client, project: Project) -> None:
    feed = parsed(reader)

    assert feed.findtext(f"{ATOM}updated") == "2026-11-29T12:00:00+00:00"
    assert texts(feed, "id") == []
    assert reader.get(FEED).headers["ETag"] == reader.get(FEED).headers["ETag"]


def test_feed_is_bounded_and_goes_on(reader: Client, project: Project) -> None:
    made = [make_notice(project) for _ in range(PER_PAGE + 3)][::-1]

    first = parsed(reader)
    (following,) = [
        link.get("href") for link in first.iter(f"{ATOM}link") if link.get("rel") == "next"
    ]
    second = parsed(reader, str(following).partition("8123")[2])

    seen = texts(first, "id") + texts(second, "id")
    assert len(texts(first, "id")) == PER_PAGE
    assert seen == [f"urn:uuid:{notice.uid}" for notice in made]
    assert reader.get(f"{FEED}?before=x").status_code == 400


def test_feed_holds_its_own_project_alone(reader: Client, project: Project) -> None:
    make_notice(factories.make_project())

    assert texts(parsed(reader), "id") == []


def test_token_with_the_scope_read_opens_it(project: Project) -> None:
    make_notice(project)

    def status(secret: str) -> int:
        return Client().get(FEED, headers={"Authorization": f"Bearer {secret}"}).status_code

    assert status(factories.make_token(project, Scope.READ).secret) == 200
    assert status(factories.make_token(project).secret) == 200
    assert status(factories.make_token(project, Scope.LANE_WRITE).secret) == 403
    assert status(factories.make_token(factories.make_project()).secret) == 403
    past = datetime(2020, 1, 1, tzinfo=UTC)
    assert status(factories.make_token(project, Scope.READ, expires_at=past).secret) == 401
    assert status("evh_unknown") == 401


def test_strangers_and_nobody_are_kept_out(client: Client, project: Project) -> None:
    make_notice(project)

    assert client.get(FEED).status_code == 401
    client.force_login(factories.make_user(project=factories.make_project(), role=Role.MAINTAINER))
    assert client.get(FEED).status_code == 404


def test_wrong_token_beside_a_session_is_refused(reader: Client) -> None:
    answer = reader.get(FEED, headers={"Authorization": "Bearer evh_unknown"})

    assert answer.status_code == 401


def secret_address(client: Client) -> str:
    answer = client.post("/projects/acme/agent/notices/feed/make/")
    assert "no-store" in answer.headers["Cache-Control"]
    found = re.search(rf"{re.escape(FEED)}\?key=[\w-]+", answer.content.decode())
    assert found is not None
    return found[0]


def test_secret_address_opens_the_feed_without_signing_in(reader: Client, project: Project) -> None:
    make_notice(project)
    address = secret_address(reader)
    secret = address.partition("key=")[2]

    assert len(texts(parsed(Client(), address), "id")) == 1
    assert secret not in Client().get(address).content.decode()
    assert secret not in reader.get("/projects/acme/agent/notices/").content.decode()
    assert secret not in str(list(FeedLink.objects.values()))
    assert secret not in str(list(AuditEntry.objects.values()))
    foreign = factories.make_project("acme/other")
    make_notice(foreign)
    assert Client().get(address.replace("acme/agent", "acme/other")).status_code == 401


def test_secret_address_ends_when_it_is_replaced_or_revoked(reader: Client) -> None:
    first = secret_address(reader)
    second = secret_address(reader)

    assert Client().get(first).status_code == 401
    assert Client().get(second).status_code == 200
    answer = reader.post("/projects/acme/agent/notices/feed/revoke/")
    assert answer.status_code == 302
    assert Client().get(second).status_code == 401
    actions = AuditEntry.objects.filter(action__startswith="feed.").order_by("pk")
    assert [entry.action for entry in actions] == [
        "feed.make",
        "feed.revoke",
        "feed.make",
        "feed.revoke",
    ]


def test_secret_address_ends_with_its_persons_membership(reader: Client, project: Project) -> None:
    address = secret_address(reader)
    membership = project.memberships.get()
    user = membership.user

    membership.delete()
    assert Client().get(address).status_code == 404
    project.memberships.create(user=user, role=Role.VIEWER)
    assert Client().get(address).status_code == 200
    user.is_active = False
    user.save()
    assert Client().get(address).status_code == 404


def test_strangers_make_no_address(client: Client, project: Project) -> None:
    client.force_login(factories.make_user())

    assert client.post("/projects/acme/agent/notices/feed/make/").status_code == 404
    assert client.get("/projects/acme/agent/notices/feed/make/").status_code == 405
    assert not FeedLink.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_addresses_made_at_once_leave_one(project: Project) -> None:
    user = factories.make_user(project=project)

    secrets = at_once([lambda: feeds.make_feed_link(user, project, at=NOW)] * 3)

    assert feed_queries.feed_links_in_use(user, project).count() == 1
    working = [s for s in secrets if feed_queries.reader_with_secret(str(s), project.name)]
    assert len(working) == 1
