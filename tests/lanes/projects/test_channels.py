"""Channels: what may be made, what is never shown, who is told in the audit."""

import json
from datetime import timedelta

import pytest
from pytest_django import Settings

from lanes.projects.models import (
    AuditEntry,
    Channel,
    ChannelKind,
    Delivery,
    NoticeKind,
    NoticeState,
)
from lanes.projects.operations import channels
from lanes.projects.operations.channels import (
    MOST_CHANNELS,
    ChannelConflictError,
    InvalidChannelError,
    KeptChannel,
)
from tests.lanes import factories
from tests.lanes.factories import NOW
from tests.lanes.projects.made import make_channel, make_notice
from tests.lanes.threads import at_once

pytestmark = pytest.mark.django_db


def put(channel: Channel, **changes: object) -> KeptChannel:
    given = {
        "kind": channel.kind,
        "target": None,
        "notice_kinds": [NoticeKind.BUDGET],
        "actor": "user:ada",
        "at": NOW,
    }
    return channels.put_channel(channel.project, channel.name, **{**given, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", "Mail", "-mail", "mail to ada", "m\u00e4il", "a" * 51, "a\n"])
def test_names_are_short_and_plain(name: str) -> None:
    with pytest.raises(InvalidChannelError, match="name was"):
        make_channel(factories.make_project(), name=name or "Ä")


@pytest.mark.parametrize(
    "target",
    [
        "",
        "ada",
        "ada@",
        "ada@example.org, bob@example.org",
        "Ada <ada@example.org>",
        "ada@example.org\nBcc: all@example.org",
        "ada@example.org\0",
        "a" * 250 + "@example.org",
        '"\x01"@example.org',
    ],
)
def test_e_mail_goes_to_one_plain_address(target: str) -> None:
    with pytest.raises(InvalidChannelError, match="one e-mail address"):
        make_channel(factories.make_project(), target=target)


@pytest.mark.parametrize("kind", [ChannelKind.WEBHOOK, ChannelKind.SLACK])
@pytest.mark.parametrize(
    "target",
    ["", "http://hub.test/", "https://user:word@hub.test/", "https://0x7f.1/", "ada@x.org"],
)
def test_urls_are_checked_before_they_are_kept(kind: ChannelKind, target: str) -> None:
    with pytest.raises(InvalidChannelError, match="The URL"):
        make_channel(factories.make_project(), kind, target=target)


def test_allowed_hosts_may_be_reached_by_plain_http(settings: Settings) -> None:
    settings.WEBHOOK_HOSTS = ["mattermost"]

    channel = make_channel(
        factories.make_project(), ChannelKind.SLACK, target="http://mattermost:8065/hooks/x"
    )

    assert channel.place == "mattermost/…"


def test_rolling_issue_takes_no_target_and_there_is_one() -> None:
    project = factories.make_project()
    with pytest.raises(InvalidChannelError, match="takes no target"):
        make_channel(project, ChannelKind.GITHUB_ISSUE, target="acme/other")
    first = make_channel(project, ChannelKind.GITHUB_ISSUE, name="issue")

    with pytest.raises(ChannelConflictError, match="has a rolling issue already"):
        make_channel(project, ChannelKind.GITHUB_ISSUE)

    make_channel(factories.make_project(), ChannelKind.GITHUB_ISSUE)
    channels.disable_channel(first, actor="user:ada", at=NOW)
    make_channel(project, ChannelKind.GITHUB_ISSUE, name="other")
    with pytest.raises(ChannelConflictError, match="the channel other"):
        put(first)


def test_kinds_of_notices_are_chosen_from_those_there_are() -> None:
    project = factories.make_project()
    for kinds in ([], [NoticeKind.TEST], [NoticeKind.TEST, NoticeKind.DRIFT]):
        with pytest.raises(InvalidChannelError, match="must be one or more of"):
            make_channel(project, notice_kinds=kinds)

    channel = make_channel(project, notice_kinds=[NoticeKind.DRIFT, NoticeKind.BUDGET])

    assert channel.notice_kinds == ["BUDGET", "DRIFT"]


def test_secret_is_told_when_it_is_new_and_kept_else() -> None:
    project = factories.make_project()
    made = channels.put_channel(
        project,
        "hook",
        kind=ChannelKind.WEBHOOK,
        target="https://hub.test/in",
        notice_kinds=[NoticeKind.DRIFT],
        actor="user:ada",
        at=NOW,
    )

    kept, renewed = put(made.channel), put(made.channel, new_secret=True)

    assert made.secret is not None
    assert (kept.secret, kept.is_new) == (None, False)
    assert kept.channel.secret == made.secret
    assert kept.channel.target == "https://hub.test/in"
    assert renewed.secret not in {None, made.secret}
    assert make_channel(project, ChannelKind.SLACK).secret == ""


def test_audit_and_place_hold_no_secret() -> None:
    project = factories.make_project()
    hook = make_channel(
        project, ChannelKind.WEBHOOK, target="https://hub.test/in/geheim?key=geheim"
    )
    slack = make_channel(project, ChannelKind.SLACK)
    put(hook, new_secret=True)
    channels.test_channel(hook, actor="user:ada", at=NOW)
    channels.disable_channel(hook, actor="user:ada", at=NOW)

    entries = AuditEntry.objects.filter(action__startswith="channel.").order_by("pk")
    assert [entry.action for entry in entries] == [
        "channel.put",
        "channel.put",
        "channel.put",
        "channel.test",
        "channel.disable",
    ]
    said = json.dumps([[e.subject, e.before, e.after] for e in entries])
    assert "geheim" not in said
    assert "whsec" not in said
    assert hook.secret not in said
    assert (hook.place, slack.place) == ("hub.test/…", "hooks.hub.test/…")


def test_kind_of_a_channel_stays() -> None:
    channel = make_channel(factories.make_project())

    with pytest.raises(ChannelConflictError, match="is of the kind EMAIL"):
        put(channel, kind=ChannelKind.SLACK, target="https://hub.test/")


def test_channels_of_a_project_are_bounded() -> None:
    project = factories.make_project()
    Channel.objects.bulk_create(
        Channel(project=project, kind=ChannelKind.EMAIL, name=f"c{n}", created_at=NOW)
        for n in range(MOST_CHANNELS)
    )

    with pytest.raises(ChannelConflictError, match=f"has {MOST_CHANNELS} channels"):
        make_channel(project)


def test_disabling_twice_is_audited_once_and_putting_it_again_brings_it_back() -> None:
    channel = make_channel(factories.make_project())
    channels.disable_channel(channel, actor="user:ada", at=NOW)
    channels.disable_channel(channel, actor="user:bob", at=NOW)

    assert AuditEntry.objects.filter(action="channel.disable").count() == 1
    with pytest.raises(ChannelConflictError, match="is disabled"):
        channels.test_channel(channel, actor="user:ada", at=NOW)
    back = put(channel).channel
    assert back.disabled_at is None
    assert back.target == "ada@example.org"


def test_test_is_for_one_channel_alone_and_never_open() -> None:
    project = factories.make_project()
    channel, other = make_channel(project), make_channel(project)
    Channel.objects.update(paused_until=NOW)

    notice = channels.test_channel(channel, actor="user:ada", at=NOW)

    assert (notice.kind, notice.state) == (NoticeKind.TEST, NoticeState.RESOLVED)
    assert Delivery.objects.get().channel == channel
    channel.refresh_from_db()
    other.refresh_from_db()
    assert (channel.paused_until, other.paused_until) == (None, NOW)


def test_tests_in_a_row_take_their_time() -> None:
    channel = make_channel(factories.make_project())
    channels.test_channel(channel, actor="user:ada", at=NOW)

    with pytest.raises(channels.TestTooSoonError, match="a few seconds ago"):
        channels.test_channel(channel, actor="user:ada", at=NOW + timedelta(seconds=9))

    channels.test_channel(channel, actor="user:ada", at=NOW + timedelta(seconds=11))
    assert Delivery.objects.count() == 2


@pytest.mark.django_db(transaction=True)
def test_two_rolling_issues_made_at_once_are_one() -> None:
    project = factories.make_project()

    made = at_once(
        [
            lambda: make_channel(project, ChannelKind.GITHUB_ISSUE, name="first"),
            lambda: make_channel(project, ChannelKind.GITHUB_ISSUE, name="second"),
        ]
    )

    assert Channel.objects.count() == 1
    assert [type(outcome) for outcome in made].count(ChannelConflictError) == 1


@pytest.mark.django_db(transaction=True)
def test_new_secret_outlives_a_change_in_the_same_moment() -> None:
    channel = make_channel(factories.make_project(), ChannelKind.WEBHOOK)

    for _ in range(5):
        kept, _other = at_once(
            [lambda: put(channel, new_secret=True), lambda: put(channel, target="https://b.org/")]
        )

        assert isinstance(kept, KeptChannel)
        channel.refresh_from_db()
        assert channel.secret == kept.secret


@pytest.mark.django_db(transaction=True)
def test_two_tests_at_once_are_one() -> None:
    channel = make_channel(factories.make_project())

    at_once([lambda: channels.test_channel(channel, actor="user:ada", at=NOW) for _ in range(4)])

    assert Delivery.objects.count() == 1


def test_notices_reach_channels_by_kind() -> None:
    project = factories.make_project()
    make_channel(project, name="drift", notice_kinds=[NoticeKind.DRIFT])
    make_channel(project, name="money", notice_kinds=[NoticeKind.BUDGET, NoticeKind.DRIFT])

    make_notice(project, kind=NoticeKind.BUDGET)
    make_notice(project, kind=NoticeKind.DRIFT)
    make_notice(project, kind=NoticeKind.NIGHTLY_RED)

    carried = Delivery.objects.order_by("pk").values_list("notice__kind", "channel__name")
    assert list(carried) == [("BUDGET", "money"), ("DRIFT", "drift"), ("DRIFT", "money")]
