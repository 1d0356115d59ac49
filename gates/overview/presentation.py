"""How a plan is told: conclusion JSON, coverage and spend in, plain values for templates out."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from evalhub.protocol.plan import Plan as PlanDocument
from evalhub.protocol.plan import PlannedLane, RunKey
from evidence.store.queries import LaneCoverage
from gates.decisions.queries import Headline
from gates.overview import charts
from lanes.budget.queries import LaneSpend, PlanSpend
from lanes.plans.models import Attempt, Plan, PlanState


class VerdictRow(NamedTuple):
    """One verdict as the table shows it."""

    verdict: Mapping[str, Any]
    """As WIRE section 4 gives it."""
    bar: charts.Bar | None
    """None where there is no effect to draw."""
    interval: tuple[float, float] | None

    @property
    def n(self) -> str:
        """How many scenarios stand behind it."""
        counts = self.verdict.get("n") or {}
        if counts.get("pairs"):
            return f"{counts['pairs']} pairs"
        return f"{counts.get('b', 0)} and {counts.get('c', 0)}"


class Verdicts(NamedTuple):
    """The verdicts of a conclusion, worst first, and their forest plot."""

    overall: list[VerdictRow]
    by_category: list[VerdictRow]
    figure: dict[str, Any] | None

    @property
    def is_batch_unknown(self) -> bool:
        """Whether an interval leaves out what differs from one night to the next."""
        rows = (*self.overall, *self.by_category)
        return any("BATCH_UNKNOWN" in row.verdict.get("reasons", []) for row in rows)

    @property
    def category_counts(self) -> dict[str, int]:
        """How many verdicts by category say what."""
        counts = Counter(row.verdict["verdict"] for row in self.by_category)
        return dict(sorted(counts.items(), key=lambda item: _ORDER.get(item[0], 1)))


def verdicts(content: Mapping[str, Any]) -> Verdicts:
    """Return the verdicts of a conclusion in the order in which one looks for them.

    The plot shows the overall ones, and of the categories those that changed.
    """
    found = sorted(content.get("verdicts", []), key=_importance)
    effects = {i: effect for i, row in enumerate(found) if (effect := _effect(row)) is not None}
    half = charts.half_width(list(effects.values()))
    rows = [
        VerdictRow(
            verdict=row,
            bar=charts.bar(effects[i], half=half) if i in effects else None,
            interval=_interval(row),
        )
        for i, row in enumerate(found)
    ]
    plotted = [effect for i, effect in effects.items() if _is_plotted(found[i])][:_MOST_PLOTTED]
    return Verdicts(
        overall=[row for row in rows if not row.verdict.get("category")],
        by_category=[row for row in rows if row.verdict.get("category")],
        figure=charts.forest_figure(plotted) if plotted else None,
    )


_ORDER = {"REGRESSION": 0, "INCONCLUSIVE": 1, "IMPROVEMENT": 2, "PASS": 3}
_CHANGED = {"REGRESSION", "IMPROVEMENT"}
_MOST_PLOTTED = 40


def _is_plotted(row: Mapping[str, Any]) -> bool:
    return not row.get("category") or row.get("gates", True) or row["verdict"] in _CHANGED


def _importance(row: Mapping[str, Any]) -> tuple[bool, int, bool, str, str, str]:
    return (
        not row.get("gates", True),
        _ORDER.get(row["verdict"], 1),
        row.get("delta") is None,
        row["rubric"],
        row.get("category") or "",
        row["arm"],
    )


def _effect(row: Mapping[str, Any]) -> charts.Effect | None:
    if row.get("delta") is None or not row.get("floor"):
        return None
    ends = _interval(row)
    return charts.Effect(
        label=row_label(row),
        verdict=row["verdict"],
        delta=row["delta"],
        low=ends[0] if ends else None,
        high=ends[1] if ends else None,
        floor=row["floor"],
    )


def _interval(row: Mapping[str, Any]) -> tuple[float, float] | None:
    ends = row.get("ci95")
    return None if ends is None or None in ends else (ends[0], ends[1])


def row_label(row: Mapping[str, Any]) -> str:
    """Return what a verdict is about, short enough for an axis."""
    slice_ = f" in {row['category']}" if row.get("category") else ""
    arm = "" if row["arm"] == "candidate" else f", {row['arm']}"
    comparison = "" if row["comparison"] in {"history", "concurrent"} else f", {row['comparison']}"
    return f"{row['rubric']}{slice_}{arm}{comparison}"


class LaneRow(NamedTuple):
    """How far one lane came."""

    lane: PlannedLane
    state: str | None
    attempt: Attempt | None
    accepted: int
    refused: int
    missing: list[RunKey]
    lane_missing: list[str]
    spend: LaneSpend | None
    is_plan_concluded: bool

    @property
    def arrived(self) -> int:
        """Run keys that lack nothing."""
        return len(self.lane.runs) - len(self.missing)

    @property
    def is_complete(self) -> bool:
        return not self.missing and not self.lane_missing

    @property
    def is_overdue(self) -> bool:
        """Whether nothing more is to be expected: the lane is over, or its plan is."""
        return self.is_plan_concluded or self.state in {"SEALED", "SUPERSEDED", "CANCELLED"}


def lane_rows(
    document: PlanDocument,
    *,
    coverage: Iterable[LaneCoverage],
    attempts: Mapping[str, Attempt | None],
    spend: PlanSpend,
    is_concluded: bool,
) -> list[LaneRow]:
    """Return one row per lane, in the plan's order."""
    covered = {lane.lane: lane for lane in coverage}
    spent = {lane.lane: lane for lane in spend.by_lane}
    return [
        LaneRow(
            lane=lane,
            state=covered[lane.name].state,
            attempt=attempts.get(lane.name),
            accepted=covered[lane.name].accepted,
            refused=covered[lane.name].refused,
            missing=list(covered[lane.name].missing),
            lane_missing=covered[lane.name].lane_missing,
            spend=spent.get(lane.name),
            is_plan_concluded=is_concluded,
        )
        for lane in document.lanes
        if lane.name in covered
    ]


