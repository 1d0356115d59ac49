"""Sending: once on each channel, through mail servers and receivers that refuse, stall and lose answers."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from pytest_django import Settings

from evalhub.protocol.notices import Notice as NoticeDocument
from evalhub.web.transports.outcomes import Refused
from evalhub.web.transports.signatures import signed_headers
from lanes.projects.models import Channel, ChannelKind, Delivery, DeliveryState, NoticeKind
from lanes.projects.operations import channels, deliveries, notices, sending
from lanes.projects.queries import deliveries as delivery_queries
from tests.evalhub.web.transports.receivers import answer, hang_up, receiving
from tests.evalhub.web.transports.smtp import MailServer, mail
from tests.lanes import factories
from tests.lanes.factories import NOW
from tests.lanes.projects.made import make_channel, make_notice
from tests.lanes.threads import at_once

__all__ = ["mail"]

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _near_receivers(settings: Settings) -> None:
    settings.WEBHOOK_HOSTS = ["127.0.0.1"]
    settings.PUBLIC_URL = "https://evalhub.test"


def send_all(channel: Channel, *, at: datetime = NOW) -> int:
    """Send as the task does; return how many went out."""
    sent = 0
    while sending.send_next(channel, at=at):
        sent += 1
    return sent


def only_delivery() -> Delivery:
    return Delivery.objects.select_related("channel", "notice").get()


def test_letter_says_what_happened_and_where(mail: MailServer) -> None:
    project = factories.make_project("acme/agent")
    channel = make_channel(project)
    notice = make_notice(project, subject="Nightly is red")

    assert send_all(channel) == 1

    (letter,) = mail.letters
    assert letter["Subject"] == "[acme/agent] Nightly is red"
    assert letter["Message-ID"] == f"<{notice.uid}.{channel.pk}@hub.test>"
    text = letter.get_content()
    assert "resolved fell by 12 points." in text
    assert "https://evalhub.test/plans/" in text
    assert f"https://evalhub.test/projects/acme/agent/notices/{notice.pk}/" in text
    delivery = only_delivery()
    assert (delivery.state, delivery.sent_at, delivery.attempts) == (DeliveryState.SENT, NOW, 1)
    channel.refresh_from_db()
    assert channel.last_sent_at == NOW


def test_nothing_is_sent_twice(mail: MailServer) -> None:
    project = factories.make_project()
    channel = make_channel(project)
    notice = make_notice(project)

    send_all(channel)
    make_notice(project, notice.key)
    notices.acknowledge_notice(notice, actor="user:ada", at=NOW)
    notices.resolve_notice(project, kind=NoticeKind.NIGHTLY_RED, key=notice.key, at=NOW)
    send_all(channel, at=NOW + timedelta(days=1))

    assert len(mail.letters) == 1


def test_acknowledged_and_ended_notices_still_go_out_and_say_so(mail: MailServer) -> None:
    project = factories.make_project()
    channel = make_channel(project)
    notice = make_notice(project)
    later = NOW + timedelta(hours=2)
    notices.acknowledge_notice(notice, actor="user:ada", at=later)
    notices.resolve_notice(project, kind=NoticeKind.NIGHTLY_RED, key=notice.key, at=later)

    send_all(channel, at=later)

    (letter,) = mail.letters
    assert "Acknowledged by user:ada 2026-11-29 14:00 UTC." in letter.get_content()
    assert "Over since 2026-11-29 14:00 UTC." in letter.get_content()


def test_webhook_is_the_document_signed_with_one_id_for_all_tries() -> None:
    project = factories.make_project("acme/agent")
    with receiving(answer("500 Server Error"), answer("204 No Content")) as receiver:
        channel = make_channel(
            project, ChannelKind.WEBHOOK, target=f"http://127.0.0.1:{receiver.port}/in"
        )
        notice = make_notice(project)
        assert send_all(channel) == 0
        later = NOW + timedelta(minutes=1)
        assert send_all(channel, at=later) == 1

    first, second = receiver.requests
    content = second.partition(b"\r\n\r\n")[2]
    assert first.partition(b"\r\n\r\n")[2] == content
    document = NoticeDocument.model_validate_json(content)
    assert (document.id, document.number, document.kind) == (
        str(notice.uid),
        notice.pk,
        "NIGHTLY_RED",
    )
    assert document.notice_url == f"https://evalhub.test/projects/acme/agent/notices/{notice.pk}/"
    assert json.loads(content)["schema"] == "evalhub.notice/1"
    for request, at in ((first, NOW), (second, later)):
        signed = signed_headers(channel.secret, message_id=str(notice.uid), content=content, at=at)
        for name, value in signed.items():
            assert f"{name}: {value}\r\n".encode() in request


def test_slack_gets_text_in_which_nothing_from_outside_is_live() -> None:
    project = factories.make_project("acme/agent")
    with receiving(answer("200 OK", body=b"ok")) as receiver:
        channel = make_channel(
            project, ChannelKind.SLACK, target=f"http://127.0.0.1:{receiver.port}/services/x"
        )
        notice = make_notice(
            project,
            subject="<!channel> @here & <https://evil.example|log in> ![x](https://evil.example/x)",
            detail="`code` www.evil.example #general <@U123>",
        )
        assert send_all(channel) == 1

    text = json.loads(receiver.body)["text"]
    page = f"https://evalhub.test/projects/acme/agent/notices/{notice.pk}/"
    assert text.endswith(f"<https://evalhub.test/plans/|More> · <{page}|Acknowledge>")
    outside = text.partition("\n<https://evalhub")[0]
    for live in ("<", ">", "@here", "://", "](", "![", "www.", "#general"):
        assert live not in outside
    assert "&lt;!channel&gt;" in outside
    assert "repeat" not in text


def test_lost_answer_of_slack_is_sent_again_as_what_may_be_a_repeat() -> None:
    project = factories.make_project()
    with receiving(hang_up, answer("200 OK")) as receiver:
        channel = make_channel(
            project, ChannelKind.SLACK, target=f"http://127.0.0.1:{receiver.port}/"
        )
        make_notice(project)
        send_all(channel)
        assert only_delivery().is_uncertain
        send_all(channel, at=NOW + timedelta(minutes=1))

    first, second = (json.loads(r.partition(b"\r\n\r\n")[2])["text"] for r in receiver.requests)
    assert "may be a repeat" not in first
    assert "may be a repeat" in second
    assert only_delivery().state == DeliveryState.SENT


def test_refusal_that_nobody_took_is_no_repeat_when_it_goes_out() -> None:
    project = factories.make_project()
    with receiving(answer("404 Not Found"), answer("200 OK")) as receiver:
        channel = make_channel(
            project, ChannelKind.SLACK, target=f"http://127.0.0.1:{receiver.port}/"
        )
        make_notice(project)
        send_all(channel)
        send_all(channel, at=NOW + timedelta(minutes=1))

    assert b"repeat" not in receiver.requests[1]


def test_refusing_mail_server_is_tried_again_and_shown(mail: MailServer) -> None:
    mail.answers["RCPT"] = ["451 greylisted, come back"]
    project = factories.make_project()
    channel = make_channel(project)
    make_notice(project)

    assert send_all(channel) == 0

    delivery = only_delivery()
    assert (delivery.state, delivery.attempts) == (DeliveryState.PENDING, 1)
    assert "451 greylisted, come back" in delivery.last_error
    assert not delivery.is_uncertain
    channel.refresh_from_db()
    assert (channel.failures, channel.last_error) == (1, delivery.last_error)
    assert channel.paused_until is not None
    assert send_all(channel, at=NOW + timedelta(minutes=1)) == 1
    channel.refresh_from_db()
    assert (channel.failures, channel.last_error) == (0, "")
    assert len(mail.letters) == 1


def test_channel_that_fails_backs_off_to_an_hour_and_is_never_given_up(settings: Settings) -> None:
    settings.EMAIL_HOST = ""
    project = factories.make_project()
    channel = make_channel(project)
    make_notice(project)
    at, waits = NOW, []
    for _ in range(14):
        sending.send_next(channel, at=at)
        channel.refresh_from_db()
        assert channel.paused_until is not None
        waits.append(channel.paused_until - at)
        at = max(channel.paused_until, only_delivery().next_attempt_at)

    assert timedelta(seconds=7) < waits[0] <= timedelta(seconds=10)
    assert waits[5] > waits[0] * 10
    assert timedelta(minutes=45) <= waits[-1] <= timedelta(hours=1)
    assert only_delivery().state == DeliveryState.PENDING
    assert only_delivery().attempts == 14
    assert "EVALHUB_EMAIL_URL" in channel.last_error


def test_one_poor_notice_does_not_hold_up_the_others(mail: MailServer) -> None:
    project = factories.make_project()
    channel = make_channel(project)
    poor, good = make_notice(project), make_notice(project)
    mail.answers["LETTER"] = ["554 looks like spam"]

    send_all(channel)
    assert mail.letters == []
    channel.refresh_from_db()
    assert channel.paused_until is not None
    send_all(channel, at=channel.paused_until)

    assert mail.letters[0]["Message-ID"] == f"<{good.uid}.{channel.pk}@hub.test>"
    channel.refresh_from_db()
    assert (channel.failures, channel.last_error) == (0, "")
    assert poor.deliveries.get().attempts >= 1


def test_test_of_a_failing_channel_goes_before_what_it_owes(mail: MailServer) -> None:
    project = factories.make_project()
    channel = make_channel(project)
    make_notice(project)
    mail.answers["RCPT"] = ["550 no", "550 still no"]
    send_all(channel)

    notice = channels.test_channel(channel, actor="user:ada", at=NOW)
    send_all(channel)

    assert "550 still no" in notice.deliveries.get().last_error


def test_retry_after_is_kept() -> None:
    project = factories.make_project()
    with receiving(answer("429 Too Many Requests", "Retry-After: 1800")) as receiver:
        channel = make_channel(
            project, ChannelKind.WEBHOOK, target=f"http://127.0.0.1:{receiver.port}/"
        )
        make_notice(project)
        send_all(channel)
        assert send_all(channel, at=NOW + timedelta(minutes=29)) == 0

    channel.refresh_from_db()
    assert channel.paused_until == NOW + timedelta(minutes=30)
    assert receiver.connections == 1


def test_disabled_channel_sends_nothing_and_drops_what_it_owes(mail: MailServer) -> None:
    project = factories.make_project()
    channel = make_channel(project)
    make_notice(project)
    channels.disable_channel(channel, actor="user:ada", at=NOW)

    make_notice(project)

    assert send_all(channel) == 0
    assert mail.letters == []
    assert only_delivery().state == DeliveryState.DROPPED


def test_what_was_addressed_while_its_channel_was_disabled_is_dropped_by_the_sweep() -> None:
    project = factories.make_project()
    channel = make_channel(project)
    notice = make_notice(project)
    Channel.objects.filter(pk=channel.pk).update(disabled_at=NOW)
    assert not delivery_queries.channels_with_due_deliveries(at=NOW).exists()

    deliveries.drop_undeliverable()

    assert notice.deliveries.get().state == DeliveryState.DROPPED


def test_sender_that_died_is_followed_by_another_after_its_claim(mail: MailServer) -> None:
    project = factories.make_project()
    channel = make_channel(project)
    make_notice(project)
    # What a sender leaves that was killed between sending and writing it down.
    assert deliveries.claimed(only_delivery(), at=NOW)

    soon, late = NOW + timedelta(seconds=100), NOW + deliveries.CLAIM + timedelta(seconds=1)
    assert send_all(channel, at=soon) == 0
    assert list(delivery_queries.channels_with_due_deliveries(at=soon)) == []
    assert list(delivery_queries.channels_with_due_deliveries(at=late)) == [channel]
    assert send_all(channel, at=late) == 1

    delivery = only_delivery()
    assert (delivery.state, delivery.attempts, delivery.is_uncertain) == (
        DeliveryState.SENT,
        2,
        True,
    )


def test_slower_sender_does_not_undo_a_later_ones_record(mail: MailServer) -> None:
    project = factories.make_project()
    channel = make_channel(project)
    make_notice(project)
    slow = delivery_queries.due_deliveries(channel, at=NOW).get()
    assert deliveries.claimed(slow, at=NOW)
    send_all(channel, at=NOW + deliveries.CLAIM + timedelta(seconds=1))

    deliveries.record(slow, Refused("too late"), at=NOW)

    assert only_delivery().state == DeliveryState.SENT


@pytest.mark.django_db(transaction=True)
def test_several_senders_at_once_send_each_notice_once(mail: MailServer) -> None:
    project = factories.make_project()
    channel = make_channel(project)
    # In tests a task runs when it is asked for; these wait for the senders below.
    Channel.objects.update(paused_until=datetime(2100, 1, 1, tzinfo=UTC))
    made = [make_notice(project) for _ in range(5)]
    Channel.objects.update(paused_until=None)

    at_once([lambda: send_all(channel)] * 4)
    send_all(channel)

    sent = [letter["Message-ID"] for letter in mail.letters]
    assert sorted(sent) == sorted(f"<{notice.uid}.{channel.pk}@hub.test>" for notice in made)
    assert not Delivery.objects.exclude(state=DeliveryState.SENT, attempts=1).exists()
