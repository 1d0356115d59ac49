"""One plan that a store gets through the real endpoints, and the pages and endpoints that show it.

It is the same plan whatever else the store holds, so what its pages cost can be compared.
"""

import base64
import hashlib
import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import urlencode

import numpy as np
from django.test import Client
from django.utils import timezone

from evalhub.growth import evidence
from evalhub.growth.documents import SHAPES, LaneShape, PlanFacts, plan_document
from evalhub.growth.schedule import Profile
from evalhub.protocol.segments import SegmentDigest, seal_digest
from evidence.store.models import Run
from lanes.plans import queries as plan_queries
from lanes.plans.models import Plan
from lanes.projects.models import Project, Scope
from lanes.projects.operations.tokens import issue_token

SHAPE = SHAPES[0]._replace(
    lanes=(
        LaneShape("all", "ordinary", tuple(c for x in SHAPES[0].lanes[:3] for c in x.categories)),
        SHAPES[0].lanes[3],
    )
)
"""The suite of the generated plans, with one lane for what gates: 192 runs in one segment."""

_PULL_REQUEST = 1_000_000
"""None of the generated plans has so high a number."""


class Registered(NamedTuple):
    """A plan and the right to send its evidence."""

    digest: str
    token: str
    at: datetime


class Attempt(NamedTuple):
    """An open attempt and the segments that it is to send."""

    key: str
    token: str
    segments: list[bytes]


def register(client: Client, project: Project, *, number: int) -> Registered:
    """Register the `number`-th of these plans by the API."""
    at = timezone.now()
    issued = issue_token(project, name="bench", scopes=[Scope.PROJECT_ADMIN], at=at)
    policy = plan_queries.current_policy(project)
    suite = plan_queries.current_suite(project, SHAPE.suite)
    assert policy is not None
    assert suite is not None
    sha = hashlib.sha1(f"bench {number}".encode(), usedforsecurity=False).hexdigest()
    quarter = int(json.loads(suite.document)["version"].removeprefix("q")) - 1
    facts = PlanFacts(
        project.name,
        project.repository_id,
        SHAPE,
        quarter,
        suite.digest,
        policy.digest,
        event="pull_request",
        ref=f"refs/pull/{_PULL_REQUEST + number}/merge",
        pull_request=_PULL_REQUEST + number,
        head_sha=sha,
        tested_sha=sha[::-1],
        base_sha="0" * 40,
        workflow_run_id=10**12 + number,
        at=at,
    )
    answer = _sent(client, "/api/v1/plans", plan_document(facts), token=issued.secret)
    return Registered(answer["digest"], issued.secret, at)


def begin(client: Client, registered: Registered, lane: LaneShape) -> Attempt:
    """Open an attempt of a lane and make its segments."""
    path = f"/api/v1/plans/{registered.digest}/lanes/{lane.name}/attempts"
    opened = _sent(client, path, None, token=registered.token)
    plan = Plan.objects.select_related("project").get(digest=registered.digest)
    told = evidence.told_runs(
        *(SHAPE, lane, Profile.STEADY),
        count=len(SHAPE.run_keys(lane)),
        at=registered.at,
        # The same runs each time but for the ids of judge calls, which are unique in a project.
        chance=np.random.default_rng([5]),
    )
    renamed = np.random.default_rng([int.from_bytes(registered.digest[7:].encode(), "big"), 5])
    told = [
        run._replace(calls=[call._replace(call_id=renamed.bytes(16).hex()) for call in run.calls])
        for run in told
    ]
    segments = []
    for seq, (class_, pieces) in enumerate(
        [("record", evidence.records(told)), ("bulk", evidence.bulk(told))], start=1
    ):
        header = {
            "schema": "evalhub.segment/1",
            "records": "evalhub.records/1",
            "project": plan.project.name,
            "plan": plan.digest,
            "lane": lane.name,
            "attempt": opened["attempt"],
            "seq": seq,
            "class": class_,
            "tested_sha": plan.tested_sha,
            "created_at": timezone.now().isoformat().replace("+00:00", "Z"),
        }
        laid = evidence.laid_out(json.dumps(header).encode(), pieces)
        segments.append(evidence.archive(laid))
    return Attempt(opened["attempt"], opened["lane_token"], segments)


