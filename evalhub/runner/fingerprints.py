"""Where a lane ran, in keyed fingerprints: lanes can be compared, nothing can be read back."""

import hashlib
import hmac
import platform
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from evalhub.protocol.plan import Plan, PlannedLane
from evalhub.protocol.scalars import rfc3339

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_CGROUP = Path("/proc/self/cgroup")


def fingerprint(value: str, *, salt: str) -> str:
    """Return the keyed fingerprint of a value: HMAC-SHA256 under the project's salt.

    >>> fingerprint("a", salt="s") == fingerprint("a", salt="s") != fingerprint("a", salt="t")
    True
    """
    return "sha256:" + hmac.new(salt.encode(), value.encode(), hashlib.sha256).hexdigest()


def environment_record(
    plan: Plan,
    lane: PlannedLane,
    *,
    salt: str,
    simulator: Mapping[str, Any] | None,
    simulator_started_at: datetime | None,
) -> dict[str, Any]:
    """Return `lane/environment.json`. `simulator` is the simulator's own state, None without one.

    Fields that this lane cannot know are null, which reads as unproven, never as proven.
    """
    simulators = []
    if simulator is not None:
        simulators = [_simulator(simulator, salt=salt, started_at=simulator_started_at)]
    return {
        "tier": lane.environment.tier,
        "image_digest": plan.source.image_digest,
        "lockfile_digest": plan.source.lockfile_digest,
        "machine": {
            "boot_id": _keyed(_read(_BOOT_ID), salt=salt),
            "hostname": _keyed(platform.node(), salt=salt),
            "container": _keyed(_container(), salt=salt),
        },
        "simulators": simulators,
        "pool": _keyed(lane.pool, salt=salt),
        "canary": None,
        "memory": lane.memory,
    }


def _simulator(
    state: Mapping[str, Any], *, salt: str, started_at: datetime | None
) -> dict[str, Any]:
    return {
        "name": state["name"],
        "instance_id": fingerprint(state["instance_id"], salt=salt),
        "world_ids": [fingerprint(world, salt=salt) for world in state["world_ids"]],
        "started_at": rfc3339(started_at) if started_at is not None else None,
        "seed_digest": state["seed_digest"],
        "final_digest": state["final_digest"],
        "requests": state["requests"]["total"],
        "foreign_requests": state["requests"]["foreign"],
    }


def _keyed(value: str | None, *, salt: str) -> str | None:
    return fingerprint(value, salt=salt) if value else None


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None


def _container() -> str | None:
    """Return the control group of this process where it is one of a container, else None."""
    groups = _read(_CGROUP) or ""
    path = groups.rpartition(":")[2]
    return path if path not in {"", "/"} and not path.startswith(("/user", "/init")) else None
