"""Lists of runs: of a plan by page, the failed ones, and the others of the same run key."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from django.db.models import Count, Q, QuerySet

from evalhub.protocol.paths import run_folder
from evalhub.protocol.plan import RunKey
from evalhub.protocol.policy import Policy
from evidence.store.models import Item, Refusal, Run, Score
from lanes.plans.models import Attempt, Plan
from lanes.projects.models import Project


class RunFilter(NamedTuple):
    """What a reader wants to see; empty words do not filter."""

    outcome: str = ""
    arm: str = ""
    lane: str = ""
    scenario: str = ""
    scenarios: Sequence[str] | None = None
    """Only these scenarios: those of a category. None does not filter."""


class RunPage(NamedTuple):
    """Some runs in order of scenario, arm and epoch."""

    runs: list[Run]
    next: int | None
    """The last run's id, to go on after; None at the end."""


NO_RESULT = "none"
"""The filter word for runs without a result."""


def run_page(plan: Plan, *, wanted: RunFilter, after: int | None, limit: int) -> RunPage:
    """Return the runs of a plan that `wanted` asks for, after the run with the id `after`."""
    runs = _filtered(Run.objects.filter(plan=plan), wanted)
    last = Run.objects.filter(plan=plan, pk=after).first() if after is not None else None
    if last is not None:
        # The first condition is a range of the index; the second alone would have runs sorted.
        runs = runs.filter(_after(last), scenario__gte=last.scenario)
    found = list(
        runs.select_related("lane", "attempt").order_by("scenario", "arm", "epoch", "id")[
            : limit + 1
        ]
    )
    return RunPage(found[:limit], found[limit - 1].pk if len(found) > limit else None)


def outcome_counts(plan: Plan, *, lane: str | None = None) -> dict[str | None, int]:
    """Return how many runs of a plan, or of one lane, ended how; None counts those without a result."""
    runs = Run.objects.filter(plan=plan)
    if lane is not None:
        runs = runs.filter(lane__name=lane)
    rows = runs.values_list("outcome").annotate(runs=Count("id"))
    return dict(sorted(rows, key=lambda row: (-row[1], row[0] or "")))


class AttemptRow(NamedTuple):
    """One attempt of a lane and how many items it left."""

    attempt: Attempt
    accepted: int
    refused: int


def lane_attempts(plan: Plan, lane: str) -> list[AttemptRow]:
    """Return the attempts of a lane, newest first."""
    attempts = Attempt.objects.filter(lane__plan=plan, lane__name=lane).order_by("-number")
    accepted = _counts(Item.objects.filter(attempt__in=attempts))
    refused = _counts(Refusal.objects.filter(attempt__in=attempts))
    return [
        AttemptRow(attempt, accepted.get(attempt.pk, 0), refused.get(attempt.pk, 0))
        for attempt in attempts
    ]


class FailedRun(NamedTuple):
    """A run that did not pass, beside how its scenario went on the baseline."""

    run: Run
    baseline_passed: int
    baseline_runs: int
    """0 where the baseline has no measured run of the scenario."""

    @property
    def is_new(self) -> bool:
        """Whether the baseline passed the scenario more often than not."""
        return self.baseline_passed * 2 > self.baseline_runs


class BaselineArm(NamedTuple):
    """Where an arm's comparator ran."""

    plan_id: int
    arm: str


def failed_runs(plan: Plan, *, baselines: Mapping[str, BaselineArm], limit: int) -> list[FailedRun]:
    """Return runs that did not pass, those that the baseline passed first.

    `baselines` names each arm's comparator; an arm without one is listed last.
    """
    rows = list(
        Run.objects.filter(plan=plan)
        .exclude(outcome="passed")
        .exclude(arm__startswith="baseline:")
        .values_list("id", "scenario", "arm")
    )
    rates = {arm: _pass_counts(baseline) for arm, baseline in baselines.items()}

    def on_baseline(scenario: str, arm: str) -> tuple[int, int]:
        return rates.get(arm, {}).get(scenario, (0, 0))

    def order(row: tuple[int, str, str]) -> tuple[float, str, str, int]:
        run_id, scenario, arm = row
        passed, measured = on_baseline(scenario, arm)
        return (-(passed / measured) if measured else 0.0, scenario, arm, run_id)

    chosen = [row[0] for row in sorted(rows, key=order)[:limit]]
    found = Run.objects.select_related("lane", "attempt").in_bulk(chosen)
    return [
        FailedRun(found[run_id], *on_baseline(found[run_id].scenario, found[run_id].arm))
        for run_id in chosen
        if run_id in found
    ]


def _pass_counts(baseline: BaselineArm) -> dict[str, tuple[int, int]]:
    rows = (
        Run.objects.filter(plan_id=baseline.plan_id, arm=baseline.arm)
        .filter(outcome__in=["passed", "failed", "agent_error", "agent_timeout"])
        .values_list("scenario")
        .annotate(passed=Count("id", filter=Q(outcome="passed")), measured=Count("id"))
    )
    return {scenario: (passed, measured) for scenario, passed, measured in rows}


def runs_beside(run: Run) -> list[Run]:
    """Return every run of the same scenario and arm in the plan, itself too: epochs and attempts."""
    return list(
        Run.objects.filter(plan=run.plan_id, scenario=run.scenario, arm=run.arm)
        .select_related("attempt", "lane")
        .order_by("epoch", "attempt__number", "id")
    )


