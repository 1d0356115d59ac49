"""Files that grow, shrink and change while their run goes on: each turn is sent once, none is lost in silence."""

import json
import os
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from evalhub.protocol.paths import ItemKind, ItemPath, format_path
from evalhub.protocol.plan import RunKey
from evalhub.runner import clock
from evalhub.runner.growing import PART_BYTES, WHOLE, Bounds
from evalhub.runner.harvest import harvest
from evalhub.runner.origins import Origins
from evalhub.runner.resume import cut_the_rest
from evalhub.runner.spool import Spool
from evalhub.runner.streaming import Streams, cut, growths, pause_seconds, taken_run
from tests.evalhub.runner.test_harvest import make_ended, make_turn
from tests.evalhub.runner.test_spool import make_spool

KEY = RunKey("refund-twice", "candidate", 1)


class Going:
    """A run that goes on in a spool, cut as often as the test says."""

    def __init__(self, folder: Path) -> None:
        self.spool = make_spool(folder)
        self.bounds = WHOLE
        self.folder = self.spool.run_folder(KEY)
        self.folder.mkdir(parents=True)
        self.said: list[str] = []

    @property
    def transcript(self) -> Path:
        return self.folder / "transcript.ndjson"

    def write(
        self, *turns: dict[str, Any], mode: str = "a", name: str = "transcript.ndjson"
    ) -> None:
        with (self.folder / name).open(mode) as file:
            file.writelines(json.dumps(turn) + "\n" for turn in turns)

    def cut(self) -> bool:
        any_cut = False
        for found in growths(self.spool, KEY, self.folder, bounds=self.bounds):
            self.said += found.sentences
            any_cut |= cut(self.spool, found, at=clock.now())
        return any_cut

    def die(self) -> None:
        """Let another process go on from the disk."""
        self.spool = Spool.opened(self.spool.folder)

    def end(self, **fields: Any) -> None:
        ended = make_ended(**fields)
        taken = taken_run(self.spool, KEY)
        found = harvest(self.folder, KEY, ended=ended, taken=taken, bounds=self.bounds)
        self.said += found.sentences
        cut(self.spool, found, at=clock.now())

    def pass_with(self, **fields: Any) -> None:
        result = {"outcome": "passed", "scores": {"resolved": 1.0}}
        (self.folder / "result.json").write_text(json.dumps(result))
        self.end(**fields)

    def parts(self, kind: ItemKind = ItemKind.TRANSCRIPT) -> list[list[dict[str, Any]]]:
        found: list[list[dict[str, Any]]] = []
        while self.spool.has(path := format_path(ItemPath(kind, KEY, part=len(found) + 1))):
            found.append([json.loads(line) for line in self.spool.content_of(path).splitlines()])
        return found

    def turns(self) -> list[dict[str, Any]]:
        return [turn for part in self.parts() for turn in part]

    def result(self) -> dict[str, Any]:
        path = format_path(ItemPath(ItemKind.RESULT, KEY))
        document: dict[str, Any] = json.loads(self.spool.content_of(path))
        return document


@pytest.fixture
def run(tmp_path: Path) -> Going:
    return Going(tmp_path / "s")


def test_what_was_written_so_far_is_cut_while_the_run_goes_on(run: Going) -> None:
    run.write(make_turn(1), make_turn(2))
    run.cut()
    run.write(make_turn(3))
    run.cut()
    assert run.parts() == [[make_turn(1), make_turn(2)], [make_turn(3)]]

    run.write(make_turn(4))
    run.pass_with()

    assert run.turns() == [make_turn(i) for i in range(1, 5)]
    assert run.result()["transcript_parts"] == 3
    assert run.said == []


def test_nothing_new_makes_no_part(run: Going) -> None:
    run.write(make_turn(1))

    assert run.cut()
    assert not run.cut()
    run.pass_with()

    assert run.result()["transcript_parts"] == 1


def test_a_line_is_cut_once_it_is_whole(run: Going) -> None:
    line = json.dumps(make_turn(2))
    run.write(make_turn(1))
    with run.transcript.open("a") as file:
        file.write(line[:20])
    run.cut()
    assert run.turns() == [make_turn(1)]

    with run.transcript.open("a") as file:
        file.write(line[20:] + "\n")
    run.cut()

    assert run.turns() == [make_turn(1), make_turn(2)]


def test_the_torn_last_line_of_a_run_that_was_killed_is_left_out(run: Going) -> None:
    run.write(make_turn(1))
    run.cut()
    with run.transcript.open("a") as file:
        file.write('{"turn": 2, "role": "ass')

    run.end(how="timeout")

    assert [turn["role"] for turn in run.turns()] == ["user", "environment"]
    assert "line 2 was cut short" in run.said[0]