def send(client: Client, attempt: Attempt, seq: int) -> None:
    """Hand over a segment; everything in it is accepted."""
    data = attempt.segments[seq - 1]
    digest = base64.b64encode(hashlib.sha256(data).digest()).decode()
    answer = client.put(
        f"/api/v1/attempts/{attempt.key}/segments/{seq}",
        data,
        content_type="application/zip",
        headers={
            "Authorization": f"Bearer {attempt.token}",
            "Content-Digest": f"sha-256=:{digest}:",
        },
    )
    assert answer.status_code == 201, answer.content
    assert answer.json()["refused"] == []


def seal(client: Client, attempt: Attempt) -> None:
    """Seal an attempt from which nothing is missing."""
    digests = [
        SegmentDigest(seq, f"sha256:{hashlib.sha256(data).hexdigest()}")
        for seq, data in enumerate(attempt.segments, start=1)
    ]
    request = {"segments": len(digests), "digest": seal_digest(digests), "final": True}
    answer = _sent(client, f"/api/v1/attempts/{attempt.key}/seal", request, token=attempt.token)
    assert answer["missing"] == []


def deliver(client: Client, attempt: Attempt) -> None:
    """Send all segments of an attempt and seal it."""
    for seq in range(1, len(attempt.segments) + 1):
        send(client, attempt, seq)
    seal(client, attempt)


def whole_plan(client: Client, project: Project, *, number: int) -> Registered:
    """Register a plan, deliver all of it, and have it concluded by its last seal."""
    registered = register(client, project, number=number)
    for lane in reversed(SHAPE.lanes):
        deliver(client, begin(client, registered, lane))
    return registered


def pages(digest: str) -> dict[str, str]:
    """Return the pages that show a plan of this workload, by what they show."""
    plan = Plan.objects.select_related("project").get(digest=digest)
    runs = Run.objects.filter(plan=plan).order_by("scenario", "arm", "epoch", "pk")
    failed = runs.filter(outcome="failed")[0]
    root = f"/plans/{digest}"
    late = runs[199].pk
    by = {"outcome": "failed", "arm": failed.arm, "lane": "all", "scenario": "refund"}
    return {
        "plan": f"{root}/",
        "runs": f"{root}/runs/",
        **{f"runs by {name}": f"{root}/runs/?{name}={value}" for name, value in by.items()},
        "runs by category": f"{root}/runs/?category=refunds",
        "last page of runs": f"{root}/runs/?after={late}",
        "quarantine": f"{root}/quarantine/",
        "lane": f"{root}/lanes/all/",
        "run": f"/runs/{failed.pk}/",
        "turn": f"/runs/{failed.pk}/turns/1/",
        "way to the baseline's run": f"/runs/{failed.pk}/baseline/",
    }


def _sent(client: Client, path: str, document: object, *, token: str) -> Any:
    """Post a document, or nothing, with a token; return the answer of the endpoint."""
    body = "" if document is None else json.dumps(document)
    answer = client.post(
        path, body, content_type="application/json", headers={"Authorization": f"Bearer {token}"}
    )
    assert answer.status_code in (200, 201), answer.content
    return answer.json()


def endpoints(digest: str) -> dict[str, str]:
    """Return what the API says of the token's project and of a plan."""
    return {
        "API: plans": "/api/v1/plans?limit=5",
        "API: plans of a suite": "/api/v1/plans?suite=support&limit=5",
        "API: runs": f"/api/v1/runs?plan={digest}",
        "API: plan": f"/api/v1/plans/{digest}",
    }


def lists(projects: Sequence[Project], *, older: int) -> dict[str, str]:
    """Return the lists of plans: the newest of some projects, and pages with `older` plans each.

    The former show up to a page of whatever there is; the latter equally many in each store.
    """
    visible = Plan.objects.filter(project__in=projects)
    filters: dict[str, dict[str, str]] = {
        "older plans": {},
        "older plans of a project": {"project__name": projects[0].name},
        "older plans of a suite": {"suite_name": "routing"},
        "older plans by conclusion": {"conclusion": "failure"},
        "older plans of a suite by conclusion": {"suite_name": "support", "conclusion": "failure"},
    }
    pages = {
        "metrics": "/metrics",
        "notices": "/notices/",
        "newest plans": "/plans/",
        "plans not concluded": "/plans/?conclusion=open",
    }
    for name, wanted in filters.items():
        oldest_first = visible.filter(**wanted).order_by("registered_at", "pk")
        query = {field.split("_")[0]: value for field, value in wanted.items()}
        query["before"] = oldest_first.values_list("digest", flat=True)[older]
        pages[name] = f"/plans/?{urlencode(query)}"
    return pages
