"""A conclusion is told in the order in which a reader needs it."""

from typing import Any

import pytest

from evalhub.stats.reasons import ABSOLUTE_REASONS, EVIDENCE_REASONS, POWER_REASONS, Reason
from gates.overview import presentation
from gates.verdicts.queries.findings import Code, Effect

Json = dict[str, Any]


def verdict(rubric: str = "resolved", word: str = "PASS", **fields: Any) -> Json:
    return {
        "rubric": rubric,
        "category": None,
        "arm": "candidate",
        "comparison": "history",
        "verdict": word,
        "delta": -0.2,
        "ci95": [-0.3, -0.1],
        "floor": 0.1,
        "n": {"b": 8, "c": 9, "pairs": 7},
        "reasons": [],
        "gates": True,
        **fields,
    }


def test_verdicts_that_gate_come_first_and_worst_first() -> None:
    rows = [
        verdict("a", "PASS"),
        verdict("b", "REGRESSION", gates=False),
        verdict("c", "INCONCLUSIVE"),
        verdict("d", "REGRESSION"),
    ]

    told = presentation.verdicts({"verdicts": rows})

    assert [row.verdict["rubric"] for row in told.overall] == ["d", "c", "a", "b"]


def test_categories_are_apart_and_plotted_only_where_they_changed() -> None:
    rows = [
        verdict(),
        verdict(category="refunds", word="REGRESSION", gates=False),
        verdict(category="orders", word="PASS", gates=False),
    ]

    told = presentation.verdicts({"verdicts": rows})

    assert len(told.overall) == 1
    assert told.category_counts == {"REGRESSION": 1, "PASS": 1}
    assert told.figure is not None
    assert told.figure["layout"]["yaxis"]["ticktext"] == ["resolved in refunds", "resolved"]


@pytest.mark.parametrize("missing", [{"delta": None}, {"floor": None}])
def test_verdict_without_an_effect_has_no_picture(missing: Json) -> None:
    told = presentation.verdicts({"verdicts": [verdict(**missing)]})

    assert told.figure is None
    assert told.overall[0].bar is None


def test_interval_with_an_open_end_is_no_interval() -> None:
    told = presentation.verdicts({"verdicts": [verdict(ci95=[None, 0.1])]})

    assert told.overall[0].interval is None
    assert told.overall[0].bar is not None
    assert not told.overall[0].bar.has_interval


def test_counts_name_pairs_or_both_arms() -> None:
    paired, unpaired = verdict(), verdict(n={"b": 8, "c": 9, "pairs": 0})

    told = presentation.verdicts({"verdicts": [paired, unpaired]})

    assert {row.n for row in told.overall} == {"7 pairs", "8 and 9"}


def test_label_names_only_what_is_unusual() -> None:
    assert presentation.row_label(verdict()) == "resolved"
    assert (
        presentation.row_label(
            verdict(category="refunds", arm="candidate+faults", comparison="fault")
        )
        == "resolved in refunds, candidate+faults, fault"
    )


def test_success_needs_no_step() -> None:
    content = {"conclusion": "success", "findings": [{"code": "missing", "effect": "note"}]}

    assert presentation.next_steps(content) == []


def test_steps_follow_findings_then_regressions_then_reasons_each_once() -> None:
    content = {
        "conclusion": "failure",
        "findings": [
            {"code": "missing", "effect": "failure"},
            {"code": "duplicate", "effect": "note"},
        ],
        "verdicts": [
            verdict(word="REGRESSION"),
            verdict("b", "INCONCLUSIVE", reasons=["UNDERPOWERED", "BATCH_UNKNOWN"]),
            verdict("c", "INCONCLUSIVE", reasons=["UNDERPOWERED"]),
            verdict("d", "INCONCLUSIVE", reasons=["TAIL_N"], gates=False),
        ],
    }

    steps = presentation.next_steps(content)

    assert [step.split(":")[0] for step in steps] == [
        "Run the lanes with missing evidence again",
        "Read the failed runs below, those that the baseline passed first.",
        "Add scenarios or epochs",
    ]


@pytest.mark.parametrize(
    "reason",
    sorted(EVIDENCE_REASONS | POWER_REASONS | ABSOLUTE_REASONS),
)
def test_every_reason_that_stops_a_plan_says_what_to_do(reason: Reason) -> None:
    row = verdict(word="INCONCLUSIVE", reasons=[reason.value])

    assert presentation.next_steps({"conclusion": "action_required", "verdicts": [row]})


NOTES = {
    Code.DUPLICATE,
    Code.UNEXPECTED,
    Code.STALE,
    Code.MALFORMED,
    Code.INCOMPATIBLE,
    Code.REPLACED,
    Code.REMEASURED,
    Code.UNSCORED,
    Code.SUITE_GREW,
    Code.SPEND_CONFLICT,
    Code.UNKNOWN_COST,
}


@pytest.mark.parametrize("code", sorted(set(Code) - NOTES))
def test_every_finding_that_stops_a_plan_says_what_to_do(code: Code) -> None:
    finding = {"code": code.value, "effect": Effect.FAILURE.value}

    assert presentation.next_steps({"conclusion": "failure", "findings": [finding]})
