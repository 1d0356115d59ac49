"""Which score of a run counts, and what the baseline is read at."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from evalhub.stats.rubric import RunScore, RunStatus
from gates.verdicts.queries.evidence import StageKey
from gates.verdicts.queries.scoring import Matched, Scoring, matched_scores
from gates.verdicts.queries.sides import ArmRun

CHECK, LLM, NEW_LLM = ("check", "sha256:c"), ("llm", "sha256:l"), ("llm", "sha256:n")

Values = Mapping[StageKey, float | None]


class Table:
    """Runs of both sides and their values."""

    def __init__(self) -> None:
        self.values: dict[int, Values] = {}
        self.baseline: list[ArmRun] = []
        self.candidate: list[ArmRun] = []

    def add(
        self,
        side: list[ArmRun],
        scenario: str = "one",
        values: Values | None = None,
        *,
        status: RunStatus = RunStatus.OK,
        digest: str = "sha256:d",
    ) -> None:
        run_id = len(self.values) + 1
        self.values[run_id] = values or {}
        side.append(ArmRun(scenario, digest, len(side) + 1, run_id, status, "plan"))

    def matched(self, *, worst: float | None = 0.0) -> Matched:
        scoring = Scoring(("check", "llm"), {"llm": LLM[1], "check": CHECK[1]}, self.values, worst)
        return matched_scores(self.baseline, self.candidate, scoring=scoring)


def values(scores: list[RunScore]) -> list[float | None]:
    return [score.value for score in scores]


def statuses(scores: list[RunScore]) -> list[RunStatus]:
    return [score.status for score in scores]


def test_score_of_a_run_is_that_of_its_last_stage_with_a_value() -> None:
    table = Table()
    table.add(table.candidate, values={CHECK: 1.0, LLM: 7.0})
    table.add(table.candidate, values={CHECK: 2.0, LLM: None})

    matched = table.matched()

    assert values(matched.candidate) == [7.0, 2.0]


def test_baseline_is_read_at_the_stage_of_the_candidate() -> None:
    table = Table()
    table.add(table.baseline, values={CHECK: 3.0, LLM: 8.0})
    table.add(table.candidate, values={CHECK: 4.0})

    matched = table.matched()

    assert values(matched.baseline) == [3.0]
    assert values(matched.candidate) == [4.0]


def test_earlier_common_stage_serves_both_where_the_judge_changed() -> None:
    table = Table()
    table.add(table.baseline, values={CHECK: 3.0, LLM: 8.0})
    table.add(table.candidate, values={CHECK: 4.0, NEW_LLM: 9.0})

    matched = table.matched()

    assert values(matched.baseline) == [3.0]
    assert values(matched.candidate) == [4.0]
    assert not matched.judge_changed


def test_run_without_a_common_stage_is_not_comparable() -> None:
    table = Table()
    table.add(table.baseline, values={LLM: 8.0})
    table.add(table.candidate, values={NEW_LLM: 9.0})
    table.add(table.baseline, "two", values={LLM: 8.0})
    table.add(table.candidate, "two", values={LLM: 7.0})

    matched = table.matched()

    assert statuses(matched.candidate) == [RunStatus.NOT_COMPARABLE, RunStatus.OK]
    assert not matched.judge_changed


def test_judge_changed_when_no_run_has_a_common_stage() -> None:
    table = Table()
    for scenario in ("one", "two"):
        table.add(table.baseline, scenario, values={LLM: 8.0})
        table.add(table.candidate, scenario, values={NEW_LLM: 9.0})
    table.add(table.candidate, "new scenario", values={NEW_LLM: 9.0})
    table.add(table.candidate, "two", status=RunStatus.UNMEASURED)

    assert table.matched().judge_changed


def test_baseline_counts_stages_as_the_candidate_reached_them() -> None:
    table = Table()
    table.add(table.baseline, values={CHECK: 2.0, LLM: 8.0})
    table.add(table.baseline, values={CHECK: 4.0, LLM: 6.0})
    table.add(table.candidate, values={CHECK: 1.0, LLM: 5.0})
    table.add(table.candidate, values={CHECK: 0.0})

    matched = table.matched()

    # Mean of the llm stage is 7, of the check 3: one candidate run at each.
    assert sorted(v for v in values(matched.baseline) if v is not None) == [3.0, 7.0]
    assert values(matched.candidate) == [5.0, 0.0]


def test_baseline_run_of_another_stage_is_no_part_of_the_mean_and_not_missing() -> None:
    table = Table()
    table.add(table.baseline, values={CHECK: 0.0})
    table.add(table.baseline, values={CHECK: 1.0, LLM: 8.0})
    table.add(table.candidate, values={CHECK: 1.0, LLM: 7.0})

    matched = table.matched()

    assert values(matched.baseline) == [8.0]


def test_crash_of_the_baseline_is_an_outcome_at_every_stage() -> None:
    table = Table()
    table.add(table.baseline, values={LLM: 8.0})
    table.add(table.baseline, status=RunStatus.AGENT_ERROR)
    table.add(table.candidate, values={LLM: 7.0})

    matched = table.matched()

    assert statuses(matched.baseline) == [RunStatus.OK, RunStatus.AGENT_ERROR]


def test_crash_weighs_in_the_baseline_mean_of_mixed_stages() -> None:
    table = Table()
    table.add(table.baseline, values={CHECK: 2.0, LLM: 8.0})
    table.add(table.baseline, status=RunStatus.AGENT_ERROR)
    table.add(table.candidate, values={LLM: 7.0})
    table.add(table.candidate, values={CHECK: 1.0})

    matched = table.matched(worst=0.0)

    assert sorted(v for v in values(matched.baseline) if v is not None) == [1.0, 4.0]


def test_crash_without_a_scale_stays_a_crash() -> None:
    table = Table()
    table.add(table.baseline, values={CHECK: 2.0, LLM: 8.0})
    table.add(table.baseline, status=RunStatus.AGENT_ERROR)
    table.add(table.candidate, values={LLM: 7.0})
    table.add(table.candidate, values={CHECK: 1.0})

    matched = table.matched(worst=None)

    assert statuses(matched.baseline) == [RunStatus.AGENT_ERROR]


def test_measured_run_without_a_value_is_not_judged() -> None:
    table = Table()
    table.add(table.baseline, values={LLM: 8.0})
    table.add(table.candidate, values={LLM: None})
    table.add(table.candidate)

    matched = table.matched()

    assert statuses(matched.candidate) == [RunStatus.NOT_JUDGED, RunStatus.NOT_JUDGED]


def test_scenario_with_another_digest_is_another_scenario() -> None:
    table = Table()
    table.add(table.baseline, values={LLM: 8.0}, digest="sha256:old")
    table.add(table.candidate, values={NEW_LLM: 9.0}, digest="sha256:new")

    matched = table.matched()

    assert statuses(matched.candidate) == [RunStatus.OK]
    assert statuses(matched.baseline) == [RunStatus.OK]


RUNS = st.lists(
    st.tuples(
        st.sampled_from(["one", "two"]),
        st.dictionaries(
            st.sampled_from([CHECK, LLM, NEW_LLM]), st.none() | st.floats(0, 10), max_size=3
        ),
        st.sampled_from([RunStatus.OK, RunStatus.AGENT_ERROR, RunStatus.UNMEASURED]),
    ),
    max_size=8,
)


@given(RUNS, RUNS)
def test_matched_scores_do_not_depend_on_the_order_of_runs(
    baseline: list[tuple[str, Values, RunStatus]],
    candidate: list[tuple[str, Values, RunStatus]],
) -> None:
    table = Table()
    for side, runs in ((table.baseline, baseline), (table.candidate, candidate)):
        for scenario, found, status in runs:
            table.add(side, scenario, found, status=status)
    ordered = table.matched()
    table.baseline.reverse()
    table.candidate.reverse()
    table.values = {run_id: dict(reversed(list(v.items()))) for run_id, v in table.values.items()}

    shuffled = table.matched()

    assert _bag(shuffled.baseline) == _bag(ordered.baseline)
    assert _bag(shuffled.candidate) == _bag(ordered.candidate)
    assert shuffled.judge_changed == ordered.judge_changed


def _bag(scores: list[RunScore]) -> list[tuple[str, str, str, str]]:
    return sorted((s.scenario or "", s.digest, str(s.value), s.status.value) for s in scores)
