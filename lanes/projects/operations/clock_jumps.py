"""Times of deliveries that a clock which was set back has left in the future."""

from datetime import datetime, timedelta

from evalhub.tasks.clock_jumps import bring_back
from lanes.projects.models import Channel, Delivery, DeliveryState
from lanes.projects.operations.deliveries import CLAIM

# Of our own pauses. A receiver that asked for a longer one is asked again too early, and says so.
_FARTHEST_PAUSE = timedelta(hours=1)


def bring_back_deliveries(*, at: datetime) -> None:
    """Have what waits for a time that was never meant be sent now. Safe to repeat."""
    pending = Delivery.objects.filter(state=DeliveryState.PENDING)
    bring_back(pending, "next_attempt_at", at=at, farthest=_FARTHEST_PAUSE, to=at)
    bring_back(pending, "claimed_until", at=at, farthest=CLAIM, to=None)
    bring_back(Channel.objects.all(), "paused_until", at=at, farthest=_FARTHEST_PAUSE, to=None)
