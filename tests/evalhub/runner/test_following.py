"""`push --follow`: a spool is sent while a lane, or a step that copies it, still writes to it."""

import json
import os
import shutil
import signal
import stat
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from evalhub.runner.errors import Exit, InputError
from evalhub.runner.holding import held, is_held, is_original
from evalhub.runner.spool import Spool
from evalhub.runner.spool_folders import spools_in
from tests.evalhub.runner.alive import eventually, number_in
from tests.evalhub.runner.lanes import MadeLane, lane_process, make_lane, push_process, run
from tests.evalhub.runner.loopback import LoopbackStore, loopback_store
from tests.evalhub.runner.test_lane import number_in_any, outcomes
from tests.evalhub.runner.test_spool import make_spool

pytestmark = pytest.mark.slow


@pytest.fixture
def other_store() -> Iterator[LoopbackStore]:
    """Return a store that knows the same attempt and has received nothing."""
    with loopback_store() as running:
        yield running


def refuse_to_hear(sentence: str) -> None:
    raise AssertionError(sentence)


# Beside a lane


def test_follow_leaves_a_living_lane_alone_and_finishes_after_its_death(
    store: LoopbackStore, tmp_path: Path
) -> None:
    made = make_lane(tmp_path, "ok1", "slow")
    with push_process(store.url, str(made.spool), "--follow", "--wait", "60") as follow:
        with lane_process(made, store.url) as lane:
            number_in_any(made.spool, "*/runs/slow/candidate/1/pid")
            assert eventually(lambda: outcomes(store) == {"ok1": "passed"})
            assert eventually(lambda: store.requests["token"])
            assert follow.poll() is None
            assert (lane.poll(), store.seals) == (None, [])
            lane.kill()
        out, err = follow.communicate(timeout=60)

    assert follow.returncode == 0, err
    assert "is sealed" in out
    assert len(store.seals) == 1
    assert b"begin" in store.items()["runs/slow/candidate/1/transcript.1.ndjson"]


def test_follow_sends_for_a_lane_that_cannot(
    store: LoopbackStore, other_store: LoopbackStore, tmp_path: Path
) -> None:
    made = make_lane(tmp_path, "ok1", "slow")
    store.troubled("segment", *["503"] * 10_000)
    with lane_process(made, store.url) as lane:
        number_in_any(made.spool, "*/runs/slow/candidate/1/pid")
        with push_process(other_store.url, str(made.attempt), "--follow") as follow:
            assert eventually(lambda: outcomes(other_store) == {"ok1": "passed"})
            lane.send_signal(signal.SIGTERM)
            _, said = lane.communicate(timeout=30)
            out, err = follow.communicate(timeout=60)

    assert follow.returncode == 0, err
    assert "is sealed" in out
    segments = Spool.opened(made.attempt).segments()
    assert list(other_store.segments) == [segment.seq for segment in segments]
    assert "Evidence waits in" in said
    assert store.segments == {}


def test_follow_ends_with_a_signal_and_seals_nothing(store: LoopbackStore, tmp_path: Path) -> None:
    made = make_lane(tmp_path, "ok1", "slow")
    with lane_process(made, store.url) as lane:
        number_in_any(made.spool, "*/runs/slow/candidate/1/pid")
        with push_process(store.url, str(made.attempt), "--follow") as follow:
            assert eventually(lambda: store.requests["token"])
            follow.send_signal(signal.SIGTERM)
            _, err = follow.communicate(timeout=30)
        lane.kill()

    assert follow.returncode == Exit.GATE_FAILED
    assert "SIGTERM" in err
    assert store.seals == []


def test_a_folder_to_which_no_spool_comes_is_named(store: LoopbackStore, tmp_path: Path) -> None:
    with push_process(store.url, str(tmp_path / "none"), "--follow", "--wait", "1") as follow:
        _, err = follow.communicate(timeout=30)

    assert follow.returncode == Exit.WRONG_INPUT
    assert "holds no spool" in err


# A copy


@pytest.fixture
def finished(store: LoopbackStore, tmp_path: Path) -> MadeLane:
    made = make_lane(tmp_path / "origin", "ok1", "ok2", "crash")
    run(made, store.url)
    return made


