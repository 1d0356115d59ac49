"""Lanes killed with -9 at random moments: what is older than the last flush is in the store, and a push
sends all the rest that was on disk, once.
"""

import json
import random
import time
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from evalhub.protocol.plan import RunKey
from evalhub.runner.client import Store
from evalhub.runner.errors import Exit
from evalhub.runner.resume import push_spool
from evalhub.runner.spool import Spool
from evalhub.runner.stopping import Stop
from tests.evalhub.runner.alive import eventually
from tests.evalhub.runner.lanes import MadeLane, lane_process, make_lane
from tests.evalhub.runner.loopback import RUN_TOKEN, LoopbackStore, loopback_store

pytestmark = pytest.mark.slow

KILLS = 6
LONGEST_SECONDS = 3.0

# Writes turns without a pause between two of them, and says so.
AGENT = """
import datetime, json, os, pathlib, time
folder = pathlib.Path(os.environ["EVALHUB_RUN_DIR"])
end = time.monotonic() + 1.5
number = 0
with (folder / "transcript.ndjson").open("w") as file:
    while time.monotonic() < end:
        number += 1
        at = datetime.datetime.now(datetime.UTC).isoformat().replace("+00:00", "Z")
        turn = {"turn": number, "at": at, "role": "assistant", "kind": "message", "text": "x" * 200}
        file.write(json.dumps(turn) + "\\n")
        file.flush()
        print("turn", number, flush=True)
        time.sleep(0.01)
(folder / "result.json").write_text(json.dumps({"outcome": "passed", "scores": {"resolved": 1.0}}))
"""


class Sent(NamedTuple):
    """A part of a transcript at the store, and when its segment says that it was made."""

    made_at: datetime
    turns: list[dict[str, Any]]


def sent_parts(store: LoopbackStore, key: RunKey) -> list[Sent]:
    items = store.items()
    headers = {path: h["created_at"] for h, names in named(store) for path in names}
    found: list[Sent] = []
    while (
        path := f"runs/{key.scenario}/{key.arm}/{key.epoch}/transcript.{len(found) + 1}.ndjson"
    ) in items:
        turns = [json.loads(line) for line in items[path].splitlines()]
        found.append(Sent(datetime.fromisoformat(headers[path]), turns))
    return found


def named(store: LoopbackStore) -> Iterator[tuple[dict[str, Any], list[str]]]:
    yield from zip(store.headers(), store.names(), strict=True)


def written_turns(spool: Spool, key: RunKey) -> list[dict[str, Any]]:
    """Return the whole lines of a transcript on disk."""
    path = spool.run_folder(key) / "transcript.ndjson"
    data = path.read_bytes() if path.exists() else b""
    return [json.loads(line) for line in data.split(b"\n")[:-1]]


def assert_old_turns_are_sent(store: LoopbackStore, spool: Spool, key: RunKey, told: str) -> None:
    """A turn was on disk before the next one was begun: it is in every part that was made after that."""
    parts = sent_parts(store, key)
    if not parts:
        return
    turns = written_turns(spool, key)
    sent = [turn for part in parts for turn in part.turns]
    old = [
        turn
        for turn, following in pairwise(turns)
        if datetime.fromisoformat(following["at"]) < parts[-1].made_at
    ]
    assert sent[: len(old)] == old, told


def killed(made: MadeLane, store: LoopbackStore, *, after_seconds: float) -> None:
    with lane_process(made, store.url, "--jobs", "2") as lane:
        assert eventually(lambda: store.requests["attempts"])
        time.sleep(after_seconds)
        lane.kill()


def assert_nothing_is_lost(made: MadeLane, store: LoopbackStore, told: str) -> bool:
    """Compare store and disk, push, and compare again; return whether a run was cut while it went on."""
    if not list(made.spool.glob("*/lane.json")):
        return False
    spool = Spool.opened(made.attempt)
    unsent = {segment.seq for segment in spool.unsent()}
    for segment in spool.segments():
        if segment.seq not in unsent:
            assert store.segments[segment.seq] == segment.path.read_bytes(), told
    keys = spool.lane.run_keys
    for key in keys:
        assert_old_turns_are_sent(store, spool, key, told)
    streamed = any(sent_parts(store, key) and spool.ended(key) is None for key in keys)
    before = dict(store.segments)

    said: list[str] = []
    with Store(store.url, RUN_TOKEN) as client:
        report = push_spool(client, made.attempt, seconds=60, stop=Stop(), report=said.append)

    assert (report.exit_code, report.sealed) == (Exit.GOOD, True), (told, said)
    assert {seq: store.segments[seq] for seq in before} == before, told
    for key in keys:
        sent = [turn for part in sent_parts(store, key) for turn in part.turns]
        assert sent == written_turns(spool, key), told
    written = made.attempt / "logs" / "agent.log"
    log = written.read_bytes() if written.exists() else b""
    parts = {
        int(p.split(".")[1]): d for p, d in store.items().items() if p.startswith("lane/logs/")
    }
    in_order = [parts[number] for number in sorted(parts)]
    assert b"".join(in_order) == log, told
    assert all(data.endswith(b"\n") for data in in_order[:-1]), told
    return streamed


def test_lanes_that_are_killed_at_random_moments_lose_nothing(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(2**32)
    chance = random.Random(seed)  # noqa: S311 - no secret
    streamed = 0
    for kill in range(KILLS):
        folder = tmp_path / str(kill)
        folder.mkdir()
        after_seconds = chance.uniform(0, LONGEST_SECONDS)
        told = f"seed {seed}, kill {kill}, after {after_seconds:.3f} s"
        made = make_lane(folder, "a", "b", "c", epochs=1)
        (folder / "agent.py").write_text(AGENT)
        with loopback_store() as store:
            killed(made, store, after_seconds=after_seconds)
            streamed += assert_nothing_is_lost(made, store, told)

    assert streamed, f"seed {seed}: no lane died in the middle of a run of which something was sent"
