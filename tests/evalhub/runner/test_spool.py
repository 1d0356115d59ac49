"""The spool on disk: segments are its state."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from evalhub.protocol.plan import RunKey
from evalhub.protocol.segments import SegmentHeader, seal_digest
from evalhub.runner import clock
from evalhub.runner.agent_files import AgentFile
from evalhub.runner.errors import InputError
from evalhub.runner.holding import held
from evalhub.runner.lane_log import LaneLog, fresh_log_members
from evalhub.runner.members import LeftFile, Member
from evalhub.runner.spool import LaneState, Spool, SpoolError
from tests.evalhub.runner.documents import make_plan, make_scenario, make_suite

RUN = "runs/refund-twice/candidate/1"
ATTEMPT = "att_abcdefghij0123456789"


def make_spool(folder: Path, *, segment_bytes: int = 2**20, **fields: Any) -> Spool:
    plan = make_plan(**fields)
    state = LaneState(
        plan=plan.digest,
        lane="ordinary-1",
        attempt=ATTEMPT,
        store="http://127.0.0.1:1",
        opened_at=clock.now(),
        segment_bytes=segment_bytes,
    )
    data = json.dumps(plan.document).encode()
    return Spool.created(folder, state, plan=plan.model, plan_bytes=data)


def names(spool: Spool) -> list[list[str]]:
    return [zipfile.ZipFile(segment.path).namelist()[1:] for segment in spool.segments()]


def test_segments_are_numbered_and_say_where_they_belong(tmp_path: Path) -> None:
    source = {"event": "push", "tested_sha": "a" * 40}
    spool = make_spool(tmp_path / "s", source=source)

    spool.cut("record", [Member(f"{RUN}/result.json", b"{}")], at=clock.now())
    spool.cut("bulk", [Member(f"{RUN}/transcript.1.ndjson", b"{}\n")], at=clock.now())

    headers = [
        SegmentHeader.model_validate_json(zipfile.ZipFile(s.path).read("segment.json"))
        for s in spool.segments()
    ]
    assert [(h.seq, h.class_) for h in headers] == [(1, "record"), (2, "bulk")]
    assert {(h.plan, h.lane, h.attempt, h.tested_sha) for h in headers} == {
        (spool.state.plan, "ordinary-1", ATTEMPT, "a" * 40)
    }


def test_an_item_is_cut_once(tmp_path: Path) -> None:
    spool = make_spool(tmp_path / "s")
    member = Member(f"{RUN}/result.json", b"{}")

    spool.cut("record", [member], at=clock.now())
    again = spool.cut("record", [member], at=clock.now())

    assert again == []
    assert names(spool) == [[f"{RUN}/result.json"]]


def test_a_spool_is_found_again_as_it_was_left(tmp_path: Path) -> None:
    spool = make_spool(tmp_path / "s")
    spool.cut("record", [Member(f"{RUN}/result.json", b"{}")], at=clock.now())
    (tmp_path / "s" / "segments" / "000002.zip.part").write_bytes(b"half a segm")

    found = Spool.opened(tmp_path / "s")
    found.cut("bulk", [Member(f"{RUN}/files/a", b"a")], at=clock.now())

    assert found.state == spool.state
    assert found.segments()[0] == spool.segments()[0]
    assert names(found) == [[f"{RUN}/result.json"], [f"{RUN}/files/a"]]
    assert len(found.unsent()) == 2


def test_segments_stay_below_the_stores_limit(tmp_path: Path) -> None:
    spool = make_spool(tmp_path / "s", segment_bytes=100_000)
    members = [Member(f"{RUN}/files/{i}", bytes([i]) * 40_000) for i in range(5)]

    spool.cut("bulk", members, at=clock.now())

    assert [len(listed) for listed in names(spool)] == [2, 2, 1]


def test_an_item_that_no_segment_can_hold_is_said_not_lost_in_silence(tmp_path: Path) -> None:
    spool = make_spool(tmp_path / "s", segment_bytes=70_000)
    noise = b"".join(i.to_bytes(4, "big") * 2 for i in range(1_000_000, 1_200_000))
    large = tmp_path / "core"
    large.write_bytes(noise)

    spool.cut(
        "bulk", [LeftFile(f"{RUN}/files/core", AgentFile(tmp_path, large.name, 0))], at=clock.now()
    )

    assert spool.segments() == []
    assert "files/core has" in spool.left_out[0]


def test_names_that_differ_by_case_alone_go_into_two_segments(tmp_path: Path) -> None:
    spool = make_spool(tmp_path / "s")
    members = [Member(f"{RUN}/files/{name}", b"x") for name in ("README", "readme")]

    spool.cut("bulk", members, at=clock.now())

    assert names(spool) == [[f"{RUN}/files/README"], [f"{RUN}/files/readme"]]


def test_a_long_scenario_id_has_a_folder_that_file_systems_take(tmp_path: Path) -> None:
    ids = ["日" * 60 + end for end in ("a", "b")]
    spool = make_spool(tmp_path / "s", suite=make_suite(*map(make_scenario, ids)), lanes=1)
    folders = [spool.run_folder(RunKey(name, "candidate", 1)) for name in ids]

    for folder in folders:
        folder.mkdir(parents=True)

    assert len(set(folders)) == 2
    assert (
        spool.ended_path(RunKey(ids[0], "candidate", 1)).parent.parent.name == folders[0].parts[-3]
    )


def test_seal_names_all_segments_but_those_refused_whole(tmp_path: Path) -> None:
    spool = make_spool(tmp_path / "s")
    for i in range(3):
        spool.cut("bulk", [Member(f"{RUN}/files/{i}", b"x")], at=clock.now())
    refused = spool.segments()[1]
    spool.note_refusal(refused, "The archive expands too much.")

    digests = spool.digests()

    assert [d.seq for d in digests] == [1, 3]
    assert seal_digest(digests).startswith("sha256:")
    assert spool.refusals() == ["000002.zip: The archive expands too much."]
    assert [s.seq for s in spool.unsent()] == [1, 3]


def test_a_held_spool_is_not_taken_by_another(tmp_path: Path) -> None:
    with held(tmp_path / "s"), pytest.raises(InputError, match="is in use"):
        held(tmp_path / "s").__enter__()

    with held(tmp_path / "s"):
        pass


def test_a_spool_is_not_laid_over_another(tmp_path: Path) -> None:
    make_spool(tmp_path / "s")

    with pytest.raises(InputError, match="holds the spool of another attempt"):
        make_spool(tmp_path / "s")


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("lane.json", b"{}", "cannot be read: /plan was absent"),
        ("plan.json", b"[]", "cannot be read"),
        ("segments/000001.zip", b"PK broken", "is damaged"),
    ],
)
def test_a_broken_spool_is_refused_in_a_sentence(
    tmp_path: Path, name: str, content: bytes, sentence: str
) -> None:
    make_spool(tmp_path / "s")
    (tmp_path / "s" / name).write_bytes(content)

    with pytest.raises(InputError, match=sentence):
        Spool.opened(tmp_path / "s")


def test_a_folder_that_is_no_spool_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is no spool"):
        Spool.opened(tmp_path)


def test_a_spool_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    spool = make_spool(tmp_path / "s")
    (tmp_path / "s" / "segments").rmdir()

    with pytest.raises(SpoolError, match="cannot be written"):
        spool.cut("bulk", [Member(f"{RUN}/files/a", b"a")], at=clock.now())


def refuse_to_hear(sentence: str) -> None:
    raise AssertionError(sentence)


def test_log_goes_on_where_it_was_cut(tmp_path: Path) -> None:
    spool = make_spool(tmp_path / "s")
    log = LaneLog(spool, report=refuse_to_hear)
    log.note("first")
    spool.cut("bulk", log.members(is_over=False), at=clock.now())
    log.output_of("a/b/1").line(b"second")
    log.close()

    found = Spool.opened(tmp_path / "s")
    rest = fresh_log_members(found, is_over=True)

    assert names(found) == [["lane/logs/agent.1.log"]]
    assert rest == [Member("lane/logs/agent.2.log", b"[a/b/1] second\n", {"end": 23})]


def test_log_keeps_a_bounded_part_of_one_run_but_its_end(tmp_path: Path) -> None:
    log = LaneLog(make_spool(tmp_path / "s"), report=refuse_to_hear)
    output = log.output_of("loop/x/1")

    for _ in range(9 * 64):
        output.line(b"z" * 16_384)
    output.line(b"KeyError")
    log.close()

    text = (tmp_path / "s" / "logs" / "agent.log").read_bytes()
    assert len(text) < 9 * 2**20
    assert text.endswith(b"[loop/x/1] (more output of this run is not kept)\n")
    assert output.tail().endswith("KeyError")
