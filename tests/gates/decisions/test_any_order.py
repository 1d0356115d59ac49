"""Whatever happens to the lanes of two plans of one commit, and in whatever order: evidence decides.

`EVALHUB_EXAMPLES=500` tries more than `make test` has time for.
"""

import os
from contextlib import ExitStack
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from evalhub.protocol.plan import RunKey
from evalhub.protocol.segments import Category
from lanes.plans import queries as plan_queries
from lanes.plans.models import Attempt, Plan, PlanState
from lanes.plans.operations.cancelling import PlanConcludedError
from lanes.plans.operations.lifecycle import NothingToReopenError, PlanCancelledError
from tests.evidence.factories import run_keys
from tests.gates.decisions.lives import (
    LANES,
    SCENARIOS,
    Life,
    comparable,
    fresh_content,
    run_members,
    told_in_order,
    undone,
)
from tests.gates.factories import make_baseline, make_gated_project, make_scored_plan

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

EXAMPLES = int(os.environ.get("EVALHUB_EXAMPLES", "5"))
STEPS = 16

PLANS = st.integers(0, 1)
LANE = st.sampled_from(LANES)
TELLING = st.sampled_from(
    [("passed", 1.0), ("failed", 0.0), ("infra_error", 0.0), ("agent_error", 0.0)]
)


