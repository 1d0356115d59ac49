"""What a commit's check should say, over all plans of one suite that speak on that commit."""

import uuid
from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from django.db import transaction
from django.db.models import Min

from evalhub.protocol.plan import RunKey
from gates.checks import queries
from gates.checks.models import Check
from gates.checks.operations import summary
from gates.decisions import queries as decisions
from gates.decisions.models import Conclusion
from lanes.plans import queries as plans_queries
from lanes.plans.models import Attempt, Plan, PlanState

WORST_FIRST = ("failure", "action_required", "cancelled", "neutral", "success")
_WORSE_THAN_CANCELLED = WORST_FIRST[: WORST_FIRST.index("cancelled")]


class Wanted(NamedTuple):
    """What GitHub should show. The times follow from the rest and are no change by themselves."""

    status: str
    conclusion: str | None
    output: summary.Output
    details_url: str
    started_at: datetime | None
    completed_at: datetime | None


@transaction.atomic
def desire_check(plan: Plan, *, at: datetime) -> Check | None:
    """Bring the check of the plan's commit up to date with all its plans; return its row.

    None if no plan there may have a check. Safe to repeat: the version that GitHub is to have rises
    only if what it shows changes. Asks for a delivery by `next_attempt_at`, and makes none.
    """
    speaking = _speaking_plans(plan)
    if not speaking:
        return queries.check_of_plan(plan)
    check = _locked_row(speaking[0], at=at)
    # Read again under the lock: the plans may have moved while it was waited for.
    _write(check, _wanted(_speaking_plans(plan)), at=at)
    return check


def _speaking_plans(plan: Plan) -> list[Plan]:
    if plan.head_sha is None:
        return []
    allowed = Plan.objects.filter(
        queries.may_have_check(),
        project=plan.project_id,
        suite_name=plan.suite_name,
        head_sha=plan.head_sha,
    )
    rows = allowed.select_related("project", "policy").defer("document", "policy__document")
    # Sorted here: for an order SQLite would read an index of times, with every plan of the suite.
    return sorted(rows, key=lambda row: (row.registered_at, row.pk))


def _locked_row(plan: Plan, *, at: datetime) -> Check:
    key = {"project": plan.project, "suite_name": plan.suite_name, "head_sha": plan.head_sha}
    fresh = Check(
        **key,
        name=f"evalhub / {plan.suite_name}",
        external_id=uuid.uuid4(),
        status="queued",
        desired_version=0,
        desired_at=at,
        looked_at=at,
    )
    # Two that come first at once: one inserts, the other waits here for the lock.
    Check.objects.bulk_create([fresh], ignore_conflicts=True)
    return Check.objects.select_for_update(no_key=True).get(**key)


def _governing(plans: list[Plan]) -> list[Plan]:
    """Return the plans whose worst conclusion counts; empty if all were cancelled.

    A plan that a later head superseded counts here as before: else who registers another head and
    comes back would be rid of a failure. So does one that had failed before it ran again and was
    cancelled.
    """
    candidates = [plan for plan in plans if plan.cancelled_at is None or _had_failed(plan)]
    # In order of registration: a plan can be overruled by those behind it.
    return [
        plan
        for i, plan in enumerate(candidates)
        if not any(_overrules(newer, plan) for newer in candidates[i + 1 :])
    ]


def _had_failed(plan: Plan) -> bool:
    return plan.conclusion in _WORSE_THAN_CANCELLED


def _overrules(newer: Plan, older: Plan) -> bool:
    return newer.is_verified and _population(newer) >= _population(older)


def _population(plan: Plan) -> frozenset[tuple[str, RunKey]]:
    """Return what a plan's gate rests on: the runs of its required lanes, by scenario digest."""
    document = plans_queries.plan_document(plan)
    digests = {scenario.id: scenario.digest for scenario in document.scenarios}
    return frozenset(
        (digests[key.scenario], key)
        for lane in document.lanes
        if lane.is_required
        for key in lane.run_keys
    )


def _wanted(speaking: list[Plan]) -> Wanted:
    plans = _governing(speaking)
    if not plans:
        return Wanted(
            status="completed",
            conclusion="cancelled",
            output=summary.cancelled_output(speaking),
            details_url=summary.plan_url(speaking[-1]),
            started_at=_began_at(speaking),
            completed_at=max(plan.cancelled_at for plan in speaking if plan.cancelled_at),
        )
    conclusions = decisions.newest_conclusions(plans)
    concluded = [
        summary.Concluded(plan, conclusions[plan.pk])
        for plan in plans
        if plan.pk in conclusions
        and (plan.state == PlanState.CONCLUDED or plan.cancelled_at is not None)
    ]
    # While one plan is open nothing is decided: its conclusion may be the worst.
    return _pending(plans) if len(concluded) < len(plans) else _completed(concluded)


def _pending(plans: list[Plan]) -> Wanted:
    began_at = _began_at(plans)
    return Wanted(
        status="queued" if began_at is None else "in_progress",
        conclusion=None,
        output=summary.pending_output(plans, has_begun=began_at is not None),
        details_url=summary.plan_url(plans[-1]),
        started_at=began_at,
        completed_at=None,
    )


def _completed(concluded: list[summary.Concluded]) -> Wanted:
    # The sort is stable: of equally bad ones the newest is told first.
    newest_first = concluded[::-1]
    worst_first = sorted(newest_first, key=lambda one: _rank(one.conclusion))
    return Wanted(
        status="completed",
        conclusion=worst_first[0].conclusion.conclusion,
        output=summary.concluded_output(worst_first),
        details_url=summary.plan_url(worst_first[0].plan),
        started_at=_began_at([one.plan for one in concluded]),
        completed_at=max(one.conclusion.decided_at for one in concluded),
    )


def _rank(conclusion: Conclusion) -> int:
    return WORST_FIRST.index(conclusion.conclusion)


def _began_at(plans: Iterable[Plan]) -> datetime | None:
    attempts = Attempt.objects.filter(lane__plan__in=[plan.pk for plan in plans])
    began_at: datetime | None = attempts.aggregate(first=Min("opened_at"))["first"]
    return began_at


def _write(check: Check, wanted: Wanted, *, at: datetime) -> None:
    shown = {
        "status": wanted.status,
        "conclusion": wanted.conclusion,
        **wanted.output._asdict(),
        "details_url": wanted.details_url,
    }
    check.looked_at = at
    is_new = check.desired_version == 0
    if is_new or any(getattr(check, name) != value for name, value in shown.items()):
        for name, value in shown.items():
            setattr(check, name, value)
        if check.is_delivered:
            check.undelivered_since = at
        check.started_at = wanted.started_at
        check.completed_at = wanted.completed_at
        check.desired_version += 1
        check.desired_at = at
        # A pause that GitHub or a fault imposed stands: a change is no reason to press on.
        check.next_attempt_at = max(check.next_attempt_at or at, at)
    # Not what the delivery owns: the two may meet.
    check.save(
        update_fields=[
            *shown,
            *("started_at", "completed_at", "looked_at"),
            *("desired_version", "desired_at", "undelivered_since", "next_attempt_at"),
        ]
    )
