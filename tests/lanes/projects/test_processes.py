"""Processes of their own: two that raise at once, and senders that are killed before they can write."""

import multiprocessing
import os
import signal
import socket
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from multiprocessing.synchronize import Barrier as BarrierType

import pytest
from django.db import connections
from pytest_django import Settings

from lanes.projects.models import Channel, ChannelKind, Delivery, DeliveryState, Notice, Project
from lanes.projects.operations import deliveries, sending
from tests.evalhub.web.transports.receivers import Receiver, answer, receiving
from tests.evalhub.web.transports.smtp import MailServer, mail
from tests.lanes import factories
from tests.lanes.factories import NOW
from tests.lanes.projects.made import make_channel, make_notice

__all__ = ["mail"]

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

# With everything that this process has set up; a database connection must not be among it.
_FORK = multiprocessing.get_context("fork")


@pytest.fixture
def project(settings: Settings) -> Project:
    settings.WEBHOOK_HOSTS = ["127.0.0.1"]
    return factories.make_project()


def started(work: Callable[[], object]) -> "multiprocessing.process.BaseProcess":
    connections.close_all()
    process = _FORK.Process(target=work)
    process.start()
    return process


def wait_for(process: "multiprocessing.process.BaseProcess") -> int | None:
    process.join(60)
    return process.exitcode


def hold(channel: Channel) -> None:
    """Keep tasks, which run at once in tests, from sending what a test wants to send itself."""
    Channel.objects.filter(pk=channel.pk).update(paused_until=datetime(2100, 1, 1, tzinfo=UTC))


def release(channel: Channel) -> None:
    Channel.objects.filter(pk=channel.pk).update(paused_until=None)


def test_notice_raised_by_two_processes_at_once_is_one(project: Project) -> None:
    carrying = [make_channel(project), make_channel(project, ChannelKind.WEBHOOK)]
    for channel in carrying:
        hold(channel)
    barrier: BarrierType = _FORK.Barrier(4)

    def raise_it() -> None:
        barrier.wait(60)
        for number in range(5):
            make_notice(project, f"night {number}")

    processes = [started(raise_it) for _ in range(4)]

    assert [wait_for(process) for process in processes] == [0] * 4
    assert Notice.objects.count() == 5
    told = Delivery.objects.values_list("notice", "channel")
    assert len(told) == len(set(told)) == 5 * len(carrying)


def killing(victims: list[int]) -> Callable[[socket.socket], None]:
    """Kill the sender when its request is here, before it gets an answer."""

    def script(connection: socket.socket) -> None:
        os.kill(victims[0], signal.SIGKILL)
        # Ends when the kernel has closed the dead sender's side.
        connection.recv(1)

    return script


def test_sender_killed_between_sending_and_writing_sends_the_same_again(project: Project) -> None:
    victims: list[int] = []
    with receiving(killing(victims), answer("204 No Content")) as receiver:
        url = f"http://127.0.0.1:{receiver.port}/"
        channel = make_channel(project, ChannelKind.WEBHOOK, target=url)
        hold(channel)
        notice = make_notice(project)
        release(channel)
        start: BarrierType = _FORK.Barrier(2)

        def send() -> None:
            start.wait(60)
            sending.send_next(channel, at=NOW)

        sender = started(send)
        victims.append(sender.pid or 0)
        start.wait(60)
        assert wait_for(sender) == -signal.SIGKILL

        left = Delivery.objects.get()
        assert (left.state, left.attempts, left.claimed_until) == (
            DeliveryState.PENDING,
            1,
            NOW + deliveries.CLAIM,
        )
        assert not sending.send_next(channel, at=NOW + timedelta(seconds=1))
        assert sending.send_next(channel, at=NOW + deliveries.CLAIM + timedelta(seconds=1))

    assert [webhook_id(receiver, n) for n in range(2)] == [str(notice.uid)] * 2
    assert Delivery.objects.get().state == DeliveryState.SENT


def test_sender_killed_while_the_mail_server_answers_keeps_the_message_id(
    project: Project, mail: MailServer
) -> None:
    channel = make_channel(project)
    hold(channel)
    make_notice(project)
    release(channel)
    mail.answers["TAKEN"] = [""]

    sender = started(lambda: sending.send_next(channel, at=NOW))
    assert mail.waiting.wait(60)
    sender.kill()
    assert wait_for(sender) == -signal.SIGKILL
    assert sending.send_next(channel, at=NOW + deliveries.CLAIM + timedelta(seconds=1))

    first, second = mail.letters
    assert first["Message-ID"] == second["Message-ID"]
    assert Delivery.objects.get().state == DeliveryState.SENT


def webhook_id(receiver: Receiver, number: int) -> str:
    head = receiver.requests[number].partition(b"\r\n\r\n")[0].decode()
    return head.partition("webhook-id: ")[2].partition("\r\n")[0]
