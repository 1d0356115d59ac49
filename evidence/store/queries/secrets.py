"""What was found of secrets, and evidence as anybody may see it: with markers where secrets stand."""

from collections import Counter
from collections.abc import Iterable

from django.db.models import QuerySet

from evalhub.protocol.paths import ItemKind, PathError, parse_path
from evalhub.protocol.redaction import redacted
from evidence.store.models import HAS_SECRETS, NOTHING_FOUND, Item, Refusal
from evidence.store.queries.contents import item_bytes, refusal_bytes
from lanes.plans.models import Attempt, Plan


def shown_bytes(item: Item) -> bytes:
    """Return an item's bytes, its secrets replaced by markers.

    One that nobody has looked at yet is looked at now: nothing is ever shown unseen.

    Raises:
        EvidenceDamagedError: as `item_bytes`.
    """
    data = item_bytes(item)
    return data if item.secrets == NOTHING_FOUND else redacted(data, ItemKind(item.kind)).data


def shown_refusal_bytes(refusal: Refusal) -> bytes:
    """Return quarantined bytes, their secrets replaced by markers.

    Raises:
        EvidenceDamagedError: as `refusal_bytes`.
    """
    return redacted(refusal_bytes(refusal), _kind_of(refusal), is_sound=False).data


def secrets_in_plan(plan: Plan) -> dict[str, int]:
    """Return how many secrets were found in the accepted evidence of a plan, by kind."""
    return _counted(Item.objects.filter(attempt__lane__plan=plan))


def secrets_in_attempt(attempt: Attempt) -> dict[str, int]:
    """Return how many secrets were found in what an attempt sent, by kind."""
    return _counted(Item.objects.filter(attempt=attempt))


def secrets_in_items(items: Iterable[Item]) -> dict[str, int]:
    """Return how many secrets were found in some items, by kind."""
    return _sum(item.secrets for item in items if item.has_secrets)


def _counted(items: QuerySet[Item]) -> dict[str, int]:
    return _sum(items.filter(HAS_SECRETS).values_list("secrets", flat=True))


def _sum(found: Iterable[str | None]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for words in found:
        for word in (words or "").split():
            kind, _, number = word.partition(":")
            counts[kind] += int(number)
    return dict(sorted(counts.items()))


def _kind_of(refusal: Refusal) -> ItemKind:
    try:
        return parse_path(refusal.path).kind
    except PathError:
        return ItemKind.FILE
