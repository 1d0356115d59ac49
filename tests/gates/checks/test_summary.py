"""What a check tells whoever was stopped by it, and that nothing from outside breaks it."""

from typing import Any

import pytest
from markdown_it import MarkdownIt

from gates.checks.operations.summary import Concluded, Output, concluded_output
from gates.decisions.models import Conclusion
from lanes.plans.models import Plan
from tests.gates.checks.factories import VERDICT, conclusion_content
from tests.gates.checks.test_markdown import HOSTILE

GITHUB = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])


def _output(conclusion: str = "failure", **fields: Any) -> Output:
    """Return what a check of one plan says; nothing of it needs a database."""
    plan = Plan(digest=f"sha256:{'0' * 64}", generation=1)
    content = conclusion_content(plan, conclusion=conclusion, **fields)
    row = Conclusion(plan=plan, conclusion=conclusion, title=content["title"], content=content)
    return concluded_output([Concluded(plan, row)])


def test_verdict_is_told_in_words_with_its_interval() -> None:
    summary = _output().summary

    (row,) = [line for line in summary.splitlines() if line.startswith("| `resolved`")]
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells == [
        "`resolved`, `candidate`",
        "the adopted baseline",
        "REGRESSION",
        "0.91",
        "0.77",
        "worse by 0.14",
        "-0.21 to -0.08",
        "26 pairs",
        "",
    ]
    assert "- resolved is worse by 0.14" in summary


def test_unknown_numbers_are_not_shown_as_zero() -> None:
    unknown = {"delta": None, "ci95": None, "mean_b": None, "mean_c": None}
    verdict = {
        **VERDICT,
        **unknown,
        "verdict": "INCONCLUSIVE",
        "confirmed": False,
        "n": {"b": 0, "c": 26, "pairs": 0},
        "reasons": ["NO_BASELINE"],
    }

    summary = _output("action_required", verdicts=[verdict], spend_microusd=None).summary

    assert "INCONCLUSIVE | – | – | – | – | 0 and 26 | `NO_BASELINE` |" in summary
    assert "What the judges cost is not known." in summary


@pytest.mark.parametrize(
    ("delta", "words"), [(-0.14, "worse by 0.14"), (0.14, "better by 0.14"), (0.0, "none")]
)
def test_change_is_told_as_better_or_worse(delta: float, words: str) -> None:
    assert f"| {words} |" in _output(verdicts=[{**VERDICT, "delta": delta}]).summary


def test_unconfirmed_and_shown_only_are_said() -> None:
    summary = _output(
        verdicts=[{**VERDICT, "confirmed": False}, {**VERDICT, "gates": False}]
    ).summary

    assert "REGRESSION (not confirmed)" in summary
    assert "REGRESSION (shown only)" in summary


def test_spend_with_calls_of_unknown_cost_is_a_lower_bound() -> None:
    summary = _output(spend_microusd=2_500_000, unknown_cost_calls=3).summary

    assert "cost at least 2.50 US dollars; of 3 calls the cost is not known" in summary


def test_coverage_and_isolation_are_told() -> None:
    offence = {"lanes": ["ordinary-1", "ordinary-2"], "detail": "share a world"}
    claim = {"resource": "world", "claim": "exclusive", "state": "violated", "offences": [offence]}

    summary = _output(isolation=[claim]).summary

    assert "| `ordinary-1` | 3 | 3 | 0 | 0 | 0 | sealed |" in summary
    assert "- proven" not in summary
    assert "- violated: `world`: `ordinary-1` and `ordinary-2` share a world" in summary


def test_findings_name_what_they_are_about_in_the_details() -> None:
    finding = {
        "class": "evidence",
        "code": "missing",
        "effect": "failure",
        "subjects": [f"refund-{i}/candidate/1" for i in range(60)],
        "detail": "Evidence is missing.",
    }

    text = _output(findings=[finding]).text

    assert "- `missing`: Evidence is missing. `refund-0/candidate/1`" in text
    assert text.rstrip().endswith("and 10 more")


def test_categories_are_told_in_the_details() -> None:
    said = _output(verdicts=[{**VERDICT, "category": "refunds"}])

    assert "`resolved` in `refunds`, `candidate`" in said.text
    assert "refunds" not in said.summary


@pytest.mark.parametrize("hostile", [text for text in HOSTILE if text])
def test_hostile_names_change_nothing_of_the_structure(hostile: str) -> None:
    def rendered(name: str) -> list[str]:
        finding = {
            "class": "evidence",
            "code": "missing",
            "effect": "failure",
            "subjects": [name, name],
            "detail": name,
        }
        offence = {"lanes": [name], "detail": name}
        said = _output(
            sentences=[name, "end"],
            findings=[finding],
            verdicts=[{**VERDICT, "category": name}, {**VERDICT, "reasons": [name]}],
            isolation=[{"resource": "w", "claim": "c", "state": "violated", "offences": [offence]}],
            advisory=[{"sentence": name}],
        )
        tokens = [*GITHUB.parse(said.summary), *GITHUB.parse(said.text)]
        flat = [inner for token in tokens for inner in (token, *(token.children or []))]
        # Text and code differ by what is in them; links are the two to the plan's own page.
        return [t.tag or t.type for t in flat if t.type not in {"text", "code_inline"}]

    assert rendered(hostile) == rendered("harmless")
