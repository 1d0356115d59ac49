"""Registering a plan: every reason against it at once, or the plan with its lanes and its money."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db import transaction

from evalhub.protocol import plan as plan_documents
from evalhub.protocol.faults import parse_document
from evalhub.protocol.identity import VerifiedSource, source_refusals
from evalhub.protocol.messages import FieldFault
from evalhub.protocol.refusals import BaseSuite, Refusal
from evalhub.protocol.registration import registration_refusals
from evalhub.tasks.names import TaskName
from evalhub.tasks.queue import enqueue_on_commit
from evalhub.web.errors import DomainError, ForbiddenError
from lanes.budget import queries as budget_queries
from lanes.budget.operations import money as budget_operations
from lanes.budget.queries import Shortfall, Want
from lanes.plans import queries
from lanes.plans.models import Lane, Plan, PolicyVersion
from lanes.plans.operations.documents import ReadDocument, read_document
from lanes.plans.operations.lifecycle import PlanCancelledError
from lanes.projects.models import Project, Token
from lanes.projects.operations import audit
from lanes.projects.queries import actors


class PlanRefusedError(DomainError):
    """Carries every reason: in `faults` with the code of its rule, the ways to mend it in `fix`."""

    status = 422
    code = "plan-refused"

    def __init__(self, refusals: Sequence[Refusal]) -> None:
        first = refusals[0]
        others = f" ({len(refusals) - 1} more)" if len(refusals) > 1 else ""
        super().__init__(
            f"The plan is refused: {first.code} at {first.pointer}, which was {first.got};"
            f" expected {first.expected}{others}.",
            # Several faults are often mended by one act: each is said once, in order.
            fix=" ".join(dict.fromkeys(refusal.fix for refusal in refusals)),
            faults=[
                FieldFault(pointer=r.pointer, got=r.got, expected=r.expected, code=r.code)
                for r in refusals
            ],
        )
        self.refusals = list(refusals)


class PlanForeignError(DomainError):
    """An imported plan is there to be read; no lane of it runs here."""

    status = 409
    code = "plan-foreign"
    fix = "Build a plan of your own: a foreign one is read here, and none of its lanes can run."


class Registration(NamedTuple):
    """A registered plan, and whether it was not there before."""

    plan: Plan
    created: bool


def register_plan(body: bytes, *, token: Token, at: datetime) -> Registration:
    """Register a plan with its lanes and sub-allocations; earlier heads are superseded by it.

    A digest that is registered already is answered as it is: guards' age, pool and policy are not
    looked at again.

    Raises:
        InvalidDocumentError: if the body is no plan, with every fault.
        ForbiddenError: if the token belongs to another project.
        PlanRefusedError: with every reason against the plan.
        PlanForeignError: if it was imported.
        PlanCancelledError: if it was registered before and cancelled since.
        PoolCannotCoverError: if a running lane took the pool's last money in this very moment.
    """
    document = read_document(plan_documents.Plan, body, what="plan")
    plan = parse_document(plan_documents.Plan, document.text)
    if plan.project != token.project.name:
        raise ForbiddenError(
            f"The plan's project is {plan.project}; the token belongs to {token.project.name}.",
            fix="Use a token of the plan's project.",
        )
    disagreements = _disagreements(plan, token)
    if disagreements and Plan.objects.filter(digest=document.digest).exists():
        # Whoever may not register it learns nothing of it either.
        raise PlanRefusedError(disagreements)
    known = Plan.objects.filter(digest=document.digest).first()
    if known is not None:
        return _registered_before(known)
    return _register(document, plan, token=token, at=at)


@transaction.atomic
def _register(
    document: ReadDocument, plan: plan_documents.Plan, *, token: Token, at: datetime
) -> Registration:
    # One registration of a project after the other: policy and pools hold still, the same plan sent
    # twice at once is stored once, and of two heads the later supersedes the earlier.
    project = Project.objects.select_for_update(no_key=True).get(pk=token.project_id)
    known = Plan.objects.filter(digest=document.digest).first()
    if known is not None:
        return _registered_before(known)
    policy = _accepted_policy(
        plan, project=project, disagreements=_disagreements(plan, token), at=at
    )
    row = store_plan(
        document,
        plan,
        policy=policy,
        registered_by=actors.actor_of_token(token),
        verified=token.verified_source,
        at=at,
    )
    budget_operations.reserve(project, row.digest, _wants(plan), at=at)
    _supersede_other_heads(row, at=at)
    audit.record_audit(
        project,
        actor=row.registered_by,
        action="plan.register",
        subject=row.digest,
        after={
            "suite": row.suite_name,
            "head_sha": row.head_sha,
            "runs": row.run_count,
            "verified": row.is_verified,
        },
        at=at,
    )
    enqueue_on_commit(TaskName.REFRESH_CHECK, plan_id=row.pk)
    return Registration(queries.plan_with_digest(row.digest), created=True)


def _registered_before(plan: Plan) -> Registration:
    if plan.is_foreign:
        raise PlanForeignError(f"Plan {plan.digest} was imported into this instance before.")
    if plan.cancelled_at is not None:
        # Now, and not only when each of its lanes asks for an attempt.
        raise PlanCancelledError(plan)
    return Registration(queries.plan_with_digest(plan.digest), created=False)


def _disagreements(plan: plan_documents.Plan, token: Token) -> list[Refusal]:
    """Return what of the plan's source is not what the identity of the CI job says; a static token has none."""
    verified = token.verified_source
    return [] if verified is None else list(source_refusals(plan, verified))


