"""A small evaluation on a house: its plan, its lane as a real process, and what must be true of it."""

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import httpx

from evalhub.protocol.canonical import bytes_digest, canonical_bytes
from evalhub.runner import clock
from lanes.projects.models import Project
from tests.faults.house import PROJECT, REPOSITORY_ID, House, answered
from tests.lanes.factories import CHECK_FINGERPRINT, plan_document
from tests.programs.processes import wait_for

_AGENT = """
import json, os, pathlib, sys, time, uuid
folder, scenario = pathlib.Path(os.environ["EVALHUB_RUN_DIR"]), os.environ["EVALHUB_SCENARIO"]
gates = pathlib.Path(sys.argv[1])
call = str(uuid.uuid5(uuid.NAMESPACE_URL, sys.argv[2] + scenario))
turn = {"turn": 1, "role": "user", "kind": "message", "text": f"Work on {scenario}. " + "x" * int(sys.argv[3])}
(folder / "transcript.ndjson").write_text(json.dumps(turn) + "\\n")
(folder / "judge.ndjson").write_text(json.dumps({
    "call_id": call, "rubric": "resolved", "stage": "check", "fingerprint": sys.argv[4], "repeat": 1,
    "value": 1.0, "rationale": "Done.", "cites": [1], "cost_microusd": 7, "cost_source": "provider",
}) + "\\n")
(folder / "result.json").write_text(json.dumps({"outcome": "passed", "scores": {"latency_s": 1.5}}))
(gates / f"{scenario}.written").touch()
while not (gates / "open").exists() and not (gates / scenario).exists():
    time.sleep(0.05)
"""
_COUNTED = (
    *("attempts", "runs", "judge calls", "scores", "ledger entries", "refusals", "conclusions"),
    "undelivered checks",
)
_COUNTS = """
SELECT
  (SELECT count(*) FROM lanes_plans_attempt a JOIN lanes_plans_lane l ON l.id = a.lane_id
    WHERE l.plan_id = p.id),
  (SELECT count(*) FROM evidence_store_run WHERE plan_id = p.id),
  (SELECT count(*) FROM evidence_store_judgecall c JOIN evidence_store_run r ON r.id = c.run_id
    WHERE r.plan_id = p.id),
  (SELECT count(*) FROM evidence_store_score s JOIN evidence_store_run r ON r.id = s.run_id
    WHERE r.plan_id = p.id),
  (SELECT count(*) FROM lanes_budget_ledgerentry WHERE plan = p.digest),
  (SELECT count(*) FROM evidence_store_refusal WHERE plan_id = p.id),
  (SELECT count(*) FROM gates_decisions_conclusion WHERE plan_id = p.id),
  (SELECT count(*) FROM gates_checks_check
    WHERE head_sha = p.head_sha AND sent_version < desired_version)
FROM lanes_plans_plan p WHERE p.digest = %s
"""
_SEGMENTS = """
SELECT s.sha256, s.receipt, s.object_key FROM evidence_store_segment s
JOIN lanes_plans_attempt a ON a.id = s.attempt_id JOIN lanes_plans_lane l ON l.id = a.lane_id
JOIN lanes_plans_plan p ON p.id = l.plan_id WHERE p.digest = %s
"""
_ATTEMPTS = """
SELECT a.state FROM lanes_plans_attempt a JOIN lanes_plans_lane l ON l.id = a.lane_id
JOIN lanes_plans_plan p ON p.id = l.plan_id WHERE p.digest = %s ORDER BY a.number DESC
"""
FIRST = "action_required"
"""How a plan is concluded that has nothing to be compared with, which is no fault."""
_numbers = count(1)