@pytest.fixture(autouse=True)
def _origin(tmp_path: Path) -> None:
    (tmp_path / "origin").mkdir()


def copied(source: Path, target: Path, *, share: float = 1.0) -> None:
    """Write the beginning of a file, as a copying step that is not done yet has."""
    target.parent.mkdir(parents=True, exist_ok=True)
    data = source.read_bytes()
    target.write_bytes(data[: int(len(data) * share)])


def evidence_in(folder: Path) -> list[Path]:
    """Return the files that a copy needs, the segments in reverse order."""
    segments = sorted((folder / "segments").glob("*.zip"), reverse=True)
    return [folder / "lane.json", folder / "plan.json", *segments]


def test_a_copy_that_grows_is_sent_whole_files_only_and_in_order(
    finished: MadeLane, other_store: LoopbackStore, tmp_path: Path
) -> None:
    origin, copy = finished.attempt, tmp_path / "artifact" / finished.attempt.name
    # The last word of the lane first, and then everything in pieces.
    copied(origin / "over.json", copy / "over.json")
    with push_process(other_store.url, str(tmp_path / "artifact"), "--follow") as follow:
        for file in evidence_in(origin):
            place = copy / file.relative_to(origin)
            copied(file, place, share=0.6)
            # Long enough for the follower to look at the half.
            time.sleep(0.6)
            assert follow.poll() is None
            copied(file, place)
        out, err = follow.communicate(timeout=60)

    assert follow.returncode == 0, err
    assert "is sealed" in out
    assert list(other_store.segments) == sorted(other_store.segments)
    assert {p.name for p in copy.glob("segments/*.zip")} == {
        p.name for p in origin.glob("segments/*.zip")
    }
    assert other_store.requests["segment"] == len(other_store.segments)


