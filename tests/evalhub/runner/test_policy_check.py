"""`evalhub policy check`: a policy in words, what it sees, and where it contradicts itself."""

import json
from math import sqrt
from pathlib import Path
from typing import Any

import pytest
from pytest_django.live_server_helper import LiveServer

from evalhub.protocol.policy import Policy
from evalhub.runner import cli, policy_words, visibility
from evalhub.runner.document_lines import Lines
from evalhub.runner.documents import Loaded
from evalhub.runner.visibility import Noise
from evalhub.stats.power import mde_paired_exact
from gates.checks import tasks as _  # noqa: F401 - registers what a seal asks for
from tests.evalhub.runner.documents import make_policy, make_scenario, make_suite, written
from tests.gates.factories import (
    make_baseline,
    make_conclusion,
    make_gated_project,
    steady,
    verdict,
)
from tests.lanes.factories import make_token

MEAN: dict[str, Any] = {
    "kind": "continuous",
    "direction": "higher_is_better",
    "scale": [0, 10],
    "min_effect": 0.5,
    "gate": "block",
    "stages": ["llm"],
}
TAIL: dict[str, Any] = {"kind": "tail", "gate": "block", "from": "result"}


def suite_of(count: int, *, categories: int = 1) -> Any:
    return make_suite(
        *(make_scenario(f"s{n}", category=f"c{n % categories}") for n in range(count))
    )


def seen(policy: Loaded[Policy], count: int, **arguments: Any) -> visibility.Visible:
    arguments = {"epochs": 1, "noise": {}, **arguments}
    return visibility.visible(policy.model, suite_of(count).model, **arguments)[0]


def smallest(policy: Loaded[Policy], count: int, **arguments: Any) -> float:
    """Return the smallest visible drop, which there must be."""
    told = seen(policy, count, **arguments).smallest
    assert told is not None
    return told


def doubted(**fields: Any) -> dict[str, str]:
    policy = make_policy(**fields)
    return {d.pointer: d.sentence for d in policy_words.doubts(policy.model, policy.document)}


# What is visible


def test_assumed_noise_sees_what_the_exact_power_says() -> None:
    row = seen(make_policy(rubrics={"score": MEAN}), 40)

    # A fifth of the scale, half of its variance between scenarios: 2 runs differ by sd 2·√(2·½).
    assert row.smallest == pytest.approx(mde_paired_exact(n=40, sd=2.0), rel=0.02)
    assert row.measured_plans == 0


def test_scenarios_that_are_said_to_be_needed_would_do() -> None:
    policy = make_policy(rubrics={"score": MEAN})
    row = seen(policy, 40)

    assert row.needed is not None
    assert smallest(policy, 40) > 0.5
    assert smallest(policy, row.needed) == pytest.approx(0.5, rel=0.03)


def test_more_epochs_more_scenarios_and_fewer_rubrics_see_more() -> None:
    alone = make_policy(rubrics={"score": MEAN})
    among = make_policy(rubrics={f"score{n}": MEAN for n in range(5)})
    uncorrected = make_policy(rubrics={f"score{n}": MEAN for n in range(5)}, multiplicity="none")
    unpaired = make_policy(rubrics={"score": MEAN}, design="unpaired")
    base = smallest(alone, 40)

    assert smallest(alone, 40, epochs=4) == pytest.approx(base / 2)
    assert smallest(alone, 160) < base / 1.9
    assert smallest(among, 40) > base
    assert smallest(uncorrected, 40) == base
    assert smallest(unpaired, 40) > base


def test_measured_noise_wins_over_what_is_assumed() -> None:
    row = seen(make_policy(rubrics={"score": MEAN}), 100, noise={"score": Noise(8.0, 3)})

    assert row.smallest == pytest.approx(0.8)
    assert (row.measured_plans, row.needed) == (3, 256)


def test_without_a_scale_nothing_is_made_up() -> None:
    policy = make_policy(rubrics={"score": {**MEAN, "scale": None}})
    row = seen(policy, 40)

    assert (row.smallest, row.needed) == (None, None)
    assert "cannot be told" in policy_words.visible_words(row, policy.model.rubrics["score"])


def test_tail_with_fewer_than_twenty_runs_is_not_tested() -> None:
    policy = make_policy(rubrics={"latency": TAIL})
    few, enough = seen(policy, 9, epochs=2), seen(policy, 10, epochs=2)

    assert visibility.tails_too_few([few, enough], policy.model) == [few]
    assert few.needed == 10
    assert "NOT TESTED" in policy_words.visible_words(few, policy.model.rubrics["latency"])


def test_categories_are_told_apart_where_they_gate() -> None:
    rubric = {**MEAN, "category_min_effect": 2.0}
    policy = make_policy(rubrics={"score": rubric}, gate_by="category").model
    rows = visibility.visible(policy, suite_of(40, categories=2).model, epochs=1, noise={})

    assert [(row.category, row.scenarios, row.floor) for row in rows] == [
        (None, 40, 0.5),
        ("c0", 20, 2.0),
        ("c1", 20, 2.0),
    ]


@pytest.mark.django_db
def test_noise_is_read_from_real_verdicts() -> None:
    project = make_gated_project()
    make_baseline(project)
    conclusion = make_conclusion(project, steady("candidate"))
    told = verdict(conclusion, rubric="correctness", comparison="history")

    noise = visibility.measured_noise([conclusion.content])["correctness"]

    n = told["n"]["pairs"]
    assert n > 0
    assert noise.per_scenario == pytest.approx(told["mde"] * sqrt(n))
    assert noise.plans == 1
    assert visibility.measured_noise([]) == {}