def test_a_new_process_goes_on_where_the_dead_one_stopped(run: Going) -> None:
    run.write(make_turn(1), make_turn(2))
    run.cut()
    run.write(make_turn(3))
    run.die()

    cut_the_rest(run.spool, at=clock.now(), report=run.said.append)

    assert run.parts() == [[make_turn(1), make_turn(2)], [make_turn(3)]]
    assert run.said == []


def test_a_crash_between_transcript_and_result_says_the_closing_turn_once(run: Going) -> None:
    run.write(make_turn(1))
    run.cut()
    ended = make_ended(exit_code=3)
    found = harvest(run.folder, KEY, ended=ended, taken=taken_run(run.spool, KEY))
    run.spool.cut("bulk", found.bulk, at=clock.now())
    run.die()

    run.end(exit_code=3)

    assert [turn["kind"] for turn in run.turns()] == ["message", "error"]
    assert run.result()["transcript_parts"] == 2


def test_an_origin_whose_part_was_never_cut_does_not_count(run: Going) -> None:
    run.write(make_turn(1), make_turn(2))
    path = format_path(ItemPath(ItemKind.TRANSCRIPT, KEY, part=1))
    # As when the lane dies between the two, once whole and once in the middle of a line.
    Origins(run.spool.folder).note({path: {"kept": 0, "marks": "00" * 32, "turn": 9}})
    with (run.spool.folder / "origins.ndjson").open("a") as file:
        file.write('{"kept": 0, "ma')
    run.die()

    run.cut()
    run.die()
    run.pass_with()

    assert run.parts() == [[make_turn(1), make_turn(2)]]


@pytest.mark.parametrize("closed", [False, True], ids=["open", "closed"])
def test_a_copy_without_origins_repeats_nothing(run: Going, *, closed: bool) -> None:
    run.write(make_turn(1), make_turn(2))
    run.cut()
    if closed:
        run.end(exit_code=3)
    before = run.parts()
    (run.spool.folder / "origins.ndjson").unlink()
    run.die()

    if not closed:
        run.write(make_turn(3))
    run.end(exit_code=3)

    assert run.parts()[: len(before)] == before
    assert [turn["turn"] for turn in run.turns()] == ([1, 2, 3] if closed else [1, 2, 3, 4])
    assert run.said == []


# Rewritten files


def rewritten_in_place(run: Going, *turns: dict[str, Any]) -> None:
    run.write(*turns, mode="w")


def replaced(run: Going, *turns: dict[str, Any]) -> None:
    run.write(*turns, name="new", mode="w")
    (run.folder / "new").replace(run.transcript)


ways = pytest.mark.parametrize("rewrite", [rewritten_in_place, replaced])
Rewrite = Callable[..., None]


@ways
def test_a_file_that_is_written_anew_with_more_has_only_grown(run: Going, rewrite: Rewrite) -> None:
    run.write(make_turn(1), make_turn(2))
    run.cut()
    rewrite(run, *map(make_turn, range(1, 5)))
    run.cut()
    run.pass_with()

    assert run.turns() == [make_turn(i) for i in range(1, 5)]
    assert run.said == []


@ways
@pytest.mark.parametrize("died", [False, True], ids=["alive", "died"])
def test_a_turn_that_changed_after_it_was_sent_is_told_and_sent_too(
    run: Going, rewrite: Rewrite, *, died: bool
) -> None:
    run.write(make_turn(1), make_turn(2, text="thinki"))
    run.cut()
    rewrite(run, make_turn(1), make_turn(2, text="thinking"), make_turn(3, parent_turn=2))
    if died:
        run.die()
    run.cut()
    run.write(make_turn(4, parent_turn=1))
    run.pass_with()

    first, second, note, *rest = run.turns()
    assert [first, second] == [make_turn(1), make_turn(2, text="thinki")]
    assert (note["turn"], note["role"], note["kind"]) == (3, "environment", "note")
    assert "a line was changed or removed after being sent, from line 2" in note["text"]
    assert [(t["turn"], t["text"], t.get("parent_turn")) for t in rest] == [
        (4, "thinking", None),
        (5, "turn 3", 4),
        (6, "turn 4", 1),
    ]
    assert [turn["extra"]["written_as_turn"] for turn in rest] == [2, 3, 4]
    assert run.result()["transcript_parts"] == len(run.parts())
    assert len(run.said) == 1
    assert "transcript.ndjson, a line was changed" in run.said[0]