def _accepted_policy(
    plan: plan_documents.Plan,
    *,
    project: Project,
    disagreements: Sequence[Refusal],
    at: datetime,
) -> PolicyVersion:
    """Return the policy that the plan is registered under; raise PlanRefusedError with all faults."""
    policy = queries.current_policy(project)
    if policy is None:
        raise PlanRefusedError([*disagreements, _no_policy(plan)])
    suite = queries.current_suite(project, plan.suite.name)
    refusals = [
        *disagreements,
        *_foreign_policy(plan, policy),
        *_rejudge(plan),
        *registration_refusals(
            plan,
            policy=queries.policy_document(policy),
            base=BaseSuite(suite.digest, queries.suite_document(suite)) if suite else None,
            at=at,
        ),
        *_pool_refusals(budget_queries.shortfalls(project, _wants(plan)), plan),
    ]
    if refusals:
        raise PlanRefusedError(refusals)
    return policy


def store_plan(
    document: ReadDocument,
    plan: plan_documents.Plan,
    *,
    policy: PolicyVersion,
    registered_by: str,
    verified: VerifiedSource | None = None,
    at: datetime,
) -> Plan:
    """Write the rows of a plan and its lanes; the caller's transaction."""
    source = plan.source
    row = Plan.objects.create(
        project=policy.project,
        policy=policy,
        digest=document.digest,
        document=document.text,
        kind=plan.kind,
        suite_name=plan.suite.name,
        suite_digest=plan.suite.digest,
        event=source.event,
        ref=source.ref,
        pull_request=source.pull_request,
        head_sha=source.head_sha,
        tested_sha=source.tested_sha,
        base_sha=source.base_sha,
        workflow_run_id=source.workflow_run_id,
        run_count=sum(len(lane.runs) for lane in plan.lanes),
        is_verified=verified is not None,
        verified_source=None if verified is None else verified.model_dump(mode="json"),
        registered_by=registered_by,
        registered_at=at,
        deadline_at=at + timedelta(minutes=plan.deadline_minutes),
    )
    Lane.objects.bulk_create(
        Lane(
            plan=row,
            name=lane.name,
            kind=lane.kind,
            run_count=len(lane.runs),
            is_required=lane.is_required,
        )
        for lane in plan.lanes
    )
    return row


def _supersede_other_heads(plan: Plan, *, at: datetime) -> None:
    """Mark earlier plans of the same pull request, else event and ref, that have another head."""
    if plan.head_sha is None or (plan.pull_request is None and plan.ref is None):
        return
    others = Plan.objects.filter(
        project=plan.project,
        suite_name=plan.suite_name,
        head_sha__isnull=False,
        superseded_at__isnull=True,
        is_foreign=False,
    ).exclude(head_sha=plan.head_sha)
    if plan.pull_request is not None:
        others = others.filter(pull_request=plan.pull_request)
    else:
        others = others.filter(pull_request__isnull=True, event=plan.event, ref=plan.ref)
    # Locked by key first, as by everyone who changes several plans: none waits for another in a ring.
    keys = others.order_by("pk").select_for_update(no_key=True).values_list("pk", flat=True)
    Plan.objects.filter(pk__in=list(keys)).update(superseded_at=at)


def _wants(plan: plan_documents.Plan) -> list[Want]:
    return [
        Want(lane.pool, lane.name, lane.budget_microusd)
        for lane in plan.lanes
        if lane.pool is not None and lane.budget_microusd is not None
    ]


def _no_policy(plan: plan_documents.Plan) -> Refusal:
    return Refusal(
        "policy_not_current",
        "/policy_digest",
        plan.policy_digest,
        "the digest of the project's policy, which has none yet",
        "Have a maintainer register the policy with `evalhub policy put`.",
    )


def _foreign_policy(plan: plan_documents.Plan, policy: PolicyVersion) -> Iterator[Refusal]:
    if plan.policy_digest != policy.digest:
        yield Refusal(
            "policy_not_current",
            "/policy_digest",
            plan.policy_digest,
            policy.digest,
            "Build the plan anew against the project's current policy.",
        )


def _rejudge(plan: plan_documents.Plan) -> Iterator[Refusal]:
    if plan.kind == "rejudge":
        yield Refusal(
            "rejudge_not_registered_here",
            "/kind",
            "rejudge",
            "gate",
            "Ask for a re-judge batch instead; the server registers its plan.",
        )


def _pool_refusals(shortfalls: Sequence[Shortfall], plan: plan_documents.Plan) -> Iterator[Refusal]:
    for shortfall in shortfalls:
        first = next(i for i, lane in enumerate(plan.lanes) if lane.pool == shortfall.pool)
        if shortfall.left_microusd is None:
            yield Refusal(
                "pool_unknown",
                f"/lanes/{first}/pool",
                repr(shortfall.pool),
                "a pool of the project",
                f"Have a maintainer create the pool {shortfall.pool!r}, or name another.",
            )
        else:
            yield Refusal(
                "pool_short",
                f"/lanes/{first}/budget_microusd",
                f"{shortfall.asked_microusd} micro-US-dollars for all lanes of {shortfall.pool!r}",
                f"at most the {max(shortfall.left_microusd, 0)} that are left",
                f"Raise the limit of pool {shortfall.pool!r}, or lower the lanes' budgets.",
            )
