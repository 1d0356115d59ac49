"""What a lane does and says while the store is away, the way is bad, or its own disk is full."""

import os
import re
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest

from evalhub.runner import clock
from evalhub.runner.client import Store
from evalhub.runner.errors import DiskFullError, Exit
from evalhub.runner.lane_log import LaneLog
from evalhub.runner.members import Member
from evalhub.runner.room import Room
from evalhub.runner.session import AttemptSession
from evalhub.runner.spool import Spool
from evalhub.runner.store_clock import StoreClock
from evalhub.runner.upload import Uploader
from tests.evalhub.runner.lanes import make_lane, push_process, run
from tests.evalhub.runner.loopback import RUN_TOKEN, LoopbackStore
from tests.evalhub.runner.test_spool import RUN, make_spool

pytestmark = pytest.mark.slow

BACK = "The store takes evidence again."


def test_a_store_that_is_away_at_the_beginning_is_waited_for(
    store: LoopbackStore, tmp_path: Path
) -> None:
    store.troubled("attempts", "503", "cut")

    report, said = run(make_lane(tmp_path, "ok1"), store.url)

    assert report.exit_code == Exit.GOOD
    assert len(said) == 2
    assert all(re.search(r"Trying again for up to \d+ s\.$", line) for line in said)


def test_push_waits_for_a_store_that_gives_no_token_yet(
    store: LoopbackStore, tmp_path: Path
) -> None:
    made = make_lane(tmp_path, "ok1")
    run(made, store.url)
    store.troubled("token", "503", "cut")

    with push_process(store.url, str(made.attempt)) as push:
        _, err = push.communicate(timeout=60)

    assert push.returncode == 0, err
    assert err.count("Trying again for up to") == 2


@pytest.mark.parametrize("trouble", ["incomplete", "changed"])
def test_a_segment_that_was_spoiled_on_its_way_is_sent_again(
    store: LoopbackStore, tmp_path: Path, trouble: str
) -> None:
    store.troubled("segment", trouble)

    report, said = run(make_lane(tmp_path, "ok1"), store.url)

    assert report.exit_code == Exit.GOOD
    assert "did not arrive whole" in said[0]
    assert said[1:] == [BACK]


def test_a_store_that_is_busy_for_a_moment_is_nothing_to_tell(
    store: LoopbackStore, tmp_path: Path
) -> None:
    store.troubled("segment", "busy", "busy")

    report, said = run(make_lane(tmp_path, "ok1"), store.url)

    assert (report.exit_code, said) == (Exit.GOOD, [])


@pytest.fixture
def session(store: LoopbackStore) -> Iterator[AttemptSession]:
    with Store(store.url, RUN_TOKEN) as issuer:
        opened = issuer.open_attempt("sha256:00", "ordinary-1").attempt
        with closing(AttemptSession.begun(issuer, opened)) as session:
            yield session


def uploaded(spool: Spool, session: AttemptSession) -> list[str]:
    """Send a spool to its end and return what was said."""
    said: list[str] = []
    uploader = Uploader(spool, session, report=said.append)
    uploader.start()
    assert uploader.drain(20)
    uploader.close()
    return said


def spool_of_two(folder: Path) -> Spool:
    spool = make_spool(folder)
    for name in "ab":
        spool.cut("bulk", [Member(f"{RUN}/files/{name}", b"x")], at=clock.now())
    return spool


def test_a_segment_that_changed_on_this_disk_is_given_up_by_name(
    store: LoopbackStore, session: AttemptSession, tmp_path: Path
) -> None:
    spool = spool_of_two(tmp_path / "s")
    path = spool.segments()[0].path
    path.write_bytes(path.read_bytes() + b"spoiled")
    store.troubled("segment", "changed")

    said = uploaded(spool, session)

    assert said == [
        "Segment 1 is refused as a whole and not sent again: Its file has changed on this disk since "
        "it was written."
    ]
    assert [digest.seq for digest in spool.digests()] == [2]
    assert Spool.opened(spool.folder).refusals() == spool.refusals()