class AnyOrder(RuleBasedStateMachine):
    """Two plans of one commit with two lanes each; the clock, messages and sweeps have their own will."""

    plans: ClassVar[list[Plan]]

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.stack.enter_context(undone())
        self.life = Life(self.plans)
        rows = [self.life.row(plan) for plan in (0, 1)]
        self.versions = [row.inputs_version for row in rows]
        self.seen = [self.life.seen_by_version(row) for row in rows]
        self.accepted: set[tuple[str, str, str]] = set()

    # What lanes do

    @rule(plan=PLANS, lane=LANE)
    def open_attempt(self, plan: int, lane: str) -> None:
        before = self.life.row(plan)
        try:
            attempt = self.life.open(plan, lane)
        except PlanCancelledError:
            assert before.cancelled_at is not None
            return
        after = self.life.row(plan)
        assert before.cancelled_at is None
        assert after.state == PlanState.RUNNING
        assert after.generation == before.generation + (before.state == PlanState.CONCLUDED)
        assert not plan_queries.is_finished(after, at=self.life.now)
        *earlier, newest = self.life.attempts(plan, lane)
        assert newest == attempt
        assert newest.accepts_evidence
        assert {a.state for a in earlier} <= {"SUPERSEDED", "CANCELLED"}

    @precondition(lambda self: self.life.opened)
    @rule(data=st.data(), telling=TELLING)
    def send_lane(self, data: st.DataObject, telling: tuple[str, float]) -> None:
        self._send_lane(self._any_attempt(data), telling)

    @rule(plan=PLANS, telling=TELLING)
    def run_whole_plan(self, plan: int, telling: tuple[str, float]) -> None:
        """Run every lane that can be run to its end; whether anybody hears of it is open."""
        for lane in LANES:
            self.open_attempt(plan, lane)
            for attempt in self.life.attempts(plan, lane)[-1:]:
                self._send_lane(attempt, telling)

    @precondition(lambda self: self.life.opened)
    @rule(data=st.data(), telling=TELLING, is_split=st.booleans())
    def send_run(self, data: st.DataObject, telling: tuple[str, float], *, is_split: bool) -> None:
        """Send a run of any attempt, also of one that is over, and perhaps only its result."""
        attempt = self._any_attempt(data)
        key = data.draw(st.sampled_from(run_keys(attempt)))
        outcome, value = telling
        members = run_members(key, outcome=outcome, value=value, tag=attempt.key)
        if is_split:
            members = dict(list(members.items())[:1])
        self._send(attempt.key, members)

    @precondition(lambda self: self.life.opened)
    @rule(data=st.data(), telling=TELLING)
    def send_after_the_conclusion(self, data: st.DataObject, telling: tuple[str, float]) -> None:
        """Have a plan decided while a lane of it is at work, which then sends what it has."""
        attempt = self._any_attempt(data)
        if attempt.accepts_evidence:
            plan = self._plan_of(attempt.key)
            self.close(plan)
            self.life.conclude(plan)
            outcome, value = telling
            for key in run_keys(attempt):
                members = run_members(key, outcome=outcome, value=value, tag=attempt.key)
                self._send(attempt.key, members)

    @precondition(lambda self: self.life.opened)
    @rule(data=st.data())
    def send_what_nobody_planned(self, data: st.DataObject) -> None:
        attempt = self._any_attempt(data)
        receipt = self._send(attempt.key, run_members(RunKey("nobody-planned", "candidate", 1)))
        assert receipt == {Category.UNEXPECTED}

    @precondition(lambda self: self.life.sent)
    @rule(data=st.data())
    def send_again(self, data: st.DataObject) -> None:
        sent = data.draw(st.sampled_from(self.life.sent))
        self._send(sent.attempt, sent.members)

    @precondition(lambda self: self.life.opened)
    @rule(data=st.data())
    def seal(self, data: st.DataObject) -> None:
        attempt = self._any_attempt(data)
        is_taken = self.life.seal(attempt)
        assert is_taken == (attempt.state in {"OPEN", "SILENT", "SEALED"})

    @precondition(lambda self: self.life.opened)
    @rule(data=st.data())
    def beat(self, data: st.DataObject) -> None:
        attempt = self._any_attempt(data)
        plan = attempt.lane.plan
        reason = self.life.beat(attempt)
        if not attempt.accepts_evidence:
            assert reason == attempt.state.lower()
        else:
            assert reason == ("closed" if plan.closed_at is not None else None)

    # What people and CI do

    @rule(plan=PLANS)
    def close(self, plan: int) -> None:
        try:
            self.life.close(plan)
        except PlanCancelledError:
            assert self.life.row(plan).cancelled_at is not None

    @rule(plan=PLANS)
    def reopen(self, plan: int) -> None:
        try:
            self.life.reopen(plan)
        except PlanCancelledError:
            assert self.life.row(plan).cancelled_at is not None
        except NothingToReopenError:
            assert plan_queries.are_lanes_sealed(self.life.row(plan))
        else:
            assert not plan_queries.is_finished(self.life.row(plan), at=self.life.now)

    @rule(plan=PLANS, is_meant=st.sampled_from([False, False, True]))
    def cancel(self, plan: int, *, is_meant: bool) -> None:
        if not is_meant:
            return
        before = self.life.row(plan)
        try:
            self.life.cancel(plan)
        except PlanConcludedError:
            assert before.state == PlanState.CONCLUDED
            assert before.cancelled_at is None

    # Time, messages and sweeps

    @rule(minutes=st.sampled_from([1, 10, 300]))
    def pass_time(self, minutes: int) -> None:
        self.life.pass_time(minutes)

    @rule(plan=PLANS)
    def message_to_conclude(self, plan: int) -> None:
        self.life.conclude(plan)

    @rule(minutes=st.sampled_from([0, 10]))
    def sweep(self, minutes: int) -> None:
        """Let the sweeps come, at once or when lanes that said nothing are silent."""
        self.life.pass_time(minutes)
        self.life.sweep()

    # What is always so

    @invariant()
    def rows_agree(self) -> None:
        """Compare a plan with what it was: its version rises with all that it stands for."""
        for plan in (0, 1):
            row = self.life.row(plan)
            seen = self.life.seen_by_version(row)
            assert row.inputs_version >= self.versions[plan]
            assert seen == self.seen[plan] or row.inputs_version > self.versions[plan]
            self.versions[plan], self.seen[plan] = row.inputs_version, seen
            assert row.concluded_version <= row.inputs_version
            if row.state == PlanState.CONCLUDED:
                newest = self.life.newest(plan)
                assert newest is not None
                assert newest.inputs_version == row.concluded_version

    @invariant()
    def what_was_accepted_stands(self) -> None:
        accepted = self.life.accepted()
        assert accepted >= self.accepted
        self.accepted = accepted

    # And in the end

    def teardown(self) -> None:
        with self.stack:
            self.life.come_to_rest()
            contents = {plan: self._content_at_rest(plan) for plan in (0, 1)}
            states = {
                attempt.key: attempt.state
                for plan in (0, 1)
                for attempt in plan_queries.attempts_of(self.life.row(plan))
            }
        with undone():
            again = told_in_order(self.life, states)
            assert again.accepted() == self.accepted_at_rest
            for plan, content in contents.items():
                newest = again.newest(plan)
                if content is not None:
                    assert newest is not None
                    assert comparable(newest.content) == comparable(content)

    def _content_at_rest(self, plan: int) -> dict[str, object] | None:
        """Return what was concluded of a plan; None if it was cancelled."""
        self.accepted_at_rest = self.life.accepted()
        row, newest = self.life.row(plan), self.life.newest(plan)
        assert row.concluded_version == row.inputs_version
        if row.cancelled_at is not None:
            assert newest is None or newest.inputs_version < row.inputs_version
            return None
        assert newest is not None
        assert newest.inputs_version == row.inputs_version
        assert comparable(newest.content) == comparable(fresh_content(row, at=self.life.now))
        return dict(newest.content)

    def _send(self, key: str, members: dict[str, bytes]) -> set[str]:
        """Send a segment and compare its receipt with the state of its attempt."""
        attempt = plan_queries.attempt_with_key(key)
        before, accepted = self.life.row(self._plan_of(key)), self.life.accepted()
        receipt = self.life.send(attempt, members)
        categories = {str(item.category) for item in receipt.refused}
        planned = "nobody-planned" not in next(iter(members))
        if not attempt.accepts_evidence:
            assert receipt.accepted == 0
            assert categories == ({Category.STALE} if planned else {Category.UNEXPECTED})
            return categories
        assert Category.STALE not in categories
        after = Plan.objects.get(pk=before.pk)
        if self.life.accepted() > accepted:
            assert after.inputs_version > before.inputs_version
            if before.state == PlanState.CONCLUDED:
                assert (after.state, after.generation) == (PlanState.RUNNING, before.generation + 1)
        return categories

    def _send_lane(self, attempt: Attempt, telling: tuple[str, float]) -> None:
        """Send every run of an attempt in one segment, and seal it."""
        outcome, value = telling
        members: dict[str, bytes] = {}
        for key in run_keys(attempt):
            members |= run_members(key, outcome=outcome, value=value, tag=attempt.key)
        self._send(attempt.key, members)
        self.life.seal(attempt)

    def _plan_of(self, key: str) -> int:
        return next(opened.plan for opened in self.life.opened if opened.key == key)

    def _any_attempt(self, data: st.DataObject) -> Attempt:
        opened = data.draw(st.sampled_from(self.life.opened))
        return plan_queries.attempt_with_key(opened.key)


def test_same_evidence_gives_the_same_conclusion_in_any_order() -> None:
    project = make_gated_project()
    make_baseline(project, scenarios=SCENARIOS, epochs=1)
    AnyOrder.plans = [make_scored_plan(project, scenarios=SCENARIOS, epochs=1) for _ in range(2)]

    run_state_machine_as_test(
        AnyOrder,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            # A failure is some steps long; to shorten it takes minutes, which is for a desk.
            phases=[Phase.generate] if "EVALHUB_EXAMPLES" not in os.environ else tuple(Phase),
            suppress_health_check=list(HealthCheck),
        ),
    )
