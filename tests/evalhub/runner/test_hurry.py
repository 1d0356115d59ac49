"""A signal leaves a lane little time, also while the store takes requests and says nothing."""

import signal
import subprocess
from pathlib import Path

import httpx
import pytest

from evalhub.runner.connection import delay_seconds
from evalhub.runner.errors import Exit
from evalhub.runner.refusals import seconds_asked_for
from tests.evalhub.runner.alive import eventually, is_alive, number_in
from tests.evalhub.runner.lanes import MadeLane, lane_process, make_lane, push_process, run
from tests.evalhub.runner.loopback import LoopbackStore

pytestmark = pytest.mark.slow

# What CI gives a cancelled job before it is killed.
CI_SECONDS = 10
FOR_EVER = 10_000


def cancelled(process: "subprocess.Popen[str]") -> str:
    """End a process as CI does; return what it complained of, if it ended before it was killed."""
    process.send_signal(signal.SIGTERM)
    try:
        _, err = process.communicate(timeout=CI_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        _, err = process.communicate()
        pytest.fail(f"It did not end in time: {err}")
    assert "Traceback" not in err
    assert "Exception in thread" not in err
    return err


def push(store: LoopbackStore, made: MadeLane) -> None:
    with push_process(store.url, str(made.attempt)) as process:
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "is sealed" in out


def test_a_lane_is_gone_in_time_while_the_store_hangs(store: LoopbackStore, tmp_path: Path) -> None:
    made = make_lane(tmp_path, "ok1", "slow")
    for call in ("segment", "heartbeat"):
        store.troubled(call, *["hang"] * FOR_EVER)
    with lane_process(made, store.url) as lane:
        agent = number_in(made.spool / "att_abcdefghij0123456789/runs/slow/candidate/1/pid")
        assert eventually(lambda: store.hanging["segment"] and store.hanging["heartbeat"])
        err = cancelled(lane)

    assert lane.returncode == Exit.STORE_UNREACHABLE
    assert "stopped before its end: SIGTERM" in err
    assert f"go on with `evalhub push {made.attempt}`" in err
    assert not is_alive(agent)
    assert store.segments == {}
    for call in ("segment", "heartbeat"):
        store.troubled(call)
    push(store, made)
    assert b"begin" in store.items()["runs/slow/candidate/1/transcript.1.ndjson"]


def test_a_lane_is_gone_in_time_while_its_seal_hangs(store: LoopbackStore, tmp_path: Path) -> None:
    made = make_lane(tmp_path, "ok1")
    store.troubled("seal", "hang")
    with lane_process(made, store.url) as lane:
        assert eventually(lambda: store.hanging["seal"])
        err = cancelled(lane)

    assert lane.returncode == Exit.STORE_UNREACHABLE
    assert "had not answered when it was time to end" in err
    assert "stopped before its end: SIGTERM" in err
    push(store, made)


def test_a_push_is_gone_in_time_while_its_token_hangs(store: LoopbackStore, tmp_path: Path) -> None:
    made = make_lane(tmp_path, "ok1")
    run(made, store.url)
    store.troubled("token", "hang")
    with push_process(store.url, str(made.attempt)) as process:
        assert eventually(lambda: store.hanging["token"])
        err = cancelled(process)

    assert process.returncode == Exit.STORE_UNREACHABLE
    assert "had not answered when it was time to end" in err


@pytest.mark.parametrize("trouble", ["429", "503"])
def test_a_store_that_asks_for_a_pause_gets_it_and_then_everything(
    store: LoopbackStore, tmp_path: Path, trouble: str
) -> None:
    for call in ("segment", "seal", "heartbeat"):
        store.troubled(call, trouble, trouble)

    report, said = run(make_lane(tmp_path, "ok1"), store.url)

    assert report.exit_code == Exit.GOOD
    assert sum("Evidence waits in" in line for line in said) == 1


@pytest.mark.parametrize(
    ("retry_after", "seconds"),
    [
        ("7", 7),
        ("1000000", 600),
        ("9" * 400, 600),
        ("Wed, 30 Nov 2099 14:00:00 GMT", 600),
        ("Fri, 01 Jan 2027 00:00:30 GMT", 30),
        ("Fri, 01 Jan 2027 00:00:30", 0),
        ("Thu, 31 Dec 2026 00:00:00 GMT", 0),
        ("-5", 0),
        ("soon", 0),
        ("", 0),
    ],
)
def test_retry_after_is_a_number_or_a_date_by_the_stores_clock(
    retry_after: str, seconds: int
) -> None:
    date = "Fri, 01 Jan 2027 00:00:00 GMT"
    answer = httpx.Response(503, headers={"Retry-After": retry_after, "Date": date})

    assert seconds_asked_for(answer) == seconds


def test_delays_are_spread_over_all_that_they_may_be() -> None:
    first = [delay_seconds(1, asked_for=0) for _ in range(300)]
    later = [delay_seconds(7, asked_for=0) for _ in range(300)]
    asked = [delay_seconds(1, asked_for=5) for _ in range(300)]

    assert 0.1 <= min(first) < 0.15 < 0.4 < max(first) <= 0.5
    assert 0.1 <= min(later) < 5 < 25 < max(later) <= 30
    assert 5 < min(asked) < 5.2 < 5.3 < max(asked) <= 5.5
    # A store may be away for days.
    assert delay_seconds(100_000, asked_for=0) <= 30