def test_a_copy_whose_lane_may_live_is_sent_and_neither_cut_nor_sealed(
    finished: MadeLane, other_store: LoopbackStore, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(finished.attempt, copy)
    for unproven in [*copy.glob("segments/*.receipt.json"), copy / "over.json"]:
        unproven.unlink()
    last = max(copy.glob("segments/*.zip"))
    last.unlink()
    with push_process(other_store.url, str(copy), "--follow", "--wait", "2") as follow:
        _, err = follow.communicate(timeout=60)

    assert follow.returncode == Exit.GATE_FAILED
    assert f"finish with `evalhub push {copy}`" in err
    assert other_store.seals == []
    before = dict(other_store.segments)
    assert not last.exists()

    with push_process(other_store.url, str(copy)) as push:
        out, err = push.communicate(timeout=60)
    assert push.returncode == 0, err
    assert "is sealed" in out
    assert {seq: other_store.segments[seq] for seq in before} == before


@pytest.mark.parametrize("way", ["missing", "half", "changed"])
def test_a_copy_that_is_not_whole_is_refused_in_a_sentence(
    finished: MadeLane, other_store: LoopbackStore, way: str
) -> None:
    victim = finished.attempt / "segments" / "000002.zip"
    for receipt in finished.attempt.glob("segments/*.receipt.json"):
        receipt.unlink()
    data = victim.read_bytes()
    match way:
        case "missing":
            victim.unlink()
        case "half":
            victim.write_bytes(data[: len(data) // 2])
        case "changed":
            # Its end is there, its middle is not: so do copies that reserve the room first.
            victim.write_bytes(data[:200] + bytes(200) + data[400:])
    with push_process(other_store.url, str(finished.attempt)) as push:
        _, err = push.communicate(timeout=60)

    assert push.returncode == Exit.WRONG_INPUT
    assert f"{victim} is {'not there' if way == 'missing' else 'damaged'}" in err
    assert "copy the spool again" in err
    assert other_store.segments == {}


def killed_lane(store: LoopbackStore, folder: Path) -> MadeLane:
    made = make_lane(folder, "ok1", "slow")
    store.troubled("segment", *["503"] * 10_000)
    with lane_process(made, store.url) as lane:
        number_in(made.spool / "att_abcdefghij0123456789/runs/slow/candidate/1/pid")
        ended = made.attempt / "ended/ok1/candidate/1.json"
        assert eventually(ended.exists)
        lane.kill()
    store.troubled("segment")
    return made


def test_the_zip_file_of_an_artifact_is_pushed_and_pushed_again(
    store: LoopbackStore, tmp_path: Path
) -> None:
    made = killed_lane(store, tmp_path / "origin")
    (made.attempt / "lock").unlink()
    archive = tmp_path / "artifact.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for file in made.spool.rglob("*"):
            if file.is_file():
                # As CI packs: no modes, and the folders above.
                name = Path("evidence/of/lanes") / file.relative_to(made.spool)
                packed.writestr(str(name), file.read_bytes())

    tried = store.requests["segment"]
    for _ in range(2):
        with push_process(store.url, str(archive)) as push:
            out, err = push.communicate(timeout=60)
        assert push.returncode == 0, err
        assert "is sealed" in out

    assert outcomes(store) == {"ok1": "passed"}
    assert b"begin" in store.items()["runs/slow/candidate/1/transcript.1.ndjson"]
    assert store.requests["segment"] - tried == len(store.segments)


# Folders


def test_what_an_agent_left_is_no_spool(tmp_path: Path) -> None:
    spool = make_spool(tmp_path / "spools" / "a")
    inner = spool.folder / "runs" / "x"
    shutil.copytree(spool.folder, tmp_path / "fake")
    inner.mkdir(parents=True)
    (tmp_path / "fake").rename(inner / "fake")
    (tmp_path / "spools" / "link").symlink_to(spool.folder)

    assert spools_in(tmp_path, report=refuse_to_hear) == [spool.folder]


def test_a_zip_file_writes_nowhere_else(tmp_path: Path) -> None:
    spool = make_spool(tmp_path / "a")
    archive = tmp_path / "in" / "evil.zip"
    archive.parent.mkdir()
    link = zipfile.ZipInfo("s/logs")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(archive, "w") as packed:
        for name in ("lane.json", "plan.json"):
            packed.write(spool.folder / name, f"s/{name}")
        packed.writestr("../../outside", "x")
        packed.writestr("/outside", "x")
        packed.writestr(link, "/etc")
    said: list[str] = []

    (found,) = spools_in(archive, report=said.append)

    assert found == tmp_path / "in" / "evil.zip.unpacked" / "s"
    assert not list(tmp_path.glob("outside"))
    assert not any(path.is_symlink() for path in found.parent.rglob("*"))
    assert "is unpacked into" in said[0]
    assert [path.name for path in sorted(archive.parent.iterdir())] == [
        "evil.zip",
        "evil.zip.unpacked",
    ]


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04 half of a file"])
def test_half_a_zip_file_is_refused_in_a_sentence(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "half.zip").write_bytes(data)

    with pytest.raises(InputError, match="is no whole ZIP file"):
        spools_in(tmp_path / "half.zip", report=refuse_to_hear)


def test_only_the_very_folder_that_was_held_is_the_original(tmp_path: Path) -> None:
    folder = make_spool(tmp_path / "s").folder
    assert not is_original(folder)
    with held(folder):
        assert is_held(folder)
    shutil.copytree(folder, tmp_path / "copy")

    assert (is_held(folder), is_original(folder)) == (False, True)
    assert (is_held(tmp_path / "copy"), is_original(tmp_path / "copy")) == (False, False)


def test_who_looks_whether_a_spool_is_held_keeps_nobody_from_it(tmp_path: Path) -> None:
    folder = make_spool(tmp_path / "s").folder
    with held(folder):
        pass
    reader = os.fork()
    if reader == 0:
        while True:
            is_held(folder)
    try:
        for _ in range(20):
            with held(folder):
                pass
    finally:
        os.kill(reader, signal.SIGKILL)
        os.waitpid(reader, 0)


def test_the_lane_says_when_all_is_cut(finished: MadeLane) -> None:
    spool = Spool.opened(finished.attempt)

    assert spool.is_over()
    assert json.loads((finished.attempt / "over.json").read_bytes()) == {
        "segments": len(spool.segments())
    }