class Evaluation:
    """A registered plan of one lane with some runs, and its lane process.

    The agent of a run writes what it has to say at once, and ends when the gate of its scenario is
    opened, or all of them are.
    """

    def __init__(
        self,
        house: House,
        folder: Path,
        *,
        runs: int = 3,
        ahead: timedelta = timedelta(),
        deadline_minutes: int = 240,
    ) -> None:
        self.house = house
        self.folder = folder
        self.runs = runs
        self.number = next(_numbers)
        # Another commit each: none of them shares a check, or has one superseded.
        self.head_sha = f"{self.number:040x}"
        self.scenarios = [f"s{i}" for i in range(1, runs + 1)]
        document = plan_document(
            Project(name=PROJECT, repository_id=REPOSITORY_ID),
            policy_digest=house.policy_digest,
            at=clock.now() + ahead,
            scenarios=[(scenario, "orders") for scenario in self.scenarios],
            source={"head_sha": self.head_sha, "pull_request": self.number},
            deadline_minutes=deadline_minutes,
        )
        (folder / "plan.json").write_bytes(canonical_bytes(document))
        self.digest = str(answered(house.request("POST", "plans", json=document))["digest"])
        self.gates = folder / "gates"
        self.gates.mkdir()
        (folder / "agent.py").write_text(_AGENT)
        self.spool = folder / "spool"
        self.said_path = folder / "lane.err"
        self.transcript_bytes = 100
        self._process: subprocess.Popen[bytes] | None = None

    # The lane

    @contextmanager
    def lane(self, *flags: str, jobs: int = 1, spool: Path | None = None) -> Iterator[None]:
        """Run the lane beside the block, and end it with it."""
        agent = [sys.executable, str(self.folder / "agent.py"), str(self.gates), self.digest]
        command = [
            *("lane", "run", "--plan", str(self.folder / "plan.json"), "--lane", "ordinary-1"),
            *("--spool", str(spool or self.spool), "--jobs", str(jobs), *flags, "--", *agent),
            *(str(self.transcript_bytes), CHECK_FINGERPRINT),
        ]
        self._process = self._started(*command)
        try:
            yield
        finally:
            self._process.kill()
            self._process.wait()

    def _started(self, *command: str) -> "subprocess.Popen[bytes]":
        kept = {n: v for n, v in os.environ.items() if not n.startswith(("EVALHUB_", "GITHUB_"))}
        with self.said_path.open("ab") as said:
            return subprocess.Popen(
                [sys.executable, "-m", "evalhub.runner.cli", *command],
                env={**kept, "EVALHUB_URL": self.house.url, "EVALHUB_TOKEN": self.house.token},
                stdout=said,
                stderr=said,
            )

    @property
    def process(self) -> "subprocess.Popen[bytes]":
        assert self._process is not None
        return self._process

    @property
    def said(self) -> str:
        return self.said_path.read_text()

    def wait_until_written(self, scenario: str, *, seconds: float = 60) -> None:
        """Wait until the agent of a run has written all that it has to say."""
        assert wait_for((self.gates / f"{scenario}.written").exists, seconds), self.said

    def open_gate(self, scenario: str = "open") -> None:
        (self.gates / scenario).touch()

    def wait_until_said(self, words: str, *, seconds: float = 60) -> None:
        assert wait_for(lambda: words in self.said, seconds), self.said

    def wait_for_segments(self, number: int, *, seconds: float = 60) -> None:
        """Wait until the lane holds that many receipts."""
        assert wait_for(lambda: len(self.receipts()) >= number, seconds), self.said

    def end(self, *, code: int = 0, seconds: float = 90) -> None:
        """Wait for the lane to end by itself, as it should."""
        self.open_gate()
        assert self.process.wait(seconds) == code, self.said
        assert "Traceback" not in self.said

    def push(self, *, seconds: float = 90) -> None:
        """Send what the lane left in its spool."""
        process = self._started("push", str(self.spool))
        assert process.wait(seconds) == 0, self.said

    def receipts(self) -> list[dict[str, Any]]:
        """Return the receipts that the lane holds."""
        return [json.loads(p.read_bytes()) for p in self.spool.glob("*/segments/*.receipt.json")]

    # What must be true

    def wait_for_conclusion(self, word: str = FIRST, *, seconds: float = 60) -> None:
        """Wait until GitHub shows how the plan was concluded."""
        is_shown = wait_for(lambda: bool(self.check_runs(conclusion=word)), seconds)
        assert is_shown, (self.check_runs(), self.counts())

    def check_runs(self, **fields: str) -> list[dict[str, Any]]:
        found = self.house.github.check_runs(PROJECT, self.head_sha)
        return [run for run in found if all(run[n] == v for n, v in fields.items())]

    def assert_nothing_lost_or_doubled(self) -> None:
        """Compare receipts, rows, objects, ledger, conclusion and check with an undisturbed evaluation."""
        self.assert_receipts_are_true()
        assert self.counts() == {
            "attempts": 1,
            "runs": self.runs,
            "judge calls": self.runs,
            "scores": 2 * self.runs,
            "ledger entries": self.runs,
            "refusals": 0,
            "conclusions": 1,
            "undelivered checks": 0,
        }
        (run,) = self.check_runs()
        assert (run["status"], run["conclusion"]) == ("completed", FIRST)

    def assert_receipts_are_true(self) -> None:
        """Read back everything that the lane's receipts promise: rows, bytes and receipt objects."""
        given = self.receipts()
        assert given
        stored = {sha256: rest for sha256, *rest in self.house.rows(_SEGMENTS, self.digest)}
        for receipt in given:
            kept, key = stored[receipt["sha256"]]
            assert (json.loads(kept) if isinstance(kept, str) else kept) == receipt
            with self.house.objects.open(key) as file:
                assert bytes_digest(file.read()) == receipt["sha256"]
            self._wait_for_object(f"{key.removesuffix('.zip')}.receipt.json")

    def _wait_for_object(self, key: str) -> None:
        assert wait_for(lambda: self.house.objects.exists(key), 20), key

    def attempt_state(self) -> str:
        """Return the state of the newest attempt."""
        return str(self.house.rows(_ATTEMPTS, self.digest)[0][0])

    def counts(self) -> dict[str, int]:
        """Return how many rows of each kind there are of this evaluation."""
        (numbers,) = self.house.rows(_COUNTS, self.digest)
        return dict(zip(_COUNTED, numbers, strict=True))


def register_large_plans(house: House, *, most: int = 12) -> httpx.Response:
    """Register plans that need room in the database until one is refused; return the last answer."""
    answer = httpx.Response(0)
    for number in range(most):
        document = plan_document(
            Project(name=PROJECT, repository_id=REPOSITORY_ID),
            policy_digest=house.policy_digest,
            at=clock.now(),
            scenarios=[(secrets.token_hex(40), "orders") for _ in range(2000)],
            source={"pull_request": 1_000_000 + number},
        )
        answer = house.request("POST", "plans", json=document)
        if not answer.is_success:
            break
    return answer
