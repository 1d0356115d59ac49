"""The lanes of a plan and their attempts."""

from evalhub.web.errors import NotFoundError
from lanes.plans.models import Attempt, Lane, Plan


def lane_named(plan: Plan, name: str) -> Lane:
    """Return a lane of the plan.

    Raises:
        NotFoundError: if the plan has no lane of that name.
    """
    lane = Lane.objects.filter(plan=plan, name=name).first()
    if lane is None:
        raise NotFoundError(f"Plan {plan.digest} has no lane {name!r}.")
    return lane


def lanes_of(plan: Plan) -> list[Lane]:
    """Return the plan's lanes in the order of its document."""
    return list(Lane.objects.filter(plan=plan).order_by("pk"))


def attempt_with_key(key: str) -> Attempt:
    """Return an attempt with its lane, plan and project loaded.

    Raises:
        NotFoundError: if there is none.
    """
    attempts = Attempt.objects.select_related("lane__plan__project").defer("lane__plan__document")
    try:
        return attempts.get(key=key)
    except Attempt.DoesNotExist:
        raise NotFoundError(f"There is no attempt {key!r}.") from None


def attempts_of(plan: Plan) -> list[Attempt]:
    """Return every attempt of a plan, by lane and number."""
    attempts = Attempt.objects.filter(lane__plan=plan).select_related("lane")
    return list(attempts.order_by("lane_id", "number"))


def newest_attempts(plan: Plan) -> dict[str, Attempt | None]:
    """Return the newest attempt of each lane by the lane's name; None where none was opened."""
    newest: dict[str, Attempt | None] = {lane.name: None for lane in lanes_of(plan)}
    newest.update((attempt.lane.name, attempt) for attempt in attempts_of(plan))
    return newest
