"""Notices that were put off while the clock ran ahead are sent once it is set back."""

from datetime import timedelta

import pytest

from lanes.projects.models import Channel, Delivery
from lanes.projects.operations import clock_jumps
from lanes.projects.queries import deliveries as delivery_queries
from tests.lanes.factories import NOW, make_project
from tests.lanes.projects.made import make_channel, make_notice

pytestmark = pytest.mark.django_db


def test_notice_that_was_put_off_ahead_is_due_and_its_channel_free() -> None:
    project = make_project()
    channel = make_channel(project)
    make_notice(project)
    ahead = NOW + timedelta(hours=2)
    Delivery.objects.update(next_attempt_at=ahead, claimed_until=ahead)
    Channel.objects.update(paused_until=ahead)
    assert not delivery_queries.channels_with_due_deliveries(at=NOW).exists()

    clock_jumps.bring_back_deliveries(at=NOW)

    assert list(delivery_queries.channels_with_due_deliveries(at=NOW)) == [channel]
