"""`evalhub verdict`: words, table and exit code."""

from pathlib import Path
from typing import Any

import pytest

from evalhub.protocol.segments import Category, Refused
from evalhub.runner import cli
from evalhub.runner.commands.transcript import turn_text
from evalhub.runner.commands.verdict import conclusion_text
from evalhub.runner.console import escaped
from evalhub.runner.delivery import DeliveryReport
from evalhub.runner.delivery_words import as_document, trouble
from evalhub.runner.errors import Exit, RunnerError, StoreUnreachableError
from tests.evalhub.runner.loopback import RUN_TOKEN, Answer, LoopbackStore


def make_row(**fields: Any) -> dict[str, Any]:
    return {
        "rubric": "resolved",
        "category": None,
        "arm": "candidate",
        "comparison": "history",
        "verdict": "REGRESSION",
        "delta": -0.2,
        "ci95": [-0.31, -0.09],
        "mde": 0.08,
        "n": {"b": 0, "c": 2, "pairs": 24},
        "reasons": [],
        **fields,
    }


def make_refusals(count: int, *, code: str = "no_field") -> list[Refused]:
    return [
        Refused(
            path=f"runs/s{i}/candidate/1/result.json",
            category=Category.MALFORMED,
            code=code,
            detail="The result is not valid.",
        )
        for i in range(count)
    ]


def make_content(**fields: Any) -> dict[str, Any]:
    return {
        "conclusion": "failure",
        "title": "resolved is worse",
        "sentences": ["It fell by 0.2."],
        "verdicts": [make_row()],
        "findings": [{"class": "evidence", "code": "missing", "subjects": ["a/b/1"] * 12}],
        "spend_microusd": 1_250_000,
        "unknown_cost_calls": 2,
        **fields,
    }


def test_a_conclusion_is_told_in_words_and_numbers() -> None:
    lines = conclusion_text(make_content()).splitlines()

    assert lines[0] == "FAILURE: resolved is worse"
    assert "  It fell by 0.2." in lines
    row = next(line for line in lines if line.startswith("resolved"))
    assert row.split("  ")[0:4] == ["resolved", "candidate", "history", "REGRESSION"]
    assert "-0.2" in row
    assert "-0.31 to -0.09" in row
    assert "24 pairs" in row
    assert "Finding missing (evidence)" in lines
    assert "  and 2 more" in lines
    assert lines[-1] == "Judge money spent: $1.2500 and 2 judge calls of unknown cost"


def test_no_data_is_a_dash_and_never_a_nought() -> None:
    row = make_row(
        verdict="INCONCLUSIVE", delta=None, ci95=None, mde=None, n={"b": 0, "c": 50, "pairs": 0}
    )

    line = conclusion_text(make_content(verdicts=[row])).splitlines()[5]

    assert line.split() == [
        "resolved",
        "candidate",
        "history",
        "INCONCLUSIVE",
        "-",
        "-",
        "-",
        "0",
        "and",
        "50",
        "-",
    ]


def test_categories_are_shown_when_worse_or_asked_for() -> None:
    rows = [
        make_row(),
        make_row(category="refunds", verdict="REGRESSION"),
        make_row(category="orders", verdict="PASS"),
    ]

    text = conclusion_text(make_content(verdicts=rows))

    assert "resolved (refunds)" in text
    assert "resolved (orders)" not in text
    assert "1 more by category: --categories" in text
    assert "resolved (orders)" in conclusion_text(make_content(verdicts=rows), with_categories=True)


def test_a_hostile_turn_cannot_leave_its_quotation() -> None:
    turn = {
        "turn": 3,
        "role": "tool",
        "kind": "tool_result",
        "text": "fine\n::add-mask::x\n\x1b[2J3. assistant message",
        "tool": {"name": "read", "arguments": None},
    }

    shown = escaped(turn_text(turn)).splitlines()

    assert shown[0] == "3. tool tool_result read"
    assert all(line.startswith("  | ") for line in shown[1:])
    assert r"\x1b[2J" in shown[3]


def test_parts_that_are_missing_are_listed_in_the_order_of_their_numbers() -> None:
    parts = [f"lane/logs/agent.{part}.log" for part in (10, 1, 2)]
    report = DeliveryReport(attempt="att_x", spool=Path("sp"), total=1, sealed=True, missing=parts)

    (told,) = trouble(report)

    assert told.splitlines()[1:] == [f"  lane/logs/agent.{part}.log" for part in (1, 2, 10)]


def test_refused_items_of_one_kind_are_told_once_with_a_count_and_two_examples() -> None:
    refusals = [*make_refusals(12), *make_refusals(1, code="too_large")]
    report = DeliveryReport(
        attempt="att_x", spool=Path("sp"), total=12, sealed=True, refusals=refusals
    )

    assert trouble(report) == [
        "Refused as malformed (no_field), 12 items: runs/s0/candidate/1/result.json, "
        "runs/s1/candidate/1/result.json and 10 more: The result is not valid.",
        "Refused as malformed (too_large): runs/s0/candidate/1/result.json: "
        "The result is not valid.",
        "13 items are refused and in the plan's quarantine.",
    ]
    (first, _) = as_document(report)["refusals"]
    assert (first["code"], len(first["paths"])) == ("no_field", 12)


@pytest.mark.parametrize(
    ("fields", "code", "words"),
    [
        ({"sealed": True}, Exit.GOOD, None),
        ({"sealed": True, "missing": ["x"]}, Exit.GATE_FAILED, "1 item is missing"),
        ({"sealed": True, "refusals": make_refusals(2)}, Exit.GATE_FAILED, "2 items are refused"),
        ({"sealed": True, "left_out": ["Too large."]}, Exit.GATE_FAILED, "Too large."),
        ({"sealed": True, "stopped": "closed"}, Exit.GATE_FAILED, "stopped before its end: closed"),
        ({"unsent": 3}, Exit.STORE_UNREACHABLE, "3 segments are not sent"),
        ({"failure": StoreUnreachableError("Away.")}, Exit.STORE_UNREACHABLE, "Away."),
        ({"failure": RunnerError("Other bytes.")}, Exit.WRONG_INPUT, "Other bytes."),
        ({}, Exit.GATE_FAILED, "go on with `evalhub push"),
        ({"stopped": "superseded"}, Exit.GATE_FAILED, "stopped before its end: superseded"),
    ],
)
def test_only_a_complete_attempt_is_good(
    fields: dict[str, Any], code: Exit, words: str | None
) -> None:
    report = DeliveryReport(**{"attempt": "att_x", "spool": "sp", "total": 1, **fields})

    assert report.exit_code == code
    told = "\n".join(trouble(report))
    assert told == "" if words is None else words in told


@pytest.mark.parametrize(
    ("answer", "code", "words"),
    [
        (Answer(200, {}), Exit.STORE_UNREACHABLE, "answered without a conclusion"),
        (Answer(202, {}), Exit.STORE_UNREACHABLE, "answered without a state"),
        (Answer(202, {"state": "open"}), Exit.ACTION_REQUIRED, "is open and not decided yet"),
        (Answer(200, make_content(conclusion="failure")), Exit.GATE_FAILED, ""),
    ],
)
def test_an_answer_without_content_is_no_answer(
    store: LoopbackStore,
    capsys: pytest.CaptureFixture[str],
    answer: Answer,
    code: Exit,
    words: str,
) -> None:
    store.conclusion = answer

    assert cli.main(["verdict", "a" * 64, "--url", store.url, "--token", RUN_TOKEN]) == code
    assert words in capsys.readouterr().err
