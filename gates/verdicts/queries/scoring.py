"""From runs to scores that compare: each run at its deciding stage, the baseline at the same one."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import fsum
from typing import NamedTuple

from evalhub.stats.rubric import RunScore, RunStatus
from gates.verdicts.queries.evidence import StageKey
from gates.verdicts.queries.sides import ArmRun

RESULT_STAGE = "result"
"""Where measured values lie that need no judge; it has no fingerprint."""


class Scoring(NamedTuple):
    """How one rubric is read. `stages` from the first to the last, as the policy orders them."""

    stages: tuple[str, ...]
    planned: Mapping[str, str]
    """The fingerprint that the plan names for each stage: preferred where a stage has several."""
    values: Mapping[int, Mapping[StageKey, float | None]]
    worst: float | None
    """What a crash of the agent scores; None where no scale says so."""


class Matched(NamedTuple):
    """Both sides, ready to be compared. No baseline runs: there is none to compare with."""

    baseline: list[RunScore]
    candidate: list[RunScore]
    judge_changed: bool = False
    """No run of the candidate has a stage and fingerprint in common with the baseline."""


class _Scored(NamedTuple):
    """A run with its values, the deciding one first."""

    run: ArmRun
    options: tuple[tuple[StageKey, float], ...]


_Unit = tuple[str, str]


def matched_scores(
    baseline: Sequence[ArmRun], candidate: Sequence[ArmRun], *, scoring: Scoring
) -> Matched:
    """Return both sides' scores on one rubric, each candidate run at a stage that both have.

    The deciding stage is the last with a value. Where the baseline lacks it (at that fingerprint),
    the latest earlier stage that both have serves both; where there is none, the run is
    NOT_COMPARABLE. Scenarios that only one side has keep their own deciding stage.
    """
    theirs = _by_unit(baseline, scoring)
    ours = _by_unit(candidate, scoring)
    scores_c: list[RunScore] = []
    scores_b: list[RunScore] = []
    compared = lost = 0
    for unit in sorted(theirs.keys() | ours.keys()):
        unit_b, unit_c = theirs.get(unit, []), ours.get(unit, [])
        stages = _common_stages(unit_b)
        chosen: list[StageKey] = []
        for scored in unit_c:
            option = _chosen(scored, stages)
            scores_c.append(_score(scored, option, has_baseline=bool(unit_b)))
            if scored.run.status is RunStatus.OK and scored.options and stages is not None:
                compared += 1
                lost += option is None
            if scored.run.status is RunStatus.OK and option is not None:
                chosen.append(option[0])
        if stages is not None and len(set(chosen)) > 1:
            scores_b += _weighted_rows(unit_b, chosen, scoring=scoring)
        else:
            scores_b += _rows_at(unit_b, chosen[0] if stages is not None and chosen else None)
    return Matched(scores_b, scores_c, judge_changed=0 < lost == compared)


def _by_unit(runs: Sequence[ArmRun], scoring: Scoring) -> dict[_Unit, list[_Scored]]:
    units: dict[_Unit, list[_Scored]] = defaultdict(list)
    for run in runs:
        units[run.scenario, run.digest].append(_Scored(run, _options(run, scoring)))
    return units


def _options(run: ArmRun, scoring: Scoring) -> tuple[tuple[StageKey, float], ...]:
    if run.run_id is None or run.status is RunStatus.UNMEASURED:
        return ()
    found = [
        (key, value)
        for key, value in scoring.values.get(run.run_id, {}).items()
        if value is not None and key[0] in scoring.stages
    ]
    if len(found) > 1:
        found.sort(key=lambda option: _rank(option[0], scoring))
    return tuple(found)


def _rank(key: StageKey, scoring: Scoring) -> tuple[int, bool, str]:
    stage, fingerprint = key
    return (-scoring.stages.index(stage), scoring.planned.get(stage) != fingerprint, fingerprint)


def _common_stages(baseline: Sequence[_Scored]) -> set[StageKey] | None:
    """Return the stages at which a baseline scenario has a mean; None where every stage would do.

    A crash of the agent is an outcome at every stage, a scenario without a value restricts nothing.
    """
    stages = {
        key for scored in baseline if scored.run.status is RunStatus.OK for key, _ in scored.options
    }
    return stages or None


def _chosen(scored: _Scored, stages: set[StageKey] | None) -> tuple[StageKey, float] | None:
    if stages is None:
        return scored.options[0] if scored.options else None
    return next((option for option in scored.options if option[0] in stages), None)


def _score(
    scored: _Scored, option: tuple[StageKey, float] | None, *, has_baseline: bool
) -> RunScore:
    run = scored.run
    if run.status is RunStatus.AGENT_ERROR and scored.options:
        # A crash takes its time and its tokens too: a tail rubric keeps the value.
        return _row(run, scored.options[0][1], run.status)
    if run.status is not RunStatus.OK:
        return _row(run, None, run.status)
    if option is not None:
        return _row(run, option[1], RunStatus.OK)
    if scored.options and has_baseline:
        return _row(run, None, RunStatus.NOT_COMPARABLE)
    return _row(run, None, RunStatus.NOT_JUDGED)


def _row(run: ArmRun, value: float | None, status: RunStatus) -> RunScore:
    return RunScore(run.scenario, run.digest, run.epoch, value, status, run.batch)


def _rows_at(unit: Sequence[_Scored], stage: StageKey | None) -> list[RunScore]:
    """Return the runs of a baseline scenario at one stage; without one, each at its deciding stage.

    A run that was decided at another stage has no part in this stage's mean, and is not missing.
    """
    rows = []
    for scored in unit:
        if scored.run.status is not RunStatus.OK or not scored.options:
            rows.append(_score(scored, None, has_baseline=False))
            continue
        value = dict(scored.options).get(stage) if stage is not None else scored.options[0][1]
        if value is not None:
            rows.append(_row(scored.run, value, RunStatus.OK))
    return rows


def _weighted_rows(
    unit: Sequence[_Scored], chosen: Sequence[StageKey], *, scoring: Scoring
) -> list[RunScore]:
    """Return one baseline score per candidate run: the scenario's mean at that run's stage."""
    crashed = [scored.run for scored in unit if scored.run.status is RunStatus.AGENT_ERROR]
    if crashed and scoring.worst is None:
        return [_row(run, None, RunStatus.AGENT_ERROR) for run in crashed]
    measured = [scored for scored in unit if scored.run.status is RunStatus.OK]
    rows = [
        _score(scored, None, has_baseline=False)
        for scored in unit
        if scored.run.status is RunStatus.UNMEASURED
        or (scored.run.status is RunStatus.OK and not scored.options)
    ]
    for epoch, stage in enumerate(sorted(chosen), start=1):
        values = [value for scored in measured for key, value in scored.options if key == stage]
        if scoring.worst is not None:
            values += [scoring.worst] * len(crashed)
        mean = fsum(values) / len(values)
        rows.append(_row(unit[0].run._replace(epoch=epoch), mean, RunStatus.OK))
    return rows
