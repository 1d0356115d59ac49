"""tau-bench's result files: what becomes of each field, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from evalhub.protocol.faults import parse_document
from evalhub.protocol.records import Result, Turn
from evalhub.protocol.suite import Suite
from evalhub.runner.documents import as_document
from evalhub.runner.errors import InputError
from evalhub.runner.importers.records import ImportedResults, SourceFile
from evalhub.runner.importers.results import read_inputs
from evalhub.runner.importers.tau_bench import read_results

SAMPLES = Path(__file__).parents[5] / "shared" / "samples" / "tau_bench"
TASK = {"user_id": "mia", "actions": [], "instruction": "Book a flight.", "outputs": []}


def make_record(task_id: int = 0, **fields: Any) -> dict[str, Any]:
    defaults = {
        "task_id": task_id,
        "reward": 1.0,
        "info": {"task": {**TASK, "user_id": f"u{task_id}"}, "user_cost": 0.00354},
        "traj": [
            {"role": "system", "content": "# Airline Agent Policy\n\nBe kind."},
            {"role": "user", "content": "Hi!"},
        ],
        "trial": 0,
    }
    return {**defaults, **fields}


def read(*documents: Any) -> ImportedResults:
    files = [
        SourceFile(Path(f"file{i}.json"), json.dumps(document).encode())
        for i, document in enumerate(documents)
    ]
    return read_results(files)


def scenario_digests(results: ImportedResults) -> dict[str, str]:
    suite = as_document(results.suite, Suite, what="suite").model
    return {scenario.id: scenario.digest for scenario in suite.scenarios}


def test_messages_become_turns_as_they_stand() -> None:
    arguments = '{"user_id":"mia", "big": 12345678901234567890, "x": NaN}'
    call = {
        "id": "call_1",
        "type": "function",
        "function": {"name": "find", "arguments": arguments},
    }
    second = {"id": "call_2", "function": {"name": "other", "arguments": {"q": "ü"}}}
    traj = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "name": "find", "content": '{"n": NaN}'},
        {"role": "assistant", "content": "Both.", "tool_calls": [call, second]},
        {"role": "user", "content": ""},
    ]

    (run,) = read([make_record(traj=traj)]).runs

    assert run.turns == [
        {
            "turn": 1,
            "role": "assistant",
            "kind": "tool_call",
            "text": None,
            "tool": {"name": "find", "call_id": "call_1", "arguments": arguments},
        },
        {
            "turn": 2,
            "role": "tool",
            "kind": "tool_result",
            "text": '{"n": NaN}',
            "tool": {"name": "find", "call_id": "call_1"},
        },
        {"turn": 3, "role": "assistant", "kind": "message", "text": "Both."},
        {**run.turns[0], "turn": 4},
        {
            "turn": 5,
            "role": "assistant",
            "kind": "tool_call",
            "text": None,
            "tool": {"name": "other", "call_id": "call_2", "arguments": '{"q": "ü"}'},
        },
        {"turn": 6, "role": "user", "kind": "message", "text": ""},
    ]
    for turn in run.turns:
        parse_document(Turn, json.dumps(turn))


@pytest.mark.parametrize(("reward", "outcome"), [(1.0, "passed"), (1, "passed"), (0.0, "failed")])
def test_reward_becomes_outcome_and_scores(reward: float, outcome: str) -> None:
    (run,) = read([make_record(reward=reward)]).runs

    result = parse_document(Result, json.dumps(run.result))
    assert result.outcome == outcome
    assert result.scores == {
        "resolved": float(outcome == "passed"),
        "reward": reward,
        "turns": 2.0,
        "tool_calls": 0.0,
    }
    (usage,) = result.usage
    assert (usage.role, usage.cost_microusd, usage.cost_source) == ("user", 3540, "price_table")
    assert (result.started_at, result.duration_ms) == (None, None)


def test_an_error_of_the_harness_is_not_a_failure_of_the_agent() -> None:
    sound = make_record(trial=0)
    broken = make_record(trial=1, reward=0.0, info={"error": "RateLimitError", "traceback": "…"})

    runs = read([sound, {**broken, "traj": []}]).runs

    result = parse_document(Result, json.dumps(runs[1].result))
    assert (result.outcome, result.scores) == ("infra_error", {})
    assert result.error is not None
    assert result.error.message == "RateLimitError"


def test_digests_cover_the_task_and_never_the_results() -> None:
    passed = scenario_digests(read([make_record(reward=1.0)]))
    failed = scenario_digests(read([make_record(reward=0.0, traj=[], trial=3)]))
    other = scenario_digests(read([make_record(info={"task": {**TASK, "instruction": "Other."}})]))

    assert passed == failed
    assert passed != other


def test_trials_of_a_task_are_its_epochs() -> None:
    results = read([make_record(1, trial=2), make_record(0)], [make_record(1, trial=0)])

    assert [(r.scenario, r.epoch, r.result["extra"]["trial"]) for r in results.runs] == [
        ("task-0", 1, 0),
        ("task-1", 1, 0),
        ("task-1", 2, 2),
    ]


def test_the_system_message_names_the_domain() -> None:
    results = read([make_record()])

    assert results.suite["name"] == "tau-bench-airline"
    assert {s["category"] for s in results.suite["scenarios"]} == {"airline"}
    assert read([make_record(traj=[])]).suite["name"] == "tau-bench-unknown"


def test_a_single_run_is_taken_without_a_list() -> None:
    assert len(read(make_record()).runs) == 1


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"[]", "is no result file of tau-bench"),
        (b"{}", "/0/task_id was absent"),
        (b'[{"a": 1}\n{"b": 2}]', "not JSON"),
        (json.dumps([make_record(reward="1")]).encode(), '/0/reward was "1"; expected'),
        (json.dumps([make_record(reward=float("nan"))]).encode(), "/0/reward was NaN"),
        (json.dumps([make_record(traj=[{"content": "x"}])]).encode(), "/0/traj/0/role was absent"),
        (json.dumps([make_record(traj=[{"role": "boss"}])]).encode(), "role 'boss'; expected"),
        (json.dumps([make_record(info={"error": "x"})]).encode(), "Task 0 has no `info.task`"),
        (json.dumps([make_record(info={"task": {"n": 2**60}})]).encode(), "has no digest"),
    ],
)
def test_other_files_are_refused_in_a_sentence(content: bytes, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence) as caught:
        read_results([SourceFile(Path("results.json"), content)])

    assert "\n" not in str(caught.value)


def test_two_versions_of_a_task_are_refused() -> None:
    other = make_record(info={"task": {**TASK, "instruction": "Changed."}})

    with pytest.raises(InputError, match="Task 0 is defined in two ways"):
        read([make_record()], [other])


def test_one_file_given_twice_is_refused(tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text("[]")

    with pytest.raises(InputError, match="have the same bytes"):
        read_inputs([tmp_path / "a.json", tmp_path / "b.json"])


def test_the_order_of_files_does_not_change_their_digest(tmp_path: Path) -> None:
    paths = [tmp_path / "a.json", tmp_path / "b.json"]
    for path in paths:
        path.write_text(path.name)

    assert read_inputs(paths).digest == read_inputs(paths[::-1]).digest


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="needs the folder of real tau-bench files")
def test_real_files_lose_no_message() -> None:
    path = SAMPLES / "gpt-4o-airline.trial0.json"
    records = json.loads(path.read_text())

    results = read_results([SourceFile(path, path.read_bytes())])

    assert len(results.runs) == 50
    for run in results.runs:
        record = next(r for r in records if f"task-{r['task_id']}" == run.scenario)
        texts = [t["text"] for t in run.turns if t["text"] is not None]
        assert texts == [m["content"] for m in record["traj"] if m["content"] is not None]
        calls = [t["tool"]["arguments"] for t in run.turns if t["kind"] == "tool_call"]
        assert calls == [
            c["function"]["arguments"] for m in record["traj"] for c in m.get("tool_calls") or []
        ]
        assert run.result["scores"]["reward"] == record["reward"]
