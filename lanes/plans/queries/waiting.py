"""Plans that wait: to be finished, to be concluded, for lanes that are still at work."""

from datetime import datetime

from django.db.models import (
    Case,
    Count,
    DateTimeField,
    Exists,
    F,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    When,
)
from django.db.models.functions import Coalesce

from lanes.plans.models import Attempt, AttemptState, Lane, Plan, PlanState
from lanes.plans.queries.plans import plans_loaded


def plans_to_conclude(*, at: datetime) -> list[Plan]:
    """Return finished plans whose newest conclusion is behind their inputs, oldest deadline first.

    Finished: the newest attempt of every required lane is sealed, or the plan was closed, or its
    deadline has passed. Cancelled plans too, until their check has seen it.
    """
    # Their keys first: PostgreSQL cannot tell how few they are, and would prepare for many.
    behind = list(_behind_inputs().values_list("pk", flat=True))
    finished = Q(cancelled_at__isnull=False) | _is_finished(at)
    return list(plans_loaded().filter(finished, pk__in=behind).order_by("deadline_at", "pk"))


def unconcluded_since(*, at: datetime) -> datetime | None:
    """Return since when a finished gate plan has been waiting to be concluded; None if none waits.

    A plan waits from when it was finished, or from when its inputs moved after that.
    """
    ended = Attempt.objects.filter(lane__plan=OuterRef("pk"), ended_at__isnull=False)
    newest_end = Subquery(ended.order_by("-ended_at").values("ended_at")[:1])
    rows = _behind_inputs().filter(kind="gate", cancelled_at__isnull=True)
    rows = rows.annotate(
        moved_at=Coalesce("behind_since", "concluded_at", "registered_at"),
        sealed_at=Case(When(_all_sealed(), then=newest_end), output_field=DateTimeField()),
    )
    waits = []
    for moved_at, *ends in rows.values_list("moved_at", "closed_at", "sealed_at", "deadline_at"):
        passed = [end for end in ends if end is not None and end <= at]
        if passed:
            waits.append(max(moved_at, min(passed)))
    return min(waits, default=None)


def open_plan_counts() -> dict[PlanState, int]:
    """Return how many plans are registered and how many run; those cancelled are not counted."""
    rows = open_plans().values_list("state").annotate(count=Count("pk"))
    return {PlanState.REGISTERED: 0, PlanState.RUNNING: 0} | {
        PlanState(state): count for state, count in rows
    }


def attempt_counts_of_open_plans() -> dict[AttemptState, int]:
    """Return how many attempts are heard, and how many are silent, in the plans that run."""
    accepting = [AttemptState.OPEN, AttemptState.SILENT]
    attempts = Attempt.objects.filter(lane__plan__in=open_plans(), state__in=accepting)
    rows = attempts.values_list("state").annotate(count=Count("pk"))
    return dict.fromkeys(accepting, 0) | {AttemptState(state): count for state, count in rows}


def is_finished(plan: Plan, *, at: datetime) -> bool:
    """Say whether a plan is to be concluded now; a cancelled one never is."""
    return Plan.objects.filter(_is_finished(at), pk=plan.pk, cancelled_at__isnull=True).exists()


def are_lanes_sealed(plan: Plan) -> bool:
    """Say whether the newest attempt of every lane that a plan waits for is sealed."""
    return Plan.objects.filter(_all_sealed(), pk=plan.pk).exists()


def _behind_inputs() -> QuerySet[Plan]:
    """Select the plans whose newest conclusion is behind their inputs: every open one is."""
    return Plan.objects.filter(concluded_version__lt=F("inputs_version"))


def open_plans() -> QuerySet[Plan]:
    """Select the plans that are registered or run; those cancelled are not."""
    # Through the index of those behind their inputs: states have none.
    states = [PlanState.REGISTERED, PlanState.RUNNING]
    return _behind_inputs().filter(state__in=states, cancelled_at__isnull=True)


def _is_finished(at: datetime) -> Q:
    return Q(closed_at__isnull=False) | Q(deadline_at__lte=at) | _all_sealed()


def _all_sealed() -> Q:
    newest = Attempt.objects.filter(lane=OuterRef("pk")).order_by("-number").values("state")[:1]
    lanes = Lane.objects.filter(plan=OuterRef("pk")).annotate(newest=Subquery(newest))
    unsealed = lanes.filter(Q(newest__isnull=True) | ~Q(newest=AttemptState.SEALED))
    is_gating = Exists(lanes.filter(is_required=True))
    # A plan of advisory lanes alone is finished when all of them are.
    return Q(is_gating, ~Exists(unsealed.filter(is_required=True))) | Q(
        ~is_gating, ~Exists(unsealed)
    )
