import json
import runpy
from pathlib import Path

import pytest

from evalhub.stats import known_answers
from evalhub.stats.answers import FUNCTIONS
from evalhub.stats.known_answers import agrees, main

VECTORS = Path(__file__).resolve().parents[4] / "shared" / "vectors" / "statistics.json"
needs_vectors = pytest.mark.skipif(
    not VECTORS.exists(), reason="The file of known answers is not beside this repository."
)

# Newcombe (1998), Statistics in Medicine 17:857-872, table I, method 3
WILSON = {
    "id": "wilson-20",
    "fn": "wilson",
    "input": {"x": 0, "n": 20, "level": 0.95},
    "expected": {"ci": [0.0, 0.1611]},
    "rtol": 1e-4,
}


def write(path: Path, *cases: object) -> str:
    path.write_text(json.dumps({"meta": {}, "cases": list(cases)}))
    return str(path)


@needs_vectors
def test_all_known_answers_agree(capsys: pytest.CaptureFixture[str]) -> None:
    status = main([str(VECTORS)])

    count = len(json.loads(VECTORS.read_text())["cases"])
    assert capsys.readouterr().out == f"{count} cases, 0 mismatches\n"
    assert status == 0


@needs_vectors
def test_every_corrupted_number_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cases = json.loads(VECTORS.read_text())["cases"]
    corrupted = 0
    for case in cases:
        for field, value in case["expected"].items():
            if isinstance(value, float | int) and not isinstance(value, bool):
                case["expected"][field] = value + 1 + abs(value)
                corrupted += 1

    status = main([write(tmp_path / "corrupted.json", *cases)])

    assert capsys.readouterr().out.endswith(f"{len(cases)} cases, {corrupted} mismatches\n")
    assert status == 1


@needs_vectors
def test_every_function_of_the_file_is_known() -> None:
    cases = json.loads(VECTORS.read_text())["cases"]

    assert {case["fn"] for case in cases} <= set(FUNCTIONS)


def test_agreement_is_silent_but_for_the_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([write(tmp_path / "good.json", WILSON)]) == 0
    assert capsys.readouterr().out == "1 cases, 0 mismatches\n"


def test_the_module_runs_as_a_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["known_answers", write(tmp_path / "good.json", WILSON)])

    with pytest.raises(SystemExit) as ended:
        runpy.run_path(known_answers.__file__, run_name="__main__")

    assert ended.value.code == 0
    assert capsys.readouterr().out == "1 cases, 0 mismatches\n"


def test_a_corrupted_value_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = {**WILSON, "expected": {"ci": [0.0, 0.17]}}

    status = main([write(tmp_path / "wrong.json", wrong)])

    assert status == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("wilson-20 ci: got")
    assert lines[0].endswith("expected [0.0, 0.17]")
    assert lines[-1] == "1 cases, 1 mismatches"


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("text", "case 1 case: got 'text', expected 'an object'"),
        ({**WILSON, "fn": "telepathy"}, "wilson-20 fn: got 'telepathy'"),
        ({**WILSON, "fn": 7}, "wilson-20 fn: got 7"),
        ({**WILSON, "expected": {}}, "wilson-20 expected: got {}"),
        ({**WILSON, "rtol": None}, "wilson-20 rtol: got None"),
        ({**WILSON, "rtol": True}, "wilson-20 rtol: got True"),
        ({**WILSON, "input": []}, "wilson-20 input: got []"),
        ({**WILSON, "input": {"x": 1}}, "no field 'n'"),
        ({**WILSON, "input": {"x": 3, "n": 2, "level": 0.95}}, "ValueError: 3 passes"),
        ({**WILSON, "expected": {"width": 1}}, "wilson-20 width: got nothing, expected 1"),
        ({**WILSON, "expected": {"ci": 10**400}}, "wilson-20 ci"),
    ],
)
def test_a_case_that_cannot_be_checked_is_a_mismatch(
    case: object, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([write(tmp_path / "odd.json", case)]) == 1
    output = capsys.readouterr().out
    assert words in output
    assert output.endswith("1 cases, 1 mismatches\n")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{", "is not JSON"),
        (b"\xff\xfe\x00", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"[]", "has no list"),
        (b'{"cases": []}', "has no list"),
        (b'{"cases": {"a": 1}}', "has no list"),
    ],
)
def test_a_file_of_another_kind_is_one_sentence(
    content: bytes, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "file.json"
    path.write_bytes(content)

    assert main([str(path)]) == 1
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


def test_a_missing_file_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["/nowhere/at/all.json"]) == 1
    assert (
        capsys.readouterr().err
        == "/nowhere/at/all.json cannot be read: No such file or directory.\n"
    )
    assert main([]) == 1
    assert capsys.readouterr().err.startswith("Give one file")


def test_agreement_follows_the_rule_of_the_file() -> None:
    assert agrees(100.0, 100.00001, tolerance=1e-6)
    assert not agrees(0.1, 0.2, tolerance=1e-6)
    assert not agrees(None, 0.0, tolerance=1.0)
    assert not agrees(float("nan"), 0.5, tolerance=1.0)
    assert not agrees(float("nan"), None, tolerance=1.0)
    assert not agrees(0.5, float("inf"), tolerance=1.0)
    assert agrees(None, None, tolerance=0)
    assert agrees((0.0, None), [0.0, None], tolerance=0)
    assert not agrees("ab", ["a", "b"], tolerance=0)
    assert not agrees([1], [1, 2], tolerance=0)
    assert not agrees(got=True, expected=1, tolerance=1.0)
    assert not agrees(got=1, expected=True, tolerance=1.0)
    assert agrees(got=True, expected=True, tolerance=0)
    assert agrees("PASS", "PASS", tolerance=0)


def answer(fn: str, **given: object) -> dict[str, object]:
    return FUNCTIONS[fn](given)


def test_functions_accept_what_other_files_may_hold() -> None:
    paired = answer("paired_t", baseline=[0.1, None, 0.5], candidate=[0.3, 0.2, 0.6])
    assert (paired["n_used"], paired["missing"]) == (2, 1)
    constant = answer("tost_paired", baseline=[0.1, 0.1], candidate=[0.1, 0.1], margin=0.1)
    assert constant == {"p": None, "p_lower": None, "p_upper": None}
    assert answer("welch_summary_of_sample", sample=[1.0, 3.0])["mean"] == 2.0
    with pytest.raises(ValueError, match="not described"):
        answer("welch_summary_of_sample", sample_spec="a few numbers")
    counts = {"pass_counts_baseline": [1, 2], "pass_counts_candidate": [2, 2]}
    assert answer("rao_scott_z", **counts, epochs=[2, 3])["deff_c"] is not None


@pytest.mark.parametrize(
    ("verdict", "conclusion"),
    [
        ("TAIL_REGRESSION", "failure"),
        ("BELOW_FLOOR", "failure"),
        ("CEILING_BREACH", "failure"),
        ("JUDGE_CHANGED", "action_required"),
        ("NOT_JUDGED", "action_required"),
        ("INCONCLUSIVE", "neutral"),
    ],
)
def test_fold_cases_know_all_words(verdict: str, conclusion: str) -> None:
    rubric = {"verdict": verdict, "confirmed": True, "triage": None, "gate": "block"}

    assert answer("fold", tier="pr", rubrics=[rubric]) == {"conclusion": conclusion}
