"""Send what a channel owes: e-mail, signed webhooks, Slack's form. Rolling issues are sent by gates/checks.

Each channel gets a notice at least once, and as nearly once as its protocol can tell:

- A webhook carries an id that is equal for each try, by which the receiver drops a second one.
- An e-mail carries a Message-ID that is equal for each try, by which many mail systems do the same.
  SMTP cannot be asked what arrived, and a missed nightly costs more than a second letter.
- Slack's form has nothing of that kind. A message whose answer was lost is sent again, and says that
  it may be a repeat.
"""

import json
from datetime import datetime

from django.conf import settings

from evalhub.web.transports import addresses, mail, signatures
from evalhub.web.transports.outcomes import Arrived, Outcome
from evalhub.web.transports.posting import Poster
from lanes.projects.models import Channel, ChannelKind, Delivery
from lanes.projects.operations import deliveries, wording
from lanes.projects.queries import deliveries as delivery_queries


def send_next(channel: Channel, *, at: datetime) -> bool:
    """Send the one that the channel owes longest, if one is due; return whether to go on.

    Safe to call at any time and by several at once: one of them sends, one after the other, so that
    a slow receiver holds up one worker alone. Speaks to the outside: never to be called inside a
    transaction.
    """
    if not delivery_queries.has_free_way(channel, at=at):
        return False
    delivery = delivery_queries.due_deliveries(channel, at=at).first()
    if delivery is None:
        return False
    if not deliveries.claimed(delivery, at=at):
        return True
    outcome = _sent(delivery, at=at)
    deliveries.record(delivery, outcome, at=at)
    return isinstance(outcome, Arrived)


def _sent(delivery: Delivery, *, at: datetime) -> Outcome:
    channel = delivery.channel
    match channel.kind:
        case ChannelKind.EMAIL:
            return mail.send(wording.letter(delivery))
        case ChannelKind.SLACK:
            content = json.dumps({"text": wording.slack_text(delivery)}).encode()
            return _posted(channel.target, content, {}, at=at)
        case ChannelKind.WEBHOOK:
            content = wording.document(delivery.notice).model_dump_json(by_alias=True).encode()
            signed = signatures.signed_headers(
                channel.secret, message_id=str(delivery.notice.uid), content=content, at=at
            )
            return _posted(channel.target, content, signed, at=at)
    raise ValueError(f"channel {channel.pk} is of kind {channel.kind}, which is not sent from here")


def _posted(url: str, content: bytes, headers: dict[str, str], *, at: datetime) -> Outcome:
    poster = Poster(addresses.allowance(settings.WEBHOOK_HOSTS))
    headers = {"Content-Type": "application/json; charset=utf-8", **headers}
    return poster.post(url, content=content, headers=headers, at=at)