# Contradictions


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"rubrics": {"score": {**MEAN, "gate": "warn"}}}, "/rubrics"),
        ({"waivers": {"allowed": False, "max_days": 3}}, "/waivers/max_days"),
        ({"max_missing": 1}, "/max_missing"),
        ({"inconclusive": {"merge_group": "neutral"}}, "/inconclusive/merge_group"),
        ({"rubrics": {"s": {**MEAN, "min_effect": 10}}}, "/rubrics/s/min_effect"),
        ({"rubrics": {"s": {**MEAN, "abs_floor": 11}}}, "/rubrics/s/abs_floor"),
        ({"rubrics": {"s": {**MEAN, "ni_margin": 0.6}}}, "/rubrics/s/ni_margin"),
        ({"rubrics": {"s": {**MEAN, "scale": None}}}, "/rubrics/s/scale"),
        ({"rubrics": {"s": {**MEAN, "ceiling": 5}}}, "/rubrics/s/ceiling"),
        ({"rubrics": {"s": {**MEAN, "category_min_effect": 1}}}, "/rubrics/s/category_min_effect"),
        ({"rubrics": {"s": {**MEAN, "stages": ["human"]}}}, "/rubrics/s/stages"),
        ({"rubrics": {"t": {**TAIL, "min_effect": 1}}}, "/rubrics/t/min_effect"),
        (
            {
                "rubrics": {
                    "s": MEAN,
                    "t": {**TAIL, "gate": "warn", "require": "non_inferiority"},
                }
            },
            "/rubrics/t/require",
        ),
        (
            {"rubrics": {"s": MEAN, "t": {**TAIL, "gate": "warn", "fault_gate": "block"}}},
            "/rubrics/t/fault_gate",
        ),
    ],
)
def test_contradiction_is_named(fields: Any, pointer: str) -> None:
    assert list(doubted(**fields)) == [pointer]


def test_sound_policy_raises_no_doubt() -> None:
    assert doubted(rubrics={"score": MEAN, "latency": TAIL}) == {}


# The command


def test_it_explains_each_rubric(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rubrics = {"score": MEAN, "resolved": {**MEAN, "kind": "binary", "min_effect": 0.1}}
    policy = written(tmp_path, make_policy(rubrics=rubrics, alpha=0.04).document, "policy.json")
    suite = written(tmp_path, suite_of(40).document, "suite.json")

    assert cli.main(["policy", "check", str(policy), "--suite", str(suite)]) == 0

    told = capsys.readouterr().out
    assert "score (continuous) BLOCKS." in told
    assert "A drop of 0.5 or more" in told
    assert "over all 2 blocking rubrics" in told
    assert "tested at 2.00%" in told
    assert "40 scenarios, 40 runs" in told
    assert "Noise of resolved, score: ASSUMED" in told


def test_it_answers_with_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = written(tmp_path, make_policy(rubrics={"t": TAIL}).document, "policy.json")
    suite = written(tmp_path, suite_of(3).document, "suite.json")

    flags = ["--suite", str(suite), "--epochs", "2", "--json"]
    assert cli.main(["policy", "check", str(policy), *flags]) == 0

    told = json.loads(capsys.readouterr().out)
    assert told["rubrics"][0]["visible"][0]["runs"] == 6
    assert told["suite"]["scenarios"] == 3
    assert [doubt["field"] for doubt in told["doubts"]] == ["/rubrics/t"]


def test_noise_is_asked_for_with_a_suite(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = written(tmp_path, make_policy().document, "policy.json")

    assert cli.main(["policy", "check", str(policy), "--project", "acme/agent"]) == 2
    assert "--suite was absent" in capsys.readouterr().err


def test_faults_name_line_and_field(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "schema: evalhub.policy/1\nrubrics:\n  score:\n    kind: continuous\n    gate: stop\n"
        "alpha: 2\nwaiver: {}\n"
    )

    assert cli.main(["policy", "check", str(policy)]) == 2

    told = capsys.readouterr().err
    assert "line 5: /rubrics/score/gate was" in told
    assert "line 6: /alpha was 2" in told
    assert "line 7: /waiver was" in told


@pytest.mark.parametrize(
    ("pointer", "line"), [("", 1), ("/a", 1), ("/b/0/c", 3), ("/b/1/x~1y", 4), ("/b/9", 2)]
)
def test_lines_of_fields(pointer: str, line: int) -> None:
    assert Lines("a: 1\nb:\n  - c: 2\n  - x/y: 3\n").of(pointer) == line


def test_text_that_is_no_yaml_has_no_lines() -> None:
    assert Lines("a: [").of("/a") is None


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_it_asks_the_store_for_the_noise(
    live_server: LiveServer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    project = make_gated_project()
    make_baseline(project)
    conclusion = make_conclusion(project, steady("candidate"))
    policy = written(tmp_path, json.loads(conclusion.plan.policy.document), "policy.json")
    suite = written(tmp_path, suite_of(40).document, "suite.json")
    monkeypatch.setenv("EVALHUB_URL", live_server.url)
    monkeypatch.setenv("EVALHUB_TOKEN", make_token(project).secret)
    flags = ["--suite", str(suite), "--project", project.name]

    got = tmp_path / "got.json"
    assert cli.main(["policy", "get", "--project", project.name, "--out", str(got)]) == 0
    assert json.loads(got.read_text()) == json.loads(policy.read_text())
    capsys.readouterr()
    assert cli.main(["policy", "check", str(policy), *flags]) == 0
    assert "measured over 1 plan." in capsys.readouterr().out
    monkeypatch.setenv("EVALHUB_URL", "http://127.0.0.1:9")
    assert cli.main(["policy", "check", str(policy), *flags]) == 4
