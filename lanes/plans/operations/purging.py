"""A plan whose evidence is purged as a whole: its attempts end, and nobody opens another one meanwhile."""

from datetime import datetime

from lanes.plans.models import Attempt, AttemptState, Lane, Plan


def end_attempts(plan: Plan, *, at: datetime) -> None:
    """End the running attempts of a plan, in the caller's transaction.

    The lanes stay locked: whoever is about to open an attempt waits, and finds the plan purged.
    """
    lanes = Lane.objects.select_for_update(no_key=True).filter(plan=plan).order_by("pk")
    list(lanes.values_list("pk", flat=True))
    running = Attempt.objects.filter(
        lane__plan=plan, state__in=[AttemptState.OPEN, AttemptState.SILENT]
    )
    running.update(state=AttemptState.CANCELLED, ended_at=at)
    # Ended ones, too: an upload to them is written, late, or finds the plan purged.
    every = Attempt.objects.select_for_update(no_key=True).filter(lane__plan=plan).order_by("pk")
    list(every.values_list("pk", flat=True))
