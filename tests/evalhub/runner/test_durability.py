"""What outlives a loss of power, as the system calls of a real lane tell it."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from evalhub.runner.lane_log import LaneLog
from tests.evalhub.runner.lanes import lane_process, make_lane
from tests.evalhub.runner.loopback import LoopbackStore
from tests.evalhub.runner.test_killed_lane import AGENT
from tests.evalhub.runner.test_spool import make_spool

pytestmark = pytest.mark.slow

_FSYNC = re.compile(r"fsync\(\d+<([^>]+)>")
_RENAME = re.compile(r'rename(?:at2?)?\(.*"([^"]+)", (?:AT_FDCWD[^,]*, )?"([^"]+)"')
_PUT = re.compile(r'"PUT /api/v1/attempts/[^/]+/segments/(\d+) ')


def traced(trace: Path, spool: Path) -> list[str]:
    """Return what was synced, named and sent, in its order, with paths below the spool."""
    happened = []
    for line in trace.read_text(errors="replace").splitlines():
        if (synced := _FSYNC.search(line)) is not None:
            happened.append(f"sync {synced[1]}")
        elif (renamed := _RENAME.search(line)) is not None:
            happened.append(f"name {renamed[2]}")
        elif (put := _PUT.search(line)) is not None:
            happened.append(f"send {int(put[1])}")
    return [step.replace(f"{spool}/", "").replace(str(spool), ".") for step in happened]


def can_trace() -> bool:
    command = ["strace", "-qq", "-o", "/dev/null", "true"]
    return (
        shutil.which("strace") is not None and subprocess.run(command, check=False).returncode == 0
    )


def test_a_segment_is_on_the_disk_before_it_is_sent(store: LoopbackStore, tmp_path: Path) -> None:
    if not can_trace():
        pytest.skip("No strace here, or nobody may trace: nobody can see what is synced.")
    made = make_lane(tmp_path, "a")
    (tmp_path / "agent.py").write_text(AGENT)
    trace = tmp_path / "trace"
    calls = "trace=fsync,rename,renameat,renameat2,sendto"
    strace = ["strace", "-f", "-y", "-s", "100", "-e", calls, "-o", str(trace), sys.executable]

    with lane_process(made, store.url, program=strace) as lane:
        _, err = lane.communicate(timeout=120)

    assert lane.returncode == 0, err
    steps = traced(trace, made.attempt)
    assert steps.count("sync logs/agent.log") >= 1
    assert steps.index("name lane.json") < steps.index("sync .")
    assert store.segments
    for seq in store.segments:
        path = f"segments/{seq:06}.zip"
        written, named = steps.index(f"sync {path}.part"), steps.index(f"name {path}")
        assert written < named < steps.index("sync segments", named) < steps.index(f"send {seq}")
    parts = [
        seq
        for seq, names in zip(sorted(store.segments), store.names(), strict=True)
        if any("/transcript." in name or "/logs/" in name for name in names)
    ]
    for seq in parts:
        before = steps[: steps.index(f"name segments/{seq:06}.zip")]
        since = len(before) - before[::-1].index(f"name segments/{seq - 1:06}.zip")
        # What the part was made of is known before there is the part.
        assert "sync origins.ndjson" in before[since:]


def test_a_log_that_cannot_be_synced_is_told_once(tmp_path: Path) -> None:
    said: list[str] = []
    spool = make_spool(tmp_path / "s")
    (spool.folder / "logs" / "agent.log").symlink_to("/dev/null")
    log = LaneLog(spool, report=said.append)

    log.sync()
    log.sync()
    log.close()

    assert len(said) == 1
    assert "cannot be made safe against a loss of power" in said[0]