class Progress(NamedTuple):
    """How far a plan came, over all its required lanes."""

    arrived: int
    planned: int
    sealed: int
    lanes: int


def progress(rows: Iterable[LaneRow]) -> Progress:
    """Return the sums over required lanes."""
    required = [row for row in rows if row.lane.is_required]
    return Progress(
        arrived=sum(row.arrived for row in required),
        planned=sum(len(row.lane.runs) for row in required),
        sealed=sum(row.state == "SEALED" for row in required),
        lanes=len(required),
    )


_STEPS = {
    "arms_changed": "Run every arm and condition of the adopted baseline, or have a maintainer adopt a new one.",
    "judge_replaced": "Judge as the adopted baseline did, or adopt a baseline under the new judge.",
    "missing": "Run the lanes with missing evidence again: a new attempt adds to what is here.",
    "unmeasured_lane": "Look at the log of the lane that measured nothing, mend its machine, run it again.",
    "unsealed_lane": "See why the lane never sealed: its last log lines are on the lane's page.",
    "unreadable_segment": "Fetch the refused segment from the quarantine and see what wrote it.",
    "purged": "Run the plan's suite again where a verdict is to rest on evidence that is there.",
    "judge_changed": "Judge with the model, prompt and parameters that the plan names, or build the plan anew.",
    "environment_differs": "Run the lane where the plan says, or build the plan for where it runs.",
    "out_of_scale": "Correct the judge or the rubric's scale: scores outside it do not count.",
    "unmeasured": "Find out why so many runs measured nothing; repeating them does not change the count.",
    "suite_changed": "A maintainer must accept the changed suite for this commit.",
    "isolation_violated": "Give each lane a machine, world and credential of its own, then run again.",
    "isolation_unproven": "Have the lanes report what they used, or set the claim to not_claimed in the policy.",
    "NO_BASELINE": "A maintainer adopts a sound plan as baseline: evalhub baseline adopt DIGEST --reason …",
    "NOT_COMPARABLE": "Compare like with like: build the plan for the environment of the baseline, or adopt another.",
    "JUDGE_CHANGED": "Run the baseline again under the new judge and adopt it.",
    "SUITE_CHANGED": "Run the baseline again on the changed suite and adopt it.",
    "SUITE_MISMATCH": "Compare more scenarios: those count that both measured and that have not changed.",
    "NOT_JUDGED": "See why the judge gave no score: budget, refusals and errors are on each run's page.",
    "MISSING": "See why scores are missing: unscored calls name their reason on each run's page.",
    "NO_SCALE": "Give the rubric a scale in the policy: without one a crash of the agent has no score.",
    "N_LT_2": "Run more scenarios: one alone cannot be compared.",
    "NOTHING_BLOCKING": "Name a rubric that blocks in the policy, or see why none could be compared.",
    "UNDERPOWERED": "Add scenarios or epochs: this much data cannot see a drop of the size that matters.",
    "BORDERLINE": "Run more epochs: the effect is too close to the floor to call.",
    "TAIL_N": "Run at least 20 comparable runs in each arm: fewer say nothing about a tail.",
    "BELOW_FLOOR": "The candidate is below its absolute floor; no baseline excuses that.",
    "CEILING_BREACH": "Too many runs are over the absolute ceiling; read the slowest.",
}
_REGRESSED = "Read the failed runs below, those that the baseline passed first."


def next_steps(content: Mapping[str, Any]) -> list[str]:
    """Return what a reader can do now, the strongest reason first."""
    if content.get("conclusion") == "success":
        return []
    codes = [
        finding["code"]
        for finding in content.get("findings", [])
        if finding.get("effect", "failure") != "note"
    ]
    rows = [row for row in content.get("verdicts", []) if row.get("gates", True)]
    steps = [_STEPS[code] for code in codes if code in _STEPS]
    if any(row["verdict"] == "REGRESSION" for row in rows):
        steps.append(_REGRESSED)
    undecided = [row for row in rows if row["verdict"] != "PASS"]
    reasons = [reason for row in undecided for reason in row.get("reasons", [])]
    steps += [_STEPS[r] for r in [*reasons, *content.get("data_reasons", [])] if r in _STEPS]
    return list(dict.fromkeys(steps))


def running_sentence(plan: Plan, *, done: Progress) -> str:
    """Return in words where an open plan stands."""
    if plan.state == PlanState.REGISTERED:
        return "Registered: no lane has begun yet."
    return (
        f"{done.arrived} of {done.planned} runs are here, {done.sealed} of {done.lanes} required"
        " lanes are sealed."
    )


class PlanRow(NamedTuple):
    """A plan in the list."""

    plan: Plan
    conclusion: str | None
    title: str


def plan_rows(plans: Iterable[Plan], *, newest: Mapping[int, Headline]) -> list[PlanRow]:
    """Return the rows of the list of plans; `newest` are their newest conclusions, by plan id."""
    nothing = Headline(None, "")
    return [PlanRow(plan, *newest.get(plan.pk, nothing)) for plan in plans]
