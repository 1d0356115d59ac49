"""The runs and scores of several plans, read once and indexed for all comparisons."""

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from evalhub.protocol.plan import RunKey
from evidence.store import queries as store

StageKey = tuple[str, str]
"""A stage and its fingerprint: scores compare only within one."""

Values = dict[str, dict[int, dict[StageKey, float | None]]]


class SeenRun(NamedTuple):
    """One run that left something. `outcome` is None while no result was accepted."""

    run_id: int
    attempt_number: int
    outcome: str | None


class Evidence(NamedTuple):
    """What was accepted. Runs of a key are in the order of their attempts."""

    runs: dict[int, dict[RunKey, list[SeenRun]]]
    """By plan id and run key."""
    values: Values
    """By rubric, run id, and stage with fingerprint; None where every call failed."""

    def of(self, plan_id: int, key: RunKey) -> list[SeenRun]:
        return self.runs.get(plan_id, {}).get(key, [])


def evidence_of(plan_ids: Iterable[int]) -> Evidence:
    """Read runs and scores of `plan_ids`."""
    wanted = sorted(set(plan_ids))
    runs: dict[int, dict[RunKey, list[SeenRun]]] = defaultdict(lambda: defaultdict(list))
    for row in store.run_rows(wanted):
        key = RunKey(row.scenario, row.arm, row.epoch)
        runs[row.plan_id][key].append(SeenRun(row.run_id, row.attempt_number, row.outcome))
    for by_key in runs.values():
        for seen in by_key.values():
            seen.sort(key=lambda run: (run.attempt_number, run.run_id))
    values: Values = defaultdict(lambda: defaultdict(dict))
    for score in store.score_rows(wanted):
        values[score.rubric][score.run_id][score.stage, score.fingerprint] = score.value
    return Evidence(runs, values)
