"""From a run's folder to items: what the agent wrote, and what the lane adds."""

import hashlib
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from evalhub.protocol.paths import parse_path
from evalhub.protocol.plan import RunKey
from evalhub.runner import clock
from evalhub.runner.growing import PART_BYTES
from evalhub.runner.harvest import Harvest, harvest, harvest_or_loss
from evalhub.runner.members import LeftFile
from evalhub.runner.spool import RunEnded

KEY = RunKey("refund-twice", "candidate+faults", 2)
FOLDER = "runs/refund-twice/candidate%2Bfaults/2"
PASSED = {"outcome": "passed", "scores": {"resolved": 1.0}}


def make_ended(how: str = "exited", **fields: Any) -> RunEnded:
    at = clock.now()
    return RunEnded(
        how=how,  # type: ignore[arg-type]
        started_at=at,
        finished_at=at,
        duration_ms=1200,
        **{"exit_code": 0, **fields},
    )


def make_turn(number: int, **fields: Any) -> dict[str, Any]:
    return {"turn": number, "role": "user", "kind": "message", "text": f"turn {number}", **fields}


def write_run(
    folder: Path, *, result: object = None, turns: list[dict[str, Any]] | None = None
) -> Path:
    folder.mkdir(exist_ok=True)
    if result is not None:
        (folder / "result.json").write_text(json.dumps(result))
    if turns is not None:
        lines = "".join(json.dumps(turn) + "\n" for turn in turns)
        (folder / "transcript.ndjson").write_text(lines)
    return folder


def contents(found: Harvest) -> dict[str, bytes]:
    members = [*found.record, *found.bulk]
    by_path: dict[str, bytes] = {}
    for member in members:
        if isinstance(member, LeftFile):
            by_path[member.path] = (member.file.root / member.file.name).read_bytes()
        else:
            assert isinstance(member.content, bytes)
            by_path[member.path] = member.content
    assert len(by_path) == len(members)
    # Every path is one that WIRE defines, and of this run.
    assert {parse_path(path).run for path in by_path} <= {KEY}
    return by_path


def result_of(found: Harvest) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(contents(found)[f"{FOLDER}/result.json"])
    return document


def test_agents_result_gets_parts_and_times_and_keeps_the_rest(tmp_path: Path) -> None:
    folder = write_run(tmp_path, result={**PASSED, "duration_ms": 7}, turns=[make_turn(1)])

    found = harvest(folder, KEY, ended=make_ended())

    result = result_of(found)
    assert found.outcome == "passed"
    assert found.sentences == []
    assert (result["transcript_parts"], result["duration_ms"]) == (1, 7)
    assert result["started_at"].endswith("Z")
    assert result["scores"] == {"resolved": 1.0}


@pytest.mark.parametrize(
    ("ended", "outcome", "code", "words"),
    [
        (make_ended(exit_code=3), "agent_error", "no_result", "exit code 3"),
        (make_ended(exit_code=0), "agent_error", "no_result", "exit code 0"),
        (make_ended(exit_code=-9), "agent_error", "no_result", "signal 9"),
        (make_ended("timeout"), "timeout", "lane_time_over", "time was over"),
        (make_ended("setup_error", error="No such file"), "setup_error", None, "No such file"),
        (make_ended("not_started"), "skipped", "lane_time_over", "before the run could start"),
        (make_ended("budget_exceeded"), "budget_exceeded", None, "judge money"),
        (make_ended("guardian_lost", error="killed"), "infra_error", "guardian_lost", "killed"),
    ],
)
def test_a_run_without_result_gets_one_that_says_why(
    tmp_path: Path, ended: RunEnded, outcome: str, code: str | None, words: str
) -> None:
    found = harvest(write_run(tmp_path), KEY, ended=ended)

    result = result_of(found)
    assert (found.outcome, result["outcome"]) == (outcome, outcome)
    assert code is None or result["code"] == code
    assert words in result["error"]["message"]
    turn = json.loads(contents(found)[f"{FOLDER}/transcript.1.ndjson"])
    assert (turn["turn"], turn["role"], turn["kind"]) == (1, "environment", "error")
    assert result["transcript_parts"] == 1


def test_closing_turn_follows_the_agents_own_and_shows_its_output(tmp_path: Path) -> None:
    folder = write_run(tmp_path, turns=[make_turn(1), make_turn(2)])

    found = harvest(folder, KEY, ended=make_ended(exit_code=1, output_tail="KeyError: 'x'"))

    turns = contents(found)[f"{FOLDER}/transcript.1.ndjson"].splitlines()
    assert json.loads(turns[2])["turn"] == 3
    assert "KeyError: 'x'" in json.loads(turns[2])["text"]


