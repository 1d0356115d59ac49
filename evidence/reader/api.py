"""Endpoints for reading: runs of a plan, one run, its transcript."""

from typing import Any

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from evalhub.protocol.scalars import rfc3339
from evalhub.web.parameters import BadParameterError, number_or, whole_number
from evidence.reader.queries import records, runs, transcripts
from evidence.store import queries as store
from evidence.store.models import Run, StorageOperation
from evidence.store.operations import faults
from lanes.plans import queries as plans
from lanes.projects.authentication import require_scope
from lanes.projects.models import Scope

MOST_RUNS = 500
MOST_TURNS = 1_000


class RunsEndpoint(APIView):
    """`GET /api/v1/runs?plan=&outcome=&arm=&lane=&scenario=&category=&after=&limit=`."""

    def get(self, request: Request) -> Response:
        digest = request.GET.get("plan", "")
        if not digest:
            raise BadParameterError("The parameter 'plan' was absent; it takes a plan's digest.")
        plan = plans.plan_with_digest(digest)
        require_scope(request, Scope.READ, project=plan.project)
        category = request.GET.get("category", "")
        document = plans.plan_document(plan)
        wanted = runs.RunFilter(
            **{name: request.GET.get(name, "") for name in ("outcome", "arm", "lane", "scenario")},
            scenarios=[s.id for s in document.scenarios if s.category == category]
            if category
            else None,
        )
        page = runs.run_page(
            plan,
            wanted=wanted,
            after=whole_number(request, "after"),
            limit=number_or(request, "limit", 100, most=MOST_RUNS),
        )
        scores = runs.deciding_scores(
            page.runs, rubrics=document.rubrics, policy=plans.policy_document(plan.policy)
        )
        answer = [_run(run, plan=digest) | {"scores": scores.get(run.pk, {})} for run in page.runs]
        return Response({"runs": answer, "next": page.next})


class RunEndpoint(APIView):
    """`GET /api/v1/runs/<id>`: a run with its records, judge calls and items."""

    @faults.noted(StorageOperation.READ, clock=timezone.now)
    def get(self, request: Request, run_id: int) -> Response:
        run = _readable_run(request, run_id)
        result, failure = records.result(run), records.failure(run)
        return Response(
            _run(run, plan=run.plan.digest)
            | {
                "result": result and result.model_dump(mode="json"),
                "failure": failure and failure.model_dump(mode="json"),
                "judge": [line.model_dump(mode="json") for line in records.judge_lines(run)],
                "items": [
                    {"path": item.shown_path, "sha256": item.sha256, "size_bytes": item.size_bytes}
                    for item in records.items(run)
                ],
            }
        )


class TranscriptEndpoint(APIView):
    """`GET /api/v1/runs/<id>/transcript?from=&limit=`: some turns, and where to go on."""

    @faults.noted(StorageOperation.READ, clock=timezone.now)
    def get(self, request: Request, run_id: int) -> Response:
        run = _readable_run(request, run_id)
        page = transcripts.transcript_page(
            run,
            start=number_or(request, "from", 1),
            limit=number_or(request, "limit", 200, most=MOST_TURNS),
        )
        return Response(
            {
                "turns": [turn.model_dump(mode="json") for turn in page.turns],
                "total": page.total,
                "next": page.next,
            }
        )


def _readable_run(request: Request, run_id: int) -> Run:
    run = store.run_with_id(run_id)
    require_scope(request, Scope.READ, project=run.plan.project)
    return run


def _run(run: Run, *, plan: str) -> dict[str, Any]:
    return {
        "id": run.pk,
        "plan": plan,
        "lane": run.lane.name,
        "attempt": run.attempt.key,
        "scenario": run.scenario,
        "arm": run.arm,
        "epoch": run.epoch,
        "outcome": run.outcome,
        "code": run.code,
        "started_at": rfc3339(run.started_at) if run.started_at else None,
        "duration_ms": run.duration_ms,
    }
