"""Where a token may come from, and that nobody reads it off the lane's process."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from evalhub.runner import cli
from evalhub.runner.errors import Exit
from tests.evalhub.runner.lanes import AGENT, lane_process, make_lane, push_process, run
from tests.evalhub.runner.loopback import RUN_TOKEN, LoopbackStore

pytestmark = pytest.mark.slow

# Reads what the kernel shows of the process that started the agent's guardian, and of its world.
SPY = """
import os, pathlib
def parent(pid):
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
lane = parent(os.getppid())
pids = [lane] + [int(p) for p in pathlib.Path(f"/proc/{lane}/task/{lane}/children").read_text().split()]
for pid in pids:
    try:
        print(f"looked at {pid} of {lane}", b"run-token" in open(f"/proc/{pid}/environ", "rb").read())
    except OSError as error:
        print("refused", error)
"""


def log_of(store: LoopbackStore) -> str:
    return store.items()["lane/logs/agent.1.log"].decode()


def test_an_agent_finds_no_token_in_the_lanes_environment(
    store: LoopbackStore, tmp_path: Path
) -> None:
    made = make_lane(tmp_path)
    Path(made.command[1]).write_text(SPY + AGENT)
    lane = lane_process(made, store.url, "--simulator", "evalhub.payments")

    _, errors = lane.communicate(timeout=60)

    assert lane.returncode == Exit.GOOD, errors
    looks = [
        line for line in log_of(store).splitlines() if "looked at" in line or "refused" in line
    ]
    assert len(looks) >= 2
    assert not [line for line in looks if line.endswith("True")]
    if os.geteuid() == 0:
        assert all(line.endswith("False") for line in looks)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can read the lane's environment at all")
def test_the_guard_refuses_a_lane_whose_environment_shows_the_token(
    store: LoopbackStore, tmp_path: Path
) -> None:
    made = make_lane(tmp_path)
    # As a program that embeds the command: nothing started it again.
    program = "import sys; from evalhub.runner import cli; sys.exit(cli.main(sys.argv[1:]))"
    flags = ["--plan", str(tmp_path / "plan.json"), "--lane", "ordinary-1", "--spool", "sp"]
    done = subprocess.run(
        [sys.executable, "-c", program, "lane", "run", *flags, *made.command],
        env={**os.environ, "EVALHUB_URL": store.url, "EVALHUB_TOKEN": RUN_TOKEN},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == Exit.GUARD_REFUSED, done.stderr
    assert "saw EVALHUB_TOKEN in /proc/" in done.stderr
    assert RUN_TOKEN not in done.stderr
    assert RUN_TOKEN not in json.dumps(store.document("lane/preflight.json"))


def test_a_push_sends_with_the_token_that_was_handed_on(
    store: LoopbackStore, tmp_path: Path
) -> None:
    made = make_lane(tmp_path)
    run(made, store.url)
    for receipt in made.attempt.glob("segments/*.receipt.json"):
        receipt.unlink()

    push = push_process(store.url, str(made.spool))
    _, errors = push.communicate(timeout=60)

    assert push.returncode == Exit.GOOD, errors
    assert store.requests["token"] == 1


def test_a_token_comes_from_a_file_too(
    store: LoopbackStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    token = tmp_path / "token"
    monkeypatch.setenv("EVALHUB_URL", store.url)
    monkeypatch.delenv("EVALHUB_TOKEN", raising=False)
    monkeypatch.setenv("EVALHUB_TOKEN_FILE", str(token))
    made = make_lane(tmp_path)
    plan = str(tmp_path / "plan.json")
    flags = ["--plan", plan, "--lane", "ordinary-1", "--spool", str(made.spool)]

    assert cli.main(["lane", "run", *flags, *made.command]) == Exit.WRONG_INPUT
    assert "EVALHUB_TOKEN_FILE was" in capsys.readouterr().err
    token.write_text("\n")
    assert cli.main(["lane", "run", *flags, *made.command]) == Exit.WRONG_INPUT
    assert "which is empty" in capsys.readouterr().err
    token.write_text(f"{RUN_TOKEN}\n")
    assert cli.main(["lane", "run", *flags, *made.command]) == Exit.GOOD


def test_a_descriptor_that_is_none_is_told_in_a_sentence(store: LoopbackStore) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "evalhub.runner.cli", "plans"],
        env={**os.environ, "EVALHUB_URL": store.url, "EVALHUB_TOKEN_FD": "77"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == Exit.WRONG_INPUT
    assert done.stderr.startswith("EVALHUB_TOKEN_FD was '77'; expected it absent")
