"""The object store is away, frozen or overloaded, while lanes send and people read."""

import base64
import hashlib
import os
import threading
from collections import Counter
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from evidence.store.operations.uploads import MOST_AT_ONCE
from tests.faults.evaluations import Evaluation
from tests.faults.house import ScatteredHouse, answered, freeze, thaw
from tests.programs.processes import wait_for

pytestmark = pytest.mark.journey


def test_store_that_is_killed_costs_time_and_nothing_else(
    house: ScatteredHouse, tmp_path: Path
) -> None:
    evaluation = Evaluation(house, tmp_path)
    assert house.signed_in
    with evaluation.lane():
        evaluation.open_gate("s1")
        evaluation.wait_until_written("s2")
        run = first_run(evaluation)
        assert house.page(f"/runs/{run}/").status_code == 200

        house.s3.kill()
        evaluation.open_gate("s2")
        evaluation.wait_until_said("cannot work now (503): The object store")
        page = house.page(f"/runs/{run}/")
        api = house.request("GET", f"runs/{run}/transcript")
        house.s3.start()
        evaluation.end()

    assert (page.status_code, page.headers["Retry-After"]) == (503, "5")
    assert "The object store" in page.text
    assert "what has a receipt is kept" in page.text
    assert (api.status_code, api.json()["code"]) == (503, "storage-unavailable")
    assert "Evidence waits in" in evaluation.said
    assert "The store takes evidence again." in evaluation.said
    evaluation.wait_for_conclusion()
    evaluation.assert_nothing_lost_or_doubled()


def first_run(evaluation: Evaluation) -> int:
    """Return the number of the evaluation's first run, once the store has it."""
    evaluation.wait_for_segments(3)
    runs = answered(evaluation.house.request("GET", f"runs?plan={evaluation.digest}"))["runs"]
    return int(runs[0]["id"])


def test_store_that_is_frozen_holds_up_no_other_request(
    house: ScatteredHouse, tmp_path: Path
) -> None:
    evaluation = Evaluation(house, tmp_path, runs=1)
    other = tmp_path / "other"
    other.mkdir()
    crowd = Crowd(Evaluation(house, other, runs=1))
    with evaluation.lane():
        evaluation.wait_until_written("s1")
        freeze(house.s3)
        crowd.start(MOST_AT_ONCE + 8)
        evaluation.open_gate()
        crowd.wait_for_the_first()
        plan = house.request("GET", f"plans/{evaluation.digest}")
        still_held_up = crowd.is_waiting()
        crowd.join()
        # The lane has a place too, once it comes.
        assert wait_for(lambda: has_met_the_frozen_store(evaluation), 60), evaluation.said
        thaw(house.s3)
        evaluation.end()

    assert plan.status_code == 200
    assert still_held_up
    assert set(crowd.codes) == {"storage-unavailable", "uploads-busy"}
    # Two tries of some seconds each, not minutes.
    assert crowd.longest < 90
    evaluation.wait_for_conclusion()
    evaluation.assert_nothing_lost_or_doubled()


def has_met_the_frozen_store(evaluation: Evaluation) -> bool:
    return "did not answer within" in evaluation.said or "is busy with" in evaluation.said


class Crowd:
    """Many uploads to one attempt at once, none of them a segment."""

    def __init__(self, evaluation: Evaluation) -> None:
        self._house = evaluation.house
        path = f"plans/{evaluation.digest}/lanes/ordinary-1/attempts"
        self._attempt = answered(self._house.request("POST", path))
        self._threads: list[threading.Thread] = []
        self._first = threading.Event()
        self.codes: Counter[str] = Counter()
        self.longest = 0.0

    def start(self, number: int) -> None:
        self._threads = [threading.Thread(target=self._put, args=(i,)) for i in range(number)]
        for thread in self._threads:
            thread.start()

    def wait_for_the_first(self) -> None:
        """Wait for the first to be turned away: then all places are taken."""
        assert self._first.wait(30)

    def is_waiting(self) -> bool:
        return any(thread.is_alive() for thread in self._threads)

    def join(self) -> None:
        for thread in self._threads:
            thread.join()

    def _put(self, number: int) -> None:
        data = os.urandom(1000)
        digest = base64.b64encode(hashlib.sha256(data).digest()).decode()
        begun = monotonic()
        answer: Any = self._house.request(
            "PUT",
            f"attempts/{self._attempt['attempt']}/segments/{number + 1}",
            content=data,
            headers={
                "Authorization": f"Bearer {self._attempt['lane_token']}",
                "Content-Digest": f"sha-256=:{digest}:",
            },
        ).json()
        self.longest = max(self.longest, monotonic() - begun)
        self.codes[answer["code"]] += 1
        self._first.set()


def test_store_that_asks_to_slow_down_is_asked_again(house: ScatteredHouse, tmp_path: Path) -> None:
    evaluation = Evaluation(house, tmp_path, runs=1)
    with evaluation.lane():
        evaluation.wait_until_written("s1")
        evaluation.wait_for_segments(1)
        house.relay.slow_down = 3
        evaluation.end()

    assert house.relay.refused == 3
    assert "The object store refused with 503 (SlowDown)." in evaluation.said
    evaluation.wait_for_conclusion()
    evaluation.assert_nothing_lost_or_doubled()
