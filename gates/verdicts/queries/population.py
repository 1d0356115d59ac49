"""Whether a plan still asks what its base branch asks: scenarios, arms, conditions, judges.

A pull request writes its own plan. What it leaves out or redefines would otherwise never be compared
with anything, least of all where a baseline lane of the same plan leaves it out too.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from evalhub.protocol.plan import Arm
from evalhub.protocol.plan import Plan as PlanDocument
from evalhub.protocol.suite import Scenario, Suite, SuiteScenario
from gates.verdicts.queries.comparators import (
    Comparator,
    Comparison,
    candidate_arms,
    matching_arm,
)
from gates.verdicts.queries.findings import Code, Effect, Finding, finding
from gates.verdicts.queries.sides import gating_keys, required_lanes, same_arm

Compared = Sequence[tuple[Arm, list[Comparator]]]
"""Every judged arm with its comparisons."""


class Base(NamedTuple):
    """What a plan is held against, whatever its arms are compared with."""

    suite: Suite | None
    """The current suite of the base branch; None if nobody registered one."""
    rolling: PlanDocument | None
    """The adopted baseline; None if there is none."""


class Change(NamedTuple):
    """A scenario, and what the finding says about it."""

    scenario: str
    words: str


class Part(StrEnum):
    """How a scenario takes part in a plan."""

    REMOVED = "removed"
    EXCLUDED = "excluded"
    NOT_REQUIRED = "in no required lane"
    REQUIRED = "required"


def population_findings(document: PlanDocument, found: Compared, *, base: Base) -> list[Finding]:
    """Return what a plan dropped, redefined or added against its base."""
    return [
        *_suite_findings(document, found, base=base),
        *_arm_findings(document, base.rolling),
        *_stage_findings(document, found, base.rolling),
    ]


def _suite_findings(document: PlanDocument, found: Compared, *, base: Base) -> list[Finding]:
    lost, added = _against_suite(document, base)
    # What the base suite names already is not told again for each arm.
    named = {change.scenario for change in (*lost, *added)}
    for arm, compared in found:
        ours = _population(document, arm.name)
        for words, theirs in _baselines(arm, compared, base.rolling):
            where = f"{arm.name}, {words}"
            for scenario, digest in theirs.items():
                if scenario not in named and scenario not in ours:
                    lost.append(Change(scenario, f"{scenario} (removed, {where})"))
                elif scenario not in named and ours[scenario] != digest:
                    lost.append(Change(scenario, f"{scenario} (changed, {where})"))
            added += [
                Change(scenario, f"{scenario} ({where})")
                for scenario in ours.keys() - theirs.keys() - named
            ]
    return [
        *finding(
            Code.SUITE_CHANGED,
            Effect.ACTION_REQUIRED,
            [change.words for change in lost],
            "Scenarios that the base suite or the baseline has and this plan does not run, or not in"
            " the same form.",
        ),
        *finding(
            Code.SUITE_GREW,
            Effect.NOTE,
            [change.words for change in added],
            "Scenarios that the base suite or the baseline does not have; they are not compared with it.",
        ),
    ]


class _Changes(NamedTuple):
    lost: list[Change]
    added: list[Change]


def _against_suite(document: PlanDocument, base: Base) -> _Changes:
    if base.suite is None:
        return _Changes([], [])
    lost = [
        Change(scenario.id, f"{scenario.id}: {', '.join(words)}")
        for scenario, words in _differences(base.suite, document, base.rolling)
    ]
    known = {scenario.id for scenario in base.suite.scenarios}
    new = [scenario.id for scenario in document.scenarios if scenario.id not in known]
    return _Changes(lost, [Change(scenario, f"{scenario}: new") for scenario in new])


class _Difference(NamedTuple):
    scenario: SuiteScenario
    words: list[str]


def _differences(
    suite: Suite, document: PlanDocument, rolling: PlanDocument | None
) -> list[_Difference]:
    """Say what became of each scenario of the base suite that is not as it was."""
    ours, theirs = _listing(document), None if rolling is None else _listing(rolling)
    found = []
    for scenario in suite.scenarios:
        words = []
        part = _part(scenario, ours)
        # What the base branch leaves out by itself is no news; what is gone without a word always is.
        is_old = theirs is not None and _part(scenario, theirs) is part
        if part is Part.REMOVED or not (part is Part.REQUIRED or is_old):
            words.append(part.value)
        now = ours.scenarios.get(scenario.id)
        if now is not None:
            words += [
                word
                for word, is_changed in (
                    ("digest", now.digest != scenario.digest),
                    ("category", now.category != scenario.category),
                    ("tags", set(now.tags) != set(scenario.tags)),
                )
                if is_changed
            ]
        if words:
            found.append(_Difference(scenario, words))
    return found


class _Listing(NamedTuple):
    """What a plan says about scenarios, indexed."""

    scenarios: dict[str, Scenario]
    required: frozenset[str]
    """Those that a required lane runs in an arm that is not a baseline."""
    excluded: frozenset[str]
    """Categories."""


def _listing(document: PlanDocument) -> _Listing:
    own = {arm.name for arm in document.arms if not arm.is_baseline}
    return _Listing(
        {scenario.id: scenario for scenario in document.scenarios},
        frozenset(
            key.scenario
            for lane in required_lanes(document)
            for key in lane.run_keys
            if key.arm in own
        ),
        frozenset(exclusion.category for exclusion in document.excluded),
    )


def _part(scenario: SuiteScenario, listing: _Listing) -> Part:
    if scenario.id in listing.required:
        return Part.REQUIRED
    if scenario.category in listing.excluded:
        return Part.EXCLUDED
    return Part.NOT_REQUIRED if scenario.id in listing.scenarios else Part.REMOVED


class _Named(NamedTuple):
    """A plan that an arm is held against, as scenarios by id with their digests."""

    words: str
    scenarios: dict[str, str]


def _baselines(
    arm: Arm, compared: Sequence[Comparator], rolling: PlanDocument | None
) -> list[_Named]:
    found = [
        _Named(one.comparison, _population(own.document, own.arm))
        for one in compared
        if one.baseline is not None and one.comparison is not Comparison.FAULT
        for own in one.baseline.members[:1]
    ]
    theirs = None if rolling is None else matching_arm(rolling, arm)
    # A baseline lane beside the arm leaves out what the plan leaves out.
    if rolling is not None and theirs is not None and _is_concurrent(compared):
        found.append(_Named(Comparison.HISTORY, _population(rolling, theirs.name)))
    return found


def _is_concurrent(compared: Iterable[Comparator]) -> bool:
    return any(one.comparison is Comparison.CONCURRENT for one in compared)


def _population(document: PlanDocument, arm: str) -> dict[str, str]:
    digests = {scenario.id: scenario.digest for scenario in document.scenarios}
    return {key.scenario: digests[key.scenario] for key in gating_keys(document, arm)}


def _arm_findings(document: PlanDocument, rolling: PlanDocument | None) -> list[Finding]:
    """Name the arms of the adopted baseline that are gone, and conditions that mean something else."""
    if rolling is None:
        return []
    ours = candidate_arms(document)
    gone = [
        f"{theirs.name} ({theirs.subject}, {theirs.model}, {theirs.condition}): removed"
        for theirs in candidate_arms(rolling)
        if not any(same_arm(arm, theirs) for arm in ours)
    ]
    redefined = [
        f"{name}: condition changed"
        for name in _conditions(document) & _conditions(rolling)
        if document.conditions.get(name) != rolling.conditions.get(name)
    ]
    return finding(
        Code.ARMS_CHANGED,
        Effect.ACTION_REQUIRED,
        [*gone, *redefined],
        "Arms of the adopted baseline that this plan does not run, or runs under a condition of the"
        " same name that says something else.",
    )


def _conditions(document: PlanDocument) -> set[str]:
    return {*document.conditions, *(arm.condition for arm in document.arms)}


def _stage_findings(
    document: PlanDocument, found: Compared, rolling: PlanDocument | None
) -> list[Finding]:
    """Name the judges that are not the adopted baseline's, where no comparison with it would tell.

    A stage that the plan lacks is no change: a pull request may run the cheap stages only.
    """
    if rolling is None or not any(_is_concurrent(compared) for _, compared in found):
        return []
    adopted = {(stage.rubric, stage.stage, stage.fingerprint) for stage in rolling.stages}
    rubrics = {stage.rubric for stage in rolling.stages}
    return finding(
        Code.JUDGE_REPLACED,
        Effect.ACTION_REQUIRED,
        [
            f"{stage.rubric}/{stage.stage}"
            for stage in document.stages
            if stage.rubric in rubrics
            and (stage.rubric, stage.stage, stage.fingerprint) not in adopted
        ],
        "Stages that this plan judges with another model, prompt or parameters than the adopted"
        " baseline.",
    )
