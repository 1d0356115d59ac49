"""The conclusion over HTTP, with a long poll for who waits for it; a whole plan as one archive."""

import time
from collections.abc import Iterator

from django.http import StreamingHttpResponse
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from evalhub.protocol.export import RUNS_HEADER
from evalhub.protocol.scalars import rfc3339
from evalhub.web.downloads import streamed_attachment
from evalhub.web.errors import DomainError
from evalhub.web.parameters import one_of
from evidence.store.models import StorageOperation
from evidence.store.operations import faults
from gates.decisions import queries
from gates.decisions.operations import export
from gates.decisions.queries import Decision
from lanes.budget import queries as budget
from lanes.plans import queries as plan_queries
from lanes.plans.models import Plan
from lanes.projects.authentication import require_any_scope, require_scope
from lanes.projects.models import Scope
from lanes.projects.queries import actors

LONGEST_WAIT_SECONDS = 60
# The row is the fact: it is looked at, without a transaction that would hold anybody up.
_LOOK_EVERY_SECONDS = 0.5


class InvalidWaitError(DomainError):
    status = 422
    code = "invalid-wait"


class ConclusionEndpoint(APIView):
    """`/plans/<digest>/conclusion?wait=60`."""

    def get(self, request: Request, digest: str) -> Response:
        """Answer 200 with the conclusion, or 202 with the plan's state while there is none.

        Of a cancelled plan the answer is at once that it was cancelled.
        """
        plan = plan_queries.plan_with_digest(digest)
        # Whoever registers plans waits for what becomes of them.
        require_any_scope(request, Scope.READ, Scope.PLAN_REGISTER, project=plan.project)
        until = time.monotonic() + _seconds(request.query_params.get("wait", "0"))
        decision = queries.decision_of(plan)
        while _is_waited_for(decision) and time.monotonic() < until:
            time.sleep(min(_LOOK_EVERY_SECONDS, max(0.0, until - time.monotonic())))
            decision = queries.decision_of(plan)
        if decision.conclusion is not None:
            return Response(decision.conclusion.content)
        if decision.is_cancelled:
            return Response(_cancelled(plan_queries.plan_with_digest(digest), decision))
        return Response(_undecided(digest, decision), status=202)


class ExportEndpoint(APIView):
    """`GET /plans/<digest>/export?form=archive|trajectories`: everything of a plan, for a maintainer."""

    @faults.noted(StorageOperation.READ, clock=timezone.now)
    def get(self, request: Request, digest: str) -> StreamingHttpResponse:
        plan = plan_queries.plan_with_digest(digest)
        require_scope(request, Scope.PROJECT_ADMIN, project=plan.project)
        form = one_of(request, "form", "archive", among=("archive", "trajectories"))
        actor, at = actors.actor_of(request), timezone.now()
        name = f"evalhub-{digest.removeprefix('sha256:')[:12]}"
        if form == "archive":
            return streamed_attachment(
                _noted(export.export_archive(plan, actor=actor, at=at)),
                name=f"{name}.zip",
                content_type="application/zip",
            )
        runs = export.export_trajectories(plan, actor=actor, at=at)
        answer = streamed_attachment(
            _noted(runs.lines), name=f"{name}.jsonl", content_type="application/x-ndjson"
        )
        answer.headers[RUNS_HEADER] = str(runs.total)
        return answer


def _noted(pieces: Iterator[bytes]) -> Iterator[bytes]:
    with faults.noted(StorageOperation.READ, clock=timezone.now):
        yield from pieces


def _is_waited_for(decision: Decision) -> bool:
    return decision.conclusion is None and not decision.is_cancelled


def _cancelled(plan: Plan, decision: Decision) -> dict[str, object]:
    """Return the form of a conclusion for a plan that gets none; `previous` came before."""
    previous = decision.previous
    why = plan.cancel_reason.rstrip(".")
    assert plan.cancelled_at is not None  # noqa: S101 - it is cancelled
    return {
        "plan": plan.digest,
        "generation": decision.generation,
        "conclusion": "cancelled",
        "title": f"Cancelled: {why}" if why else "Cancelled",
        "findings": [],
        "verdicts": [],
        "attempts": [],
        "spend_microusd": budget.spend_of_plan(plan.digest).spent_microusd,
        "evidence_digest": None,
        "policy_digest": plan.policy.digest,
        "engine_version": None,
        "decided_at": rfc3339(plan.cancelled_at),
        "previous": None if previous is None else previous.conclusion,
    }


def _undecided(digest: str, decision: Decision) -> dict[str, object]:
    previous = decision.previous
    return {
        "plan": digest,
        "state": decision.state.lower(),
        "generation": decision.generation,
        "conclusion": None,
        "previous": None if previous is None else previous.conclusion,
    }


def _seconds(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or int(text) > LONGEST_WAIT_SECONDS:
        raise InvalidWaitError(
            f"wait was {text[:40]!r}; expected whole seconds from 0 to {LONGEST_WAIT_SECONDS}."
        )
    return int(text)
