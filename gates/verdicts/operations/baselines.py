"""Adopt a plan as the comparator of its suite: by name, or because the policy says so."""

from datetime import datetime
from typing import NamedTuple

from django.db import transaction

from evalhub.stats.reasons import Verdict
from evalhub.web.errors import DomainError
from gates.verdicts.models import Baseline, BaselineKind
from gates.verdicts.queries import baselines
from gates.verdicts.queries.evaluation import Evaluation, EvidenceMovedError, evaluate
from gates.verdicts.queries.findings import Effect
from lanes.plans.models import Plan, PlanState
from lanes.plans.operations import lifecycle
from lanes.projects.models import Project
from lanes.projects.operations import audit

BY_POLICY = "policy"
"""The actor of a baseline that followed the rolling one by itself."""

# What can move the rolling baseline forward without a person: what ran on the default branch.
_ROLLING_EVENTS = ("push", "schedule", "merge_group")


class BaselineNotEligibleError(DomainError):
    """A plan cannot be what others are measured by."""

    status = 409
    code = "baseline-not-eligible"
    fix = "Adopt a concluded plan whose evidence is complete and that shows no regression."


def adopt_baseline(
    project: Project, plan: Plan, *, kind: BaselineKind, reason: str, actor: str, at: datetime
) -> Baseline:
    """Make `plan` the baseline of its suite, on the word of a maintainer; recorded in the audit.

    Adopting the plan that is the current baseline returns what is there. Plans that were concluded
    without one are concluded anew: only they have not chosen yet.

    Raises:
        BaselineNotEligibleError: if the plan is of another project or kind, is not concluded, its
            evidence is incomplete or unsound, or it shows a regression.
    """
    _require_plan_of(project, plan)
    try:
        evaluation = evaluate(plan)
    except EvidenceMovedError as error:
        raise BaselineNotEligibleError(str(error), fix="Try again in a moment.") from error
    _require_eligible(evaluation)
    with transaction.atomic():
        adopted = _adopted(project, plan, kind=kind, reason=reason, actor=actor, at=at)
        if adopted.is_new and kind is BaselineKind.ROLLING:
            waiting = baselines.plans_without_baseline(project, plan.suite_name, excluding=plan)
            lifecycle.bump_others(waiting, at=at)
    return adopted.baseline


def follow_with_rolling_baseline(evaluation: Evaluation, *, at: datetime) -> Baseline | None:
    """Let an eligible plan of the default branch become the rolling baseline, in the caller's transaction.

    Return the new baseline; None if nothing changed. Whoever calls it has `plans_that_wait_for` it
    concluded anew.

    The first baseline is a maintainer's to adopt, unless the policy says `auto_adopt`. Plans that
    were registered with a static token or imported never become a baseline by themselves.
    """
    plan, project = evaluation.plan, evaluation.plan.project
    if not _is_on_default_branch(plan) or not evaluation.is_sound or evaluation.has_regression:
        return None
    current = baselines.current_baseline(project, plan.suite_name, BaselineKind.ROLLING)
    if current is None and not evaluation.policy.baseline.auto_adopt:
        return None
    if current is not None and current.registered_at > plan.registered_at:
        # An earlier night that is concluded again takes nothing back.
        return None
    adopted = _adopted(
        project,
        plan,
        kind=BaselineKind.ROLLING,
        reason="Concluded on the default branch, complete and without a regression.",
        actor=BY_POLICY,
        at=at,
    )
    return adopted.baseline if adopted.is_new else None


def _is_on_default_branch(plan: Plan) -> bool:
    return (
        plan.is_verified
        and not plan.is_foreign
        and plan.event in _ROLLING_EVENTS
        and plan.ref == f"refs/heads/{plan.project.default_branch}"
    )


def plans_that_wait_for(evaluation: Evaluation) -> list[int]:
    """Return the plans that an evaluated one would serve as their first baseline, should it become one."""
    plan = evaluation.plan
    if not _is_on_default_branch(plan):
        return []
    return baselines.plans_without_baseline(plan.project, plan.suite_name, excluding=plan)


class _Adopted(NamedTuple):
    baseline: Baseline
    is_new: bool


@transaction.atomic
def _adopted(
    project: Project, plan: Plan, *, kind: BaselineKind, reason: str, actor: str, at: datetime
) -> _Adopted:
    newest = baselines.baselines_of(project).filter(suite_name=plan.suite_name, kind=kind).first()
    if newest is not None and newest.plan_id == plan.pk:
        return _Adopted(newest, is_new=False)
    baseline = Baseline.objects.create(
        project=project,
        suite_name=plan.suite_name,
        kind=kind,
        plan=plan,
        adopted_by=actor[:200],
        adopted_at=at,
        reason=reason,
    )
    audit.record_audit(
        project,
        actor=actor,
        action="baseline.adopt",
        subject=plan.digest,
        before=None if newest is None else {"plan": newest.plan.digest},
        after={"plan": plan.digest, "suite": plan.suite_name, "kind": str(kind), "reason": reason},
        at=at,
    )
    return _Adopted(baseline, is_new=True)


def _require_plan_of(project: Project, plan: Plan) -> None:
    if plan.project_id != project.pk:
        raise BaselineNotEligibleError(
            f"Plan {plan.digest} belongs to another project than {project.name}.",
            fix="Name a plan of this project.",
        )
    if plan.kind != "gate":
        raise BaselineNotEligibleError(
            f"Plan {plan.digest} only judges stored transcripts again.",
            fix="Name a plan that ran the suite.",
        )
    if plan.state != PlanState.CONCLUDED:
        raise BaselineNotEligibleError(
            f"Plan {plan.digest} is {plan.state.lower()}; only a concluded plan can be a baseline.",
            fix="Wait until it has concluded, or close it.",
        )


def _require_eligible(evaluation: Evaluation) -> None:
    digest = evaluation.plan.digest
    if not evaluation.is_sound:
        codes = sorted({f.code.value for f in evaluation.findings if f.effect is not Effect.NOTE})
        raise BaselineNotEligibleError(
            f"The evidence of plan {digest} is not complete and sound: {', '.join(codes)}."
        )
    if evaluation.has_regression:
        regressed = sorted(
            {d.judged.rubric for d in evaluation.gating if d.judged.verdict is Verdict.REGRESSION}
        )
        raise BaselineNotEligibleError(
            f"Plan {digest} shows a regression of {', '.join(regressed)}."
        )
