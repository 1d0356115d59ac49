"""What the agent's process may see: an allow-list, the contract of WIRE 5, and nothing of the lane."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from evalhub.protocol.plan import Plan, PlannedLane, RunKey
from evalhub.runner.errors import InputError
from evalhub.runner.held_token import LANE_SECRETS

# What programs need to find themselves, their certificates and a place for temporary files.
_ALLOWED = frozenset(
    {
        "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TZ", "TMPDIR", "LANG", "LANGUAGE",
        "VIRTUAL_ENV", "PYTHONPATH", "PYTHONUNBUFFERED", "PYTHONIOENCODING", "NODE_PATH",
        "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS",
        "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
        "LD_LIBRARY_PATH", "CI",
    }
)  # fmt: skip


class SimulatorAddress(NamedTuple):
    """Where the lane's world answers, and the key that it asks for (None: it asks for none)."""

    url: str
    key: str | None


def inherited(environment: Mapping[str, str], *, passed: Iterable[str]) -> dict[str, str]:
    """Return what of the lane's environment the agent may see: the allow-list and `passed`.

    Raises:
        InputError: if `passed` names what would let the agent act as the lane.
    """
    names = set(passed)
    for name in sorted(names & {*LANE_SECRETS, "EVALHUB_TOKEN_FILE"}):
        raise InputError(
            f"--pass-env was {name}; expected a variable of the agent's own: with {name} the agent "
            "could write its own evidence."
        )
    allowed = _ALLOWED | names
    return {
        name: value
        for name, value in environment.items()
        if name in allowed or name.startswith("LC_")
    }


def lane_variables(
    lane: PlannedLane, *, simulator: SimulatorAddress | None, memory_dir: Path | None
) -> dict[str, str]:
    """Return the variables that are the same for every run of a lane."""
    variables = {"EVALHUB_MEMORY": "1" if lane.memory else "0"}
    if memory_dir is not None:
        variables["EVALHUB_MEMORY_DIR"] = str(memory_dir)
    if simulator is not None:
        variables["EVALHUB_SIMULATOR_URL"] = simulator.url
        if simulator.key is not None:
            variables["EVALHUB_SIMULATOR_KEY"] = simulator.key
    return variables


def run_variables(plan: Plan, key: RunKey, *, folder: Path) -> dict[str, str]:
    """Return the variables of one run, as WIRE 5 names them."""
    arm = plan.arm(key.arm)
    file = next(s.file for s in plan.scenarios if s.id == key.scenario)
    variables = {
        "EVALHUB_RUN_DIR": str(folder),
        "EVALHUB_SCENARIO": key.scenario,
        "EVALHUB_ARM": key.arm,
        "EVALHUB_SUBJECT": arm.subject,
        "EVALHUB_MODEL": arm.model,
        "EVALHUB_CONDITION": arm.condition,
        "EVALHUB_EPOCH": str(key.epoch),
    }
    if file is not None:
        # The agent may change its folder; a path from here stays right.
        variables["EVALHUB_SCENARIO_FILE"] = str(Path(file).absolute())
    return variables


def held_secrets(environment: Mapping[str, str], *, lane_token: str) -> list[str]:
    """Return the values that the agent must not see."""
    named = [environment[name] for name in LANE_SECRETS if environment.get(name)]
    return [lane_token, *named]


def leaked(seen: Mapping[str, str], *, secrets: Iterable[str]) -> list[str]:
    """Return the names of variables in `seen` that hold one of `secrets`."""
    held = [secret for secret in secrets if secret]
    return sorted(n for n, value in seen.items() if any(secret in value for secret in held))


def command_path(command: str, *, environment: Mapping[str, str]) -> str | None:
    """Return the program that a command would start in that environment; None if there is none."""
    if "/" in command:
        path = Path(command)
        return str(path) if path.is_file() and os.access(path, os.X_OK) else None
    for folder in environment.get("PATH", os.defpath).split(os.pathsep):
        candidate = Path(folder or ".") / command
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return str(candidate)
    return None