def test_a_result_that_is_none_is_sent_as_it_is(tmp_path: Path) -> None:
    folder = write_run(tmp_path)
    (folder / "result.json").write_text('{"outcome": "great", "scores": {"x": NaN}}')

    found = harvest(folder, KEY, ended=make_ended())

    assert found.outcome is None
    assert contents(found)[f"{FOLDER}/result.json"] == (folder / "result.json").read_bytes()
    assert "result.json is not valid: " in found.sentences[0]
    assert "/outcome was" in found.sentences[0]


def test_a_transcript_is_cut_into_parts_of_whole_lines(tmp_path: Path) -> None:
    turns = [make_turn(i, text="x" * 50_000) for i in range(1, 45)]

    found = harvest(write_run(tmp_path, result=PASSED, turns=turns), KEY, ended=make_ended())

    parts = [contents(found)[f"{FOLDER}/transcript.{i}.ndjson"] for i in (1, 2, 3)]
    assert result_of(found)["transcript_parts"] == 3
    assert all(len(part) <= PART_BYTES and part.endswith(b"\n") for part in parts)
    assert b"".join(parts) == (tmp_path / "transcript.ndjson").read_bytes()


@pytest.mark.parametrize("kind", ["text", "arguments"])
def test_a_long_body_becomes_an_attachment_that_the_turn_names(tmp_path: Path, kind: str) -> None:
    long = "ä" * 40_000
    fields = (
        {"text": long}
        if kind == "text"
        else {"text": None, "tool": {"name": "save", "arguments": long}}
    )
    folder = write_run(tmp_path, result=PASSED, turns=[make_turn(1, **fields), make_turn(2)])

    found = contents(harvest(folder, KEY, ended=make_ended()))

    digest = hashlib.sha256(long.encode()).hexdigest()
    first, second = map(json.loads, found[f"{FOLDER}/transcript.1.ndjson"].splitlines())
    assert first["body"] == f"sha256:{digest}"
    assert first["text"] is None
    assert found[f"{FOLDER}/files/body-{digest}"] == long.encode()
    assert second == make_turn(2)
    if kind == "arguments":
        assert first["tool"] == {"name": "save", "arguments": None}
        assert first["extra"] == {"body_of": "arguments"}


def test_bad_turns_are_named_by_line_and_sent(tmp_path: Path) -> None:
    folder = write_run(tmp_path, result=PASSED, turns=[make_turn(1), make_turn(2, role="agnet")])

    found = harvest(folder, KEY, ended=make_ended())

    assert 'transcript.ndjson, line 2: /role was "agnet"' in found.sentences[0]
    assert b"agnet" in contents(found)[f"{FOLDER}/transcript.1.ndjson"]


def test_many_bad_lines_are_counted_not_listed(tmp_path: Path) -> None:
    folder = write_run(tmp_path, result=PASSED, turns=[make_turn(0) for _ in range(9)])

    found = harvest(folder, KEY, ended=make_ended())

    assert len(found.sentences) == 6
    assert found.sentences[-1].endswith("has 4 more faults.")


def test_a_line_that_the_end_cut_short_is_left_out(tmp_path: Path) -> None:
    folder = write_run(tmp_path, turns=[make_turn(1)])
    with (folder / "transcript.ndjson").open("a") as file:
        file.write('{"turn": 2, "role": "ass')

    killed = harvest(folder, KEY, ended=make_ended("timeout"))
    died_with_lane = harvest(folder, KEY, ended=None)

    assert b'"ass' not in contents(killed)[f"{FOLDER}/transcript.1.ndjson"]
    assert contents(died_with_lane) == {
        f"{FOLDER}/transcript.1.ndjson": json.dumps(make_turn(1)).encode() + b"\n"
    }


def test_judge_lines_and_failure_are_records(tmp_path: Path) -> None:
    folder = write_run(tmp_path, result=PASSED)
    (folder / "judge.ndjson").write_text('{"call_id": "no-uuid"}\n')
    (folder / "failure.json").write_text('{"category": "wrong_tool", "root_cause": "x", "by": "y"}')

    found = harvest(folder, KEY, ended=make_ended())

    names = [member.path.rpartition("/")[2] for member in found.record]
    assert names == ["result.json", "judge.1.ndjson", "failure.json"]
    assert "judge.ndjson, line 1: /call_id was" in found.sentences[0]