def run_of_key(plan_id: int, *, scenario: str, arm: str, epoch: int) -> Run | None:
    """Return the newest run of a key, or of another epoch where that one did not run."""
    runs = Run.objects.filter(plan_id=plan_id, scenario=scenario, arm=arm)
    same = runs.filter(epoch=epoch).order_by("-attempt__number", "-id").first()
    return same or runs.order_by("epoch", "-attempt__number", "-id").first()


def run_of_project(project: Project, *, run_id: int) -> Run | None:
    """Return a run of a project by its id; None where the project has no such run."""
    return Run.objects.filter(pk=run_id, plan__project=project).first()


def deciding_scores(
    runs: Iterable[Run], *, rubrics: Sequence[str], policy: Policy
) -> dict[int, dict[str, float | None]]:
    """Return the deciding value per run id and rubric: that of the last stage with a value."""
    stages: dict[str, list[str]] = {
        name: list(rubric.stages) if rubric.source == "judge" else ["result"]
        for name, rubric in policy.rubrics.items()
    }
    found: dict[int, dict[str, tuple[int, float]]] = defaultdict(dict)
    rows = Score.objects.filter(
        run__in=[run.pk for run in runs], rubric__in=rubrics, value__isnull=False
    )
    for run_id, rubric, stage, value in rows.values_list("run_id", "rubric", "stage", "value"):
        rank = stages[rubric].index(stage) if stage in stages.get(rubric, []) else -1
        if value is not None and rank >= found[run_id].get(rubric, (-1, 0.0))[0]:
            found[run_id][rubric] = (rank, value)
    return {
        run_id: {rubric: value for rubric, (rank, value) in scores.items() if rank >= 0}
        for run_id, scores in found.items()
    }


class RefusalPage(NamedTuple):
    """Some of what lies in quarantine, newest first."""

    refusals: list[Refusal]
    next: int | None
    counts: dict[str, int]
    """Over the whole plan, by category."""


def refusal_page(plan: Plan, *, category: str, before: int | None, limit: int) -> RefusalPage:
    """Return refused evidence of a plan, older than the refusal with the id `before`."""
    everything = Refusal.objects.filter(plan=plan)
    refusals = everything.filter(category=category) if category else everything
    last = everything.filter(pk=before).first() if before is not None else None
    if last is not None:
        refusals = refusals.filter(refused_at__lte=last.refused_at).exclude(
            refused_at=last.refused_at, pk__gte=last.pk
        )
    found = list(
        refusals.select_related("attempt__lane").order_by("-refused_at", "-id")[: limit + 1]
    )
    counts = Counter(dict(everything.values_list("category").annotate(n=Count("id"))))
    return RefusalPage(
        found[:limit],
        found[limit - 1].pk if len(found) > limit else None,
        dict(sorted(counts.items())),
    )


class LaneRefusals(NamedTuple):
    """What was refused of one attempt: counts by category, and the newest."""

    counts: dict[str, int]
    newest: list[Refusal]

    @property
    def total(self) -> int:
        return sum(self.counts.values())


def refusals_of_attempt(attempt: Attempt, *, limit: int) -> LaneRefusals:
    """Return what was refused of an attempt."""
    rows = Refusal.objects.filter(attempt=attempt)
    counts = rows.order_by().values_list("category").annotate(n=Count("id"))
    return LaneRefusals(dict(sorted(counts)), list(rows.order_by("-refused_at", "-id")[:limit]))


def refusals_of_run(run: Run) -> list[Refusal]:
    """Return what was refused of a run key in the run's attempt."""
    folder = run_folder(RunKey(run.scenario, run.arm, run.epoch))
    return list(
        Refusal.objects.filter(attempt=run.attempt_id, path__startswith=f"{folder}/").order_by(
            "path", "id"
        )
    )


def _counts(rows: QuerySet[Any]) -> dict[int, int]:
    return dict(rows.order_by().values_list("attempt").annotate(n=Count("pk")))


def _filtered(runs: QuerySet[Run], wanted: RunFilter) -> QuerySet[Run]:
    if wanted.outcome == NO_RESULT:
        runs = runs.filter(outcome__isnull=True)
    elif wanted.outcome:
        runs = runs.filter(outcome=wanted.outcome)
    if wanted.arm:
        runs = runs.filter(arm=wanted.arm)
    if wanted.lane:
        runs = runs.filter(lane__name=wanted.lane)
    if wanted.scenario:
        runs = runs.filter(scenario__contains=wanted.scenario)
    if wanted.scenarios is not None:
        runs = runs.filter(scenario__in=wanted.scenarios)
    return runs


def _after(last: Run) -> Q:
    """Return the condition "later in the order of scenario, arm, epoch, id than `last`"."""
    same_scenario = Q(scenario=last.scenario)
    same_arm = same_scenario & Q(arm=last.arm)
    return (
        Q(scenario__gt=last.scenario)
        | (same_scenario & Q(arm__gt=last.arm))
        | (same_arm & Q(epoch__gt=last.epoch))
        | (same_arm & Q(epoch=last.epoch, pk__gt=last.pk))
    )
