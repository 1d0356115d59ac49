"""What a lane checks before it uses anything scarce. Each guard looks at the thing itself."""

import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, NamedTuple

from evalhub.protocol.plan import PlannedLane
from evalhub.protocol.scalars import rfc3339
from evalhub.runner.agent_environment import command_path, leaked
from evalhub.runner.processes import RunProcess

# The store takes a segment for stale that was made more than 5 minutes before its attempt.
_CLOCK_SECONDS = 240
_PROBE_SECONDS = 20.0
# Starts the way the agent starts and prints what it sees: of itself, and of the lane's process.
_PROBE = """
import json, os, sys
try:
    with open(f"/proc/{sys.argv[1]}/environ", "rb") as file:
        lane = dict(v.split("=", 1) for v in os.fsdecode(file.read()).split("\\0") if "=" in v)
except OSError:
    lane = {}
json.dump([dict(os.environ), lane], sys.stdout)
"""


class Checked(NamedTuple):
    """What a guard expected and saw; `fix` says what to do where the two differ."""

    name: str
    expected: object
    observed: object
    fix: str

    @property
    def result(self) -> str:
        return "ok" if self.expected == self.observed else "failed"


class PreflightReport(NamedTuple):
    """`lane/preflight.json`, and the guards that failed."""

    record: dict[str, Any]
    failed: list[Checked]


Check = Callable[[], Checked]


def preflight(checks: Sequence[Check], *, clock: Callable[[], datetime]) -> PreflightReport:
    """Run every check, also after one failed: a person mends all of them at once."""
    rows, failed = [], []
    for check in checks:
        at, begun = clock(), time.monotonic()
        checked = check()
        if checked.result != "ok":
            failed.append(checked)
        rows.append(
            {
                "name": checked.name,
                "expected": checked.expected,
                "observed": checked.observed,
                "result": checked.result,
                "at": rfc3339(at),
                "duration_ms": round((time.monotonic() - begun) * 1000),
                "fix": checked.fix,
            }
        )
    return PreflightReport({"guards": rows}, failed)


def clock_check(store_date: str | None, *, at: datetime) -> Checked:
    """Compare this machine's clock with the store's, as its answer gave it."""
    fix = "Look at the clocks of this machine and of the store, and set the wrong one (NTP)."
    expected = f"within {_CLOCK_SECONDS} s of the store"
    if store_date is None:
        return Checked("clock", expected, "the store gave no time", fix)
    difference = at - parsedate_to_datetime(store_date)
    if abs(difference) <= timedelta(seconds=_CLOCK_SECONDS):
        return Checked("clock", expected, expected, fix)
    return Checked("clock", expected, f"{difference.total_seconds():+.0f} s", fix)


def agent_command_check(command: Sequence[str], *, environment: Mapping[str, str]) -> Checked:
    """Look for the program that the lane is to start, where the agent's own PATH finds it."""
    found = command_path(command[0], environment=environment)
    fix = "Install the agent, or give the path of its program after `--`."
    observed = command[0] if found is not None else "not found or not executable"
    return Checked("agent_command", command[0], observed, fix)


def simulator_check(
    lane: PlannedLane, state: Mapping[str, Any] | None, *, problem: str | None
) -> Checked:
    """Compare the world that runs with the one that the plan names."""
    planned = lane.environment.simulator
    fix = "Start the lane with --simulator evalhub.payments and the --simulator-seed of the plan."
    if state is None:
        expected: object = planned.model_dump(mode="json") if planned else "a simulator"
        return Checked("simulator_up", expected, problem or "no simulator was started", fix)
    if planned is None:
        return Checked("simulator_up", "up", "up", fix)
    wanted = planned.model_dump(mode="json", exclude_none=True)
    return Checked("simulator_up", wanted, {name: state.get(name) for name in wanted}, fix)


class AgentsView(NamedTuple):
    """The environment that a process of the agent sees; None if none could be started."""

    environment: Mapping[str, str] | None
    problem: str | None
    of_lane: Mapping[str, str] = {}
    """What it can read of the environment that the lane's own process was started with."""


def agents_view(environment: Mapping[str, str]) -> AgentsView:
    """Start a process as the agent is started and return what it sees."""
    lines: list[bytes] = []
    command = [sys.executable, "-I", "-S", "-c", _PROBE, str(os.getpid())]
    process = RunProcess(command, environment=environment, on_line=lines.append)
    end = process.wait(_PROBE_SECONDS)
    if end is None:
        process.end()
        return AgentsView(None, f"no answer within {_PROBE_SECONDS:.0f} s")
    if end.exit_code != 0:
        return AgentsView(None, end.error or f"exit code {end.exit_code}")
    # One line, which comes in pieces where it is long.
    own, of_lane = json.loads(b"".join(lines))
    return AgentsView(own, None, of_lane)


def secrets_check(view: AgentsView, *, secrets: Sequence[str]) -> Checked:
    """Look whether a process of the agent holds, or can read, what lets it act as the lane."""
    fix = "Take the variable out of --pass-env: with it the agent could write its own evidence."
    expected = "no secret of the lane"
    if view.environment is None:
        return Checked("agent_environment", expected, view.problem, fix)
    names = leaked(view.environment, secrets=secrets)
    readable = leaked(view.of_lane, secrets=secrets)
    if readable and not names:
        names = [f"{name} in /proc/{os.getpid()}/environ" for name in readable]
        fix = (
            f"Start the lane without {', '.join(readable)} (EVALHUB_TOKEN_FILE names a file that "
            "holds the token), or as another user than root: the agent can read it."
        )
    return Checked("agent_environment", expected, ", ".join(names) or expected, fix)


def memory_check(lane: PlannedLane, view: AgentsView) -> Checked:
    """Look whether the agent has a memory of its own, empty, exactly where the plan wants one."""
    fix = "Run the lane with a fresh --spool: its memory begins empty and belongs to it alone."
    expected = "on" if lane.memory else "off"
    seen = view.environment or {}
    folder = seen.get("EVALHUB_MEMORY_DIR")
    if folder is None:
        observed = "off" if seen.get("EVALHUB_MEMORY") == "0" else view.problem or "on"
    elif any(Path(folder).iterdir()):
        observed = f"on, but {folder} is not empty"
    else:
        observed = "on" if os.access(folder, os.W_OK) else f"on, but {folder} is not writable"
    return Checked("memory_effect", expected, observed, fix)
