"""Make the rows again that can be derived from objects: after a loss of the database, or behind a backup.

All plans of an installation go side by side, segment by segment in the order in which they were
received: of two that tell of one judge call, the first settles it, then as now.
"""

import heapq
import re
from collections.abc import Iterator
from datetime import datetime
from itertools import groupby
from typing import NamedTuple

from evidence.store.operations import objects
from evidence.store.operations.findings import Finding, Scope
from evidence.store.operations.plan_folders import PlanFolder
from evidence.store.operations.plan_rows import Tally
from evidence.store.operations.rebuilding import PlanRebuild
from evidence.store.storage import object_store
from lanes.plans.models import Plan

_PLAN_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")

DERIVED = (
    "lanes_plans.Plan",
    "lanes_plans.Origin",
    "lanes_plans.Lane",
    "lanes_plans.Attempt",
    "lanes_budget.SubAllocation",
    "lanes_budget.LedgerEntry",
    "lanes_budget.UnknownCost",
    "lanes_fidelity.ProbeResult",
    "evidence_store.Removal",
    "evidence_store.Segment",
    "evidence_store.Seal",
    "evidence_store.PlanCopy",
    "evidence_store.Run",
    "evidence_store.Item",
    "evidence_store.Refusal",
    "evidence_store.JudgeCall",
    "evidence_store.Score",
    "evidence_store.PlanStorage",
)
"""The tables that are made again; of a removal as far as something was removed, of storage by its sweep.

`PolicyVersion` is, as far as plans were registered under it."""

NOT_DERIVED = (
    "- projects with their salt, people, tokens, channels, notices, audit: a backup; else"
    " `manage.py create_project` and `manage.py sign_in_link` before this command",
    "- suites and the policy in force: a backup; else `evalhub suite put`, `evalhub policy put`."
    " A policy is made again as far as plans were registered under it",
    "- pools and expected schedules: a backup; else `evalhub pool put`, `evalhub schedule put`, and"
    " this command again for what lanes were given",
    "- baselines: a backup; else `evalhub baseline adopt`",
    "- for how long evidence is kept, and pins: a backup; else `evalhub storage keep` and `evalhub pin set`"
    " before `manage.py up`, or what is old goes",
    "- conclusions, decision records, match rates: a backup; else `evalhub plan close DIGEST` has a"
    " plan concluded anew from its evidence. The checks at GitHub stay as they are",
)
"""What no object tells, and where it comes from."""


def reindex(scope: Scope, tally: Tally, *, at: datetime) -> Iterator[Finding]:
    """Make every row again that objects tell of and that is absent; yield what could not be.

    Rows that are there stay as they are. Safe to repeat, and to go on with after it was killed: a
    plan of which it had made a part is not concluded until another one has come to its end.

    Raises:
        StorageUnavailableError: if the object store cannot be read to the end.
    """
    waiting: list[_Waiting] = []
    for number, (begun_at, path) in enumerate(_folders(scope, at=at)):
        while waiting and waiting[0].at <= begun_at:
            yield from _advanced(heapq.heappop(waiting), waiting)
        folder = PlanFolder(path)
        steps = PlanRebuild(folder, tally, at=at).steps()
        yield from _advanced(_Waiting(begun_at, number, folder, steps), waiting)
    while waiting:
        yield from _advanced(heapq.heappop(waiting), waiting)


class _Waiting(NamedTuple):
    """A plan of which the next segment is of `at`. The number tells plans apart."""

    at: datetime
    number: int
    folder: PlanFolder
    steps: Iterator[datetime]


def _advanced(plan: _Waiting, waiting: list[_Waiting]) -> Iterator[Finding]:
    """Take a plan's next step, and put it back to those that wait unless it was the last."""
    following = next(plan.steps, None)
    if following is not None:
        heapq.heappush(waiting, plan._replace(at=following))
    told = list(plan.folder.told)
    plan.folder.told.clear()
    yield from told


def _folders(scope: Scope, *, at: datetime) -> list[tuple[datetime, str]]:
    """Return the folders of plans by when their plans were registered."""
    found = []
    for path, _ in groupby(object_store().keys(scope.prefix), key=objects.folder_of_plan):
        digest = path.rpartition("/")[2]
        if _PLAN_DIGEST.fullmatch(digest) is None:
            continue
        known = Plan.objects.filter(digest=digest).values_list("registered_at", flat=True).first()
        found.append((known or _begun_at(path) or at, path))
    return sorted(found)


def _begun_at(path: str) -> datetime | None:
    # What is wrong with it is told when its turn comes.
    folder = PlanFolder(path)
    folder.read_state()
    if folder.state is None:
        folder.read_all()
    return folder.begun_at()