def test_a_file_that_is_begun_again_keeps_both_stories(run: Going) -> None:
    run.write(*(make_turn(i, text=f"first {i}") for i in range(1, 4)))
    run.cut()
    run.write(*(make_turn(i, text=f"second {i}") for i in range(1, 6)), mode="w")
    run.cut()
    run.pass_with()

    turns = run.turns()
    assert [turn["turn"] for turn in turns] == list(range(1, 10))
    assert [turn["text"] for turn in turns if turn["kind"] == "message"] == [
        *(f"first {i}" for i in range(1, 4)),
        *(f"second {i}" for i in range(1, 6)),
    ]


def test_a_file_that_is_only_shorter_may_be_about_to_be_written_again(run: Going) -> None:
    turns = [make_turn(i) for i in range(1, 4)]
    run.write(*turns)
    run.cut()
    run.transcript.write_text("")
    assert not run.cut()
    run.transcript.unlink()
    assert not run.cut()

    run.write(*turns, make_turn(4))
    run.pass_with()

    assert run.turns() == [*turns, make_turn(4)]
    assert run.said == []


@pytest.mark.parametrize("left", [None, [], [make_turn(1)]], ids=["removed", "empty", "shorter"])
def test_turns_that_are_gone_at_the_end_stay_and_are_told(
    run: Going, left: list[dict[str, Any]] | None
) -> None:
    run.write(make_turn(1), make_turn(2))
    run.cut()
    if left is None:
        run.transcript.unlink()
    else:
        run.write(*left, mode="w")

    run.pass_with()

    *kept, note = run.turns()
    assert kept == [make_turn(1), make_turn(2)]
    assert note["kind"] == "note"
    assert "changed or removed after being sent" in run.said[0]
    assert run.result()["transcript_parts"] == 2


@pytest.mark.parametrize("seed", range(8))
def test_whatever_is_done_to_the_file_no_turn_is_lost_and_numbers_rise(
    run: Going, seed: int
) -> None:
    chance = random.Random(seed)  # noqa: S311 - no secret
    lines: list[dict[str, Any]] = []
    sent: dict[str, bytes] = {}
    for step in range(40):
        match chance.choice(["grow", "grow", "change", "shorten", "cut", "cut", "die"]):
            case "grow":
                lines += [make_turn(len(lines) + 1, text=f"step {step}")]
            case "change" if lines:
                at = chance.randrange(len(lines))
                lines[at] = make_turn(at + 1, text=f"changed in step {step}")
            case "shorten" if lines:
                del lines[chance.randrange(len(lines)) :]
            case "cut":
                run.write(*lines, mode="w")
                run.cut()
            case "die":
                run.die()
        for segment in run.spool.segments():
            data = segment.path.read_bytes()
            assert sent.setdefault(segment.path.name, data) == data
    run.write(*lines, mode="w")
    run.pass_with()

    turns = run.turns()
    numbers = [turn["turn"] for turn in turns]
    assert numbers == sorted(set(numbers)), f"seed {seed}"
    texts = [turn["text"] for turn in turns]
    last = [line["text"] for line in lines]
    # What stands at the end is there in its order, whatever stands between.
    rest = iter(texts)
    assert all(any(text == wanted for text in rest) for wanted in last), f"seed {seed}"
    assert run.result()["transcript_parts"] == len(run.parts())


def test_half_a_character_costs_no_turn(run: Going) -> None:
    odd = {"half": "\ud83d"}
    run.write(make_turn(1, extra=odd))
    run.cut()
    run.write(
        make_turn(1, text="new", extra=odd), make_turn(2, text="x" * 70_000, extra=odd), mode="w"
    )
    run.cut()
    run.pass_with()

    assert [turn["turn"] for turn in run.turns()] == [1, 2, 3, 4]
    assert [turn["extra"].get("half") for turn in run.turns()] == [
        "\ud83d",
        None,
        "\ud83d",
        "\ud83d",
    ]


# Judge calls


def judge_line(number: int, value: float = 1.0) -> dict[str, Any]:
    return {
        "call_id": str(UUID(int=number)),
        "rubric": "resolved",
        "stage": "check",
        "fingerprint": f"sha256:{0:064}",
        "value": value,
        "cost_microusd": 7,
        "cost_source": "provider",
    }


def test_judge_calls_are_cut_while_the_run_goes_on(run: Going) -> None:
    run.write(judge_line(1), name="judge.ndjson")
    run.cut()
    run.write(judge_line(2), name="judge.ndjson")
    run.pass_with()

    assert run.parts(ItemKind.JUDGE) == [[judge_line(1)], [judge_line(2)]]