def test_receipts_that_cannot_be_written_are_remembered(
    session: AttemptSession, tmp_path: Path
) -> None:
    spool = spool_of_two(tmp_path / "s")
    for segment in spool.segments():
        segment.receipt_path.mkdir()

    said = uploaded(spool, session)

    assert len(spool.receipts()) == 2
    assert len(said) == 1
    assert "What the store answers is only remembered" in said[0]
    assert len(Spool.opened(spool.folder).unsent()) == 2


def test_a_log_without_room_ends_no_run_and_says_what_it_left_out(tmp_path: Path) -> None:
    said: list[str] = []
    spool = make_spool(tmp_path / "s")
    path = spool.folder / "logs" / "agent.log"
    path.symlink_to("/dev/full")
    full = LaneLog(spool, report=said.append)
    full.note("lost")
    full.note("lost too")

    # The same open file has room again: as when somebody deletes what filled the disk.
    path.unlink()
    path.touch()
    handle = os.open(path, os.O_WRONLY | os.O_APPEND)
    os.dup2(handle, full._file.fileno())
    os.close(handle)
    full.note("kept")
    full.close()

    assert len(said) == 1
    assert "cannot be written: No space left on device; lines of output are left out" in said[0]
    assert path.read_text() == "\n# 2 lines could not be kept: no room\n# kept\n"


def test_room_is_waited_for_until_the_lanes_time_is_over(tmp_path: Path) -> None:
    said: list[str] = []
    full = [DiskFullError("The disk is full.")] * 2
    written = []

    def write() -> None:
        if full:
            raise full.pop()
        written.append(1)

    room = Room(tmp_path, deadline=time.monotonic() + 60, report=said.append, is_over=lambda: False)
    room.keep(write)
    late = Room(tmp_path, deadline=time.monotonic(), report=said.append, is_over=lambda: False)
    full.append(DiskFullError("The disk is full."))
    with pytest.raises(DiskFullError):
        late.keep(write)

    assert written == [1]
    assert said == [
        "The disk is full. The lane waits for room: no further run is started, and nothing that was "
        "written is lost. Make room there (delete what is not of this lane).",
        f"There is room in {tmp_path} again; the lane goes on.",
    ]


@pytest.mark.parametrize("seconds", [-200, 200])
def test_segments_are_stamped_with_the_earlier_clock(
    store: LoopbackStore, tmp_path: Path, seconds: int
) -> None:
    store.clock_offset = timedelta(seconds=seconds)

    run(make_lane(tmp_path, "ok1"), store.url)

    # Not before the opening, which only the store's clock tells.
    expected = clock.now() + timedelta(seconds=seconds)
    stamps = [from_rfc3339(header["created_at"]) for header in store.headers()]
    assert all(abs(stamp - expected) < timedelta(seconds=60) for stamp in stamps)


def from_rfc3339(text: str) -> datetime:
    return datetime.fromisoformat(text)


HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("opened", "heard", "stamped"),
    [
        pytest.param(-HOUR, 0 * HOUR, 0 * HOUR, id="both-right"),
        pytest.param(-HOUR, 2 * HOUR, 0 * HOUR, id="store-set-ahead"),
        pytest.param(-HOUR, -2 * HOUR, -HOUR, id="store-set-back"),
        pytest.param(-3 * HOUR, -2 * HOUR, -2 * HOUR, id="store-set-back-late"),
        pytest.param(HOUR, 2 * HOUR, HOUR, id="own-clock-behind"),
    ],
)
def test_stamp_is_one_that_either_clock_allows(
    opened: timedelta, heard: timedelta, stamped: timedelta
) -> None:
    known = StoreClock()
    now = clock.now()
    for date in (format_datetime(now + heard, usegmt=True), None, "yesterday"):
        known.hear(date)

    stamp = known.stamp(opened_at=now + opened)

    assert abs(stamp - (now + stamped)) < timedelta(minutes=1)


def test_clock_of_a_store_that_said_nothing_is_this_machines() -> None:
    begun = clock.now()

    assert timedelta() <= StoreClock().now() - begun < timedelta(minutes=1)