def test_attachments_keep_their_names_below_files(tmp_path: Path) -> None:
    folder = write_run(tmp_path, result=PASSED)
    (folder / "files" / "shots").mkdir(parents=True)
    (folder / "files" / "shots" / "1.png").write_bytes(b"png")
    (folder / "files" / "..a b").write_bytes(b"odd")

    found = contents(harvest(folder, KEY, ended=make_ended()))

    assert found[f"{FOLDER}/files/shots%2F1%2Epng"] == b"png"
    assert found[f"{FOLDER}/files/%2E%2Ea%20b"] == b"odd"


def test_links_and_pipes_of_the_agent_are_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text('{"outcome": "passed"}')
    folder = write_run(tmp_path / "run")
    (folder / "result.json").symlink_to(secret)
    (folder / "files").mkdir()
    (folder / "files" / "stolen").symlink_to(secret)
    os.mkfifo(folder / "transcript.ndjson")
    os.mkfifo(folder / "files" / "pipe")

    found = harvest(folder, KEY, ended=make_ended(exit_code=1))

    assert found.outcome == "agent_error"
    assert secret.read_bytes() not in contents(found).values()
    assert len(found.sentences) == 4


def test_a_linked_folder_of_files_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "key").write_text("secret")
    folder = write_run(tmp_path / "run", result=PASSED)
    (folder / "files").symlink_to(tmp_path / "elsewhere")

    assert b"secret" not in contents(harvest(folder, KEY, ended=make_ended())).values()


def test_names_that_no_path_can_hold_are_left_out_with_a_sentence(tmp_path: Path) -> None:
    folder = write_run(tmp_path, result=PASSED)
    files = os.fsencode(folder / "files")
    Path(os.fsdecode(files + b"/\xff")).mkdir(parents=True)
    for name in (b"/\xff/inner", b"/\xff\xfe", b"/good"):
        Path(os.fsdecode(files + name)).write_bytes(b"x")
    (folder / "files" / ("z" * 250) / ("z" * 250) / ("z" * 250) / ("z" * 250)).mkdir(parents=True)
    (folder / "files" / "/".join(["z" * 250] * 4) / "x").write_bytes(b"x")

    found = harvest(folder, KEY, ended=make_ended())

    assert [p for p in contents(found) if p.endswith("/files/good")]
    told = "\n".join(found.sentences)
    assert "files/\\xff\\xfe has a name that is not UTF-8" in told
    assert "files/\\xff/inner has a name that is not UTF-8" in told
    assert "has a name that is too long" in told
    assert found.outcome == "passed"


def test_folders_without_end_cost_what_lies_in_them_alone(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    folder = write_run(tmp_path, result=PASSED)
    # Python's own rmtree, with which pytest cleans up, recurses and would fail there.
    request.addfinalizer(lambda: subprocess.run(["/bin/rm", "-rf", folder / "files"], check=True))
    (folder / "files" / "d").mkdir(parents=True)
    (folder / "files" / "good").write_bytes(b"x")
    here = os.open(folder / "files" / "d", os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=here)
        here, above = os.open("d", os.O_RDONLY, dir_fd=here), here
        os.close(above)
    os.close(here)

    found = harvest(folder, KEY, ended=make_ended())

    assert f"{FOLDER}/files/good" in contents(found)
    assert [sentence for sentence in found.sentences if "folders deep" in sentence]


def test_what_nobody_foresaw_in_a_folder_costs_that_run_alone(tmp_path: Path) -> None:
    folder = write_run(tmp_path, result=PASSED)
    # No file system holds such a name, so reading there is an error of another kind.
    lost = harvest_or_loss(Path(f"{folder}\0"), KEY, ended=make_ended())

    result = json.loads(contents(lost)[f"{FOLDER}/result.json"])
    assert (result["outcome"], result["code"]) == ("infra_error", "harvest_failed")
    assert result["error"]["message"] in lost.sentences[0]
    assert harvest_or_loss(Path(f"{folder}\0"), KEY, ended=None).record == []


def test_no_closing_turn_where_the_agent_took_the_last_number(tmp_path: Path) -> None:
    folder = write_run(tmp_path, turns=[make_turn(1_000_000)])

    found = harvest(folder, KEY, ended=make_ended(exit_code=3))

    (turn,) = contents(found)[f"{FOLDER}/transcript.1.ndjson"].splitlines()
    assert json.loads(turn)["role"] == "user"
    assert "closing turn" in found.sentences[0]
    assert found.outcome == "agent_error"


def test_equal_folders_give_equal_items(tmp_path: Path) -> None:
    folder = write_run(tmp_path, turns=[make_turn(1, text="y" * 70_000)])
    ended = make_ended(exit_code=4, output_tail="tail")

    assert contents(harvest(folder, KEY, ended=ended)) == contents(
        harvest(folder, KEY, ended=ended)
    )
