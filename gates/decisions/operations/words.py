"""Keep the words of conclusions with their plans where another release concluded them."""

from django.db import transaction
from django.db.models import F

from gates.decisions import queries
from lanes.plans.models import Plan
from lanes.plans.operations import lifecycle

_PLANS_AT_ONCE = 500


def copy_newer_words() -> int:
    """Copy the newest conclusion's word to plans that have an older one; return how many there were.

    Whoever concludes a plan writes its word, too, except a release from before plans had words: it
    goes on concluding while its successor is rolled out.
    """
    older = Plan.objects.filter(conclusion_version__lt=F("concluded_version"))
    plans = list(older.order_by("concluded_version", "pk").defer("document")[:_PLANS_AT_ONCE])
    newest = queries.newest_headlines(plans)
    with transaction.atomic():
        for plan in plans:
            headline = newest.get(plan.pk)
            # Without a conclusion, as after its rows were lost, the plan is found as not concluded.
            word = headline.conclusion if headline is not None else None
            lifecycle.note_conclusion(plan, word, inputs_version=plan.concluded_version)
    return len(plans)