def test_another_story_of_a_judge_call_stands_apart_from_what_is_new(run: Going) -> None:
    run.write(judge_line(1), judge_line(2), judge_line(3), name="judge.ndjson")
    run.cut()
    run.write(judge_line(4), judge_line(2, value=0.0), judge_line(3), name="judge.ndjson", mode="w")
    run.cut()
    run.die()
    run.pass_with()

    assert run.parts(ItemKind.JUDGE) == [
        [judge_line(1), judge_line(2), judge_line(3)],
        [judge_line(4)],
        [judge_line(2, value=0.0)],
    ]
    assert "judge.ndjson, 3 lines were changed" in run.said[0]


# Sizes


def test_a_run_that_writes_much_is_cut_in_parts_of_a_megabyte(run: Going) -> None:
    run.write(*(make_turn(i, text="x" * 50_000) for i in range(1, 200)))
    run.cut()
    run.write(make_turn(200))
    run.pass_with()

    assert [turn["turn"] for turn in run.turns()] == list(range(1, 201))
    paths = [format_path(ItemPath(ItemKind.TRANSCRIPT, KEY, part=i + 1)) for i in range(11)]
    assert max(len(run.spool.content_of(path)) for path in paths) <= PART_BYTES


def test_a_long_body_is_in_the_store_no_later_than_its_turn(run: Going) -> None:
    run.write(make_turn(1, text="ä" * 40_000))
    run.cut()

    (body,) = (p for s in run.spool.segments() for p in names_in(s.path) if "/files/body-" in p)
    order = [path for s in run.spool.segments() for path in names_in(s.path)]
    assert order.index(body) < order.index(format_path(ItemPath(ItemKind.TRANSCRIPT, KEY, part=1)))
    assert run.spool.content_of(body).decode() == "ä" * 40_000
    assert run.turns()[0]["body"].removeprefix("sha256:") in body


def names_in(path: Path) -> list[str]:
    with zipfile.ZipFile(path) as archive:
        return archive.namelist()


def test_a_line_that_is_far_too_long_costs_itself_alone(run: Going) -> None:
    run.bounds = WHOLE._replace(line_bytes=5000)
    run.write(make_turn(1), make_turn(2, text="x" * 9000), make_turn(3))
    run.cut()
    run.write(make_turn(4))
    run.pass_with()

    assert [turn["turn"] for turn in run.turns()] == [1, 3, 4]
    assert run.said == [
        f"{KEY}: transcript.ndjson, line 2 has more than 5000 bytes; it is left out"
    ]


@pytest.mark.parametrize("bounds", [WHOLE._replace(lines=3), WHOLE._replace(file_bytes=150)])
def test_a_file_without_end_is_taken_up_to_a_bound(run: Going, bounds: Bounds) -> None:
    run.bounds = bounds
    run.write(*(make_turn(i) for i in range(1, 9)))
    run.cut()
    run.pass_with()

    assert [turn["turn"] for turn in run.turns()] == [1, 2, 3]
    assert "the rest stays behind" in run.said[0]


# Hostile agents


def test_what_is_no_plain_file_is_not_read_while_the_run_goes_on(
    run: Going, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text(json.dumps(make_turn(1, text="s3cret")) + "\n")
    run.transcript.symlink_to(secret)
    os.mkfifo(run.folder / "judge.ndjson")
    assert not run.cut()
    assert run.said == []

    run.transcript.unlink()
    os.truncate(os.open(run.transcript, os.O_CREAT | os.O_WRONLY), 2**40)
    assert not run.cut()
    run.transcript.unlink()
    run.transcript.mkdir()
    assert not run.cut()

    run.pass_with()
    assert run.turns() == []
    assert len(run.said) == 2


# When a part is due


def streams_of(run: Going, *, flush_seconds: float) -> Streams:
    return Streams(run.spool, flush_seconds=flush_seconds, stamp=clock.now, tell=run.said.extend)


def test_a_part_is_due_with_time_or_with_size_and_only_while_the_run_goes_on(run: Going) -> None:
    def flush(streams: Streams) -> bool:
        return streams.flush(is_to_end=lambda: False)

    patient, hasty = streams_of(run, flush_seconds=3600), streams_of(run, flush_seconds=0)
    with patient.of(KEY, run.folder), hasty.of(KEY, run.folder):
        run.write(make_turn(1))
        assert not flush(patient)
        assert not hasty.flush(is_to_end=lambda: True)
        assert flush(hasty)
        assert not flush(hasty)
        run.write(*(make_turn(i, text="x" * 50_000) for i in range(2, 40)))
        assert flush(patient)
    run.write(make_turn(40))

    assert not flush(hasty)
    assert len(run.turns()) == 39


def test_an_hour_of_turns_makes_about_a_hundred_parts() -> None:
    at, parts = 0.0, 0
    while at < 3600:
        at += pause_seconds(at, flush_seconds=5)
        parts += 1

    assert 60 < parts < 120
