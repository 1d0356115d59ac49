"""`plan build --from-results` and `push --from`: imported runs as evidence of a lane."""

import json
from pathlib import Path
from typing import Any

import pytest

from evalhub.runner import cli
from evalhub.runner.errors import Exit
from tests.evalhub.runner.importers.test_tau_bench import make_record
from tests.evalhub.runner.loopback import RUN_TOKEN, LoopbackStore

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(
    store: LoopbackStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EVALHUB_URL", store.url)
    monkeypatch.setenv("EVALHUB_TOKEN", RUN_TOKEN)


def write_results(*records: dict[str, Any], name: str = "results.json") -> str:
    Path(name).write_text(json.dumps(records))
    return name


def build(*files: str, flags: tuple[str, ...] = ()) -> int:
    outputs = ["--out", "plan.json", "--suite-out", "suite.json", "--policy-out", "policy.json"]
    return cli.main(
        ["plan", "build", "--project", "acme/x", "--from-results", *files, *outputs, *flags]
    )


def push(*files: str) -> int:
    return cli.main(["push", "--from", "tau-bench", *files, "--plan", "plan.json", "--wait", "5"])


def test_results_become_a_plan_and_its_evidence(store: LoopbackStore) -> None:
    results = write_results(make_record(0), make_record(1, reward=0.0))

    assert (build(results), push(results)) == (Exit.GOOD, Exit.GOOD)

    plan = json.loads(Path("plan.json").read_text())
    items = store.items()
    assert plan["source"] == {
        "event": "import",
        "input_digest": plan["source"]["input_digest"],
    }
    assert plan["lanes"][0]["expects"] == {"run": ["result", "transcript"], "lane": []}
    assert sorted(items) == [
        "lane/redactions.json",
        *(
            f"runs/task-{task}/candidate/1/{name}"
            for task in (0, 1)
            for name in ("files/task%2Ejson", "result.json", "transcript.1.ndjson")
        ),
    ]
    result = json.loads(items["runs/task-1/candidate/1/result.json"])
    assert (result["outcome"], result["transcript_parts"]) == ("failed", 1)
    assert "started_at" not in result
    assert [header["class"] for header in store.headers()] == ["record", "bulk", "record"]


def test_two_result_files_are_two_plans_of_one_suite() -> None:
    plans = []
    for reward in (1.0, 0.0):
        assert build(write_results(make_record(reward=reward))) == 0
        plans.append(json.loads(Path("plan.json").read_text()))

    assert plans[0]["source"]["input_digest"] != plans[1]["source"]["input_digest"]
    assert plans[0]["suite"] == plans[1]["suite"]


def test_a_scenario_with_fewer_trials_is_planned_in_full(store: LoopbackStore) -> None:
    results = write_results(make_record(0), make_record(0, trial=1), make_record(1))
    store.missing = ["runs/task-1/candidate/2/result.json"]

    assert build(results) == 0
    runs = json.loads(Path("plan.json").read_text())["lanes"][0]["runs"]
    assert ["task-1", "candidate", 2] in runs
    assert push(results) == Exit.GATE_FAILED


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--arm", "a=b:c", "--arm", "d=e:f"), "--arm was given more than once"),
        (("--rubric", "turns"), "blocking_rubric_left_out"),
        (("--tier", "unreal"), "invalid choice: 'unreal'"),
    ],
)
def test_build_from_results_refuses_in_a_sentence(
    capsys: pytest.CaptureFixture[str], flags: tuple[str, ...], sentence: str
) -> None:
    results = write_results(make_record())

    try:
        code = build(results, flags=flags)
    except SystemExit as end:
        code = int(end.code or 0)

    assert code == Exit.WRONG_INPUT
    assert sentence in capsys.readouterr().err


def test_build_from_results_needs_a_policy(capsys: pytest.CaptureFixture[str]) -> None:
    results = write_results(make_record())

    flags = ["--from-results", results, "--out", "plan.json"]
    assert cli.main(["plan", "build", "--project", "acme/x", *flags]) == Exit.WRONG_INPUT

    assert "--policy was absent" in capsys.readouterr().err


def test_build_says_which_rubric_the_results_do_not_score(
    capsys: pytest.CaptureFixture[str],
) -> None:
    results = write_results(make_record())
    assert build(results) == 0
    policy = json.loads(Path("policy.json").read_text())
    policy["rubrics"]["latency_s"] = {"kind": "tail", "gate": "warn", "from": "result"}
    Path("other.json").write_text(json.dumps(policy))

    flags = ["--from-results", results, "--out", "plan.json", "--policy", "other.json"]
    assert cli.main(["plan", "build", "--project", "acme/x", *flags]) == Exit.GOOD

    assert "Rubric latency_s has no value in these results" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"reward": 0.0}, "expected the files that the plan was built from"),
        ({"task_id": 7}, "expected the files that the plan was built from"),
    ],
)
def test_push_takes_only_the_files_of_the_plan(
    store: LoopbackStore,
    capsys: pytest.CaptureFixture[str],
    change: dict[str, Any],
    sentence: str,
) -> None:
    assert build(write_results(make_record())) == 0
    other = write_results({**make_record(), **change}, name="other.json")

    assert push(other) == Exit.WRONG_INPUT

    assert sentence in capsys.readouterr().err
    assert store.requests["attempts"] == 0


def test_push_names_a_lane_that_is_not_in_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    results = write_results(make_record())
    assert build(results) == 0

    code = cli.main(["push", "--from", "tau-bench", results, "--plan", "plan.json", "--lane", "x"])

    assert code == Exit.WRONG_INPUT
    assert "--lane was x; expected one of the plan's lanes: ordinary-1" in capsys.readouterr().err


def test_push_goes_on_after_the_store_was_away(store: LoopbackStore) -> None:
    results = write_results(make_record())
    assert build(results) == 0
    store.troubled("segment", *["503"] * 100)
    cli.main(["push", "--from", "tau-bench", results, "--plan", "plan.json", "--wait", "1"])
    assert store.segments == {}
    store.troubled("segment")

    assert cli.main(["push", ".evalhub/spool", "--wait", "5"]) == Exit.GOOD

    assert len(store.items()) == 4
