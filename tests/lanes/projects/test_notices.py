"""Notices: raised once, acknowledged by somebody, resolved when it is over."""

from datetime import timedelta

import pytest

from lanes.projects.models import (
    AuditEntry,
    ChannelKind,
    Delivery,
    Notice,
    NoticeKind,
    NoticeState,
)
from lanes.projects.operations import channels, notices
from lanes.projects.queries import notices as notice_queries
from tests.lanes import factories
from tests.lanes.factories import NOW
from tests.lanes.projects.made import make_channel, make_notice
from tests.lanes.threads import at_once

LATER = NOW + timedelta(hours=8)


@pytest.mark.django_db
def test_raise_notice_twice_is_one_notice_and_one_delivery_per_channel() -> None:
    project = factories.make_project()
    mail = make_channel(project, notice_kinds=[NoticeKind.NIGHTLY_RED])
    make_channel(project, notice_kinds=[NoticeKind.BUDGET])
    make_channel(factories.make_project())

    first = make_notice(project, "one night", subject="Red")
    second = make_notice(project, "one night", subject="Said otherwise")

    assert first == second
    assert second.subject == "Red"
    assert [delivery.channel for delivery in Delivery.objects.all()] == [mail]


@pytest.mark.django_db(transaction=True)
def test_raise_notice_at_once_is_one_notice() -> None:
    project = factories.make_project()
    # Nothing is sent from here: a rolling issue has a sender elsewhere.
    make_channel(project, ChannelKind.GITHUB_ISSUE)

    raised = at_once([lambda: make_notice(project, "one night")] * 4)

    assert Notice.objects.count() == 1
    assert raised == [Notice.objects.get()] * 4
    assert Delivery.objects.count() == 1


@pytest.mark.django_db
def test_channel_made_later_does_not_carry_old_notices() -> None:
    project = factories.make_project()
    make_notice(project, "one night")
    make_channel(project)

    make_notice(project, "one night")

    assert not Delivery.objects.exists()


@pytest.mark.django_db
def test_resolve_notice_ends_it_and_says_whether_there_was_one() -> None:
    project = factories.make_project()
    notice = make_notice(project)

    def resolve() -> bool:
        return notices.resolve_notice(
            project, kind=NoticeKind.NIGHTLY_RED, key=notice.key, at=LATER
        )

    assert (resolve(), resolve()) == (True, False)
    notice.refresh_from_db()
    assert (notice.state, notice.resolved_at, notice.updated_at) == (
        NoticeState.RESOLVED,
        LATER,
        LATER,
    )
    assert make_notice(project, notice.key).state == NoticeState.RESOLVED
    assert not notice_queries.unresolved_notices(project, NoticeKind.NIGHTLY_RED).exists()


@pytest.mark.django_db
def test_acknowledge_notice_keeps_the_first_and_is_audited_once() -> None:
    notice = make_notice(factories.make_project())

    notices.acknowledge_notice(notice, actor="user:ada", at=LATER)
    again = notices.acknowledge_notice(notice, actor="user:bob", at=LATER + timedelta(hours=1))

    assert (again.state, again.acknowledged_by, again.acknowledged_at) == (
        NoticeState.ACKNOWLEDGED,
        "user:ada",
        LATER,
    )
    (entry,) = AuditEntry.objects.filter(action="notice.acknowledge")
    assert (entry.actor, entry.subject) == ("user:ada", f"NIGHTLY_RED {notice.key}")


@pytest.mark.django_db
def test_resolve_notices_ends_those_whose_keys_begin_alike() -> None:
    project = factories.make_project()
    for key in ("support/1", "support/2", "support-eu/1"):
        make_notice(project, key=key)

    ended = [
        notices.resolve_notices(
            project, kind=NoticeKind.NIGHTLY_RED, key_prefix="support/", at=LATER
        )
        for _ in range(2)
    ]

    assert ended == [2, 0]
    (left,) = notice_queries.unresolved_notices(project, NoticeKind.NIGHTLY_RED)
    assert left.key == "support-eu/1"


@pytest.mark.django_db
def test_acknowledge_notice_leaves_a_resolved_one_resolved() -> None:
    project = factories.make_project()
    notice = make_notice(project)
    notices.resolve_notice(project, kind=NoticeKind.NIGHTLY_RED, key=notice.key, at=LATER)

    again = notices.acknowledge_notice(notice, actor="user:ada", at=LATER)

    assert (again.state, again.acknowledged_by) == (NoticeState.RESOLVED, "user:ada")


@pytest.mark.django_db
def test_raise_notice_takes_any_text_and_refuses_foreign_paths() -> None:
    project = factories.make_project()
    subject = "Red\r\nBcc: all@example.org\0\x1b[31m " + "x" * 400

    notice = make_notice(project, subject=subject)

    assert notice.subject.startswith("Red Bcc: all@example.org\ufffd\ufffd[31m xxx")
    assert len(notice.subject) == 300
    for path in ("https://a.org/", "//a.org/", "/\\a.org", "/a b", "/\u00e4", "", "/" + "x" * 500):
        with pytest.raises(ValueError, match="path on this server"):
            notices.raise_notice(
                project, kind=NoticeKind.DRIFT, key="k", subject="", detail="", path=path, at=NOW
            )
    for key in ("k" * 201, "k\0", "k\n"):
        with pytest.raises(ValueError, match="a notice's key"):
            make_notice(project, key)


@pytest.mark.django_db
def test_each_change_raises_the_version_of_the_rolling_issue_alone() -> None:
    project = factories.make_project()
    issue, mail = make_channel(project, ChannelKind.GITHUB_ISSUE), make_channel(project)

    notice = make_notice(project)
    make_notice(project, notice.key)
    notices.acknowledge_notice(notice, actor="user:ada", at=LATER)
    notices.resolve_notice(project, kind=NoticeKind.NIGHTLY_RED, key=notice.key, at=LATER)

    issue.refresh_from_db()
    mail.refresh_from_db()
    assert (issue.version, mail.version) == (4, 1)


@pytest.mark.django_db
def test_oldest_unsent_notice_is_that_of_a_channel_in_use() -> None:
    project = factories.make_project()
    assert notice_queries.oldest_unsent_notice(NOW) is None
    channel = make_channel(project)
    make_notice(project)

    assert notice_queries.oldest_unsent_notice(LATER) == timedelta(hours=8)

    channels.disable_channel(channel, actor="user:ada", at=LATER)
    assert notice_queries.oldest_unsent_notice(LATER) is None
