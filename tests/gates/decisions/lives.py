"""A plan whose lanes do what lanes do, in any order, by the real operations; and the same told again in order.

Times are those of a clock that only `pass_time` moves. Tasks run when a test says so: messages and
sweeps can be late or lost.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import NAMESPACE_URL, uuid5

from django.db import transaction
from django.db.transaction import Atomic

from evalhub.protocol.messages import Heartbeat
from evalhub.protocol.paths import run_folder
from evalhub.protocol.plan import RunKey
from evalhub.protocol.segments import Category, Receipt
from evidence.store.models import Item, Refusal
from gates.checks.operations import concluding
from gates.decisions import queries as decisions
from gates.decisions.models import Conclusion
from gates.decisions.operations.conclusion import content_of
from gates.decisions.operations.judgment import judgment
from gates.verdicts.queries.evaluation import evaluate
from lanes.plans import queries as plan_queries
from lanes.plans.models import Attempt, AttemptState, Plan
from lanes.plans.operations import attempts as attempt_operations
from lanes.plans.operations import cancelling, lifecycle
from lanes.plans.operations.attempts import AttemptEndedError
from tests.evidence.factories import make_segment, ndjson, result_bytes, seal_attempt, send_segment
from tests.gates.factories import judge_line
from tests.lanes.factories import NOW, make_attempt

SCENARIOS = [("orders-00", "orders"), ("orders-01", "orders"), ("refunds-00", "refunds")]
LANES = ("ordinary-1", "ordinary-2")
Content = dict[str, Any]

TOLD_EACH_TIME = ("decided_at", "generation")
"""What two conclusions on the same evidence may differ in."""


class Sent(NamedTuple):
    """A segment as a lane sent it, and what became of it."""

    attempt: str
    seq: int
    members: dict[str, bytes]
    receipt: Receipt

    @property
    def is_late(self) -> bool:
        """Whether it came after the end of its attempt."""
        return any(item.category == Category.STALE for item in self.receipt.refused)

    @property
    def refused(self) -> dict[str, bytes]:
        return {item.path: self.members[item.path] for item in self.receipt.refused}

    @property
    def accepted(self) -> dict[str, bytes]:
        return {path: data for path, data in self.members.items() if path not in self.refused}


class Opened(NamedTuple):
    """An attempt in the order of all attempts."""

    plan: int
    lane: str
    key: str


@contextmanager
def undone() -> Iterator[None]:
    """Undo what the block has written, as each test is undone."""
    block: Atomic = transaction.atomic()
    # As the test's own transaction: operations that want the outermost one are content.
    block._from_testcase = True  # type: ignore[attr-defined]
    with block:
        yield
        transaction.set_rollback(True)


def run_members(
    key: RunKey, *, outcome: str = "passed", value: float = 1.0, tag: str = ""
) -> dict[str, bytes]:
    """Return the files of one run: the same for the same arguments."""
    folder = run_folder(key)
    members = {
        f"{folder}/result.json": result_bytes(
            outcome, scores={"latency_s": 5.0 + value}, transcript_parts=0
        )
    }
    if outcome in {"passed", "failed"}:
        lines = [
            judge_line(
                rubric, score, call_id=str(uuid5(NAMESPACE_URL, f"{tag} {folder} {rubric} {value}"))
            )
            for rubric, score in (("correctness", 5 + value), ("resolved", value))
        ]
        members[f"{folder}/judge.1.ndjson"] = ndjson(*lines)
    return members


class Life:
    """Some plans of one commit, and all that befalls them."""

    def __init__(self, plans: Sequence[Plan]) -> None:
        self.now = NOW + timedelta(minutes=1)
        self.plans = list(plans)
        self.opened: list[Opened] = []
        self.sent: list[Sent] = []
        self.cancelled: set[int] = set()

    # What happens

    def pass_time(self, minutes: float) -> None:
        self.now += timedelta(minutes=minutes)

    def open(self, plan: int, lane: str) -> Attempt:
        attempt = make_attempt(self.row(plan), lane, at=self.now)
        self.opened.append(Opened(plan, lane, attempt.key))
        return attempt

    def open_as(self, opened: Opened) -> Attempt:
        """Open an attempt under the key that it had when all this happened before."""
        attempt = make_attempt(self.row(opened.plan), opened.lane, at=self.now)
        Attempt.objects.filter(pk=attempt.pk).update(key=opened.key)
        self.opened.append(opened)
        return plan_queries.attempt_with_key(opened.key)

    def send(self, attempt: Attempt, members: dict[str, bytes]) -> Receipt:
        """Send a segment with the attempt's next seq."""
        seq = 1 + sum(sent.attempt == attempt.key for sent in self.sent)
        data = make_segment(attempt, members, seq=seq, at=max(self.now, attempt.opened_at))
        receipt = send_segment(attempt, data, seq=seq, at=self.now).receipt
        self.sent.append(Sent(attempt.key, seq, members, receipt))
        return receipt

    def send_again(self, sent: Sent) -> Receipt:
        """Send the bytes of an earlier segment under a new seq."""
        return self.send(plan_queries.attempt_with_key(sent.attempt), sent.members)

    def seal(self, attempt: Attempt) -> bool:
        """Seal an attempt; return whether it took that."""
        try:
            seal_attempt(attempt, at=self.now)
        except AttemptEndedError:
            return False
        return True

    def beat(self, attempt: Attempt) -> str | None:
        heartbeat = Heartbeat(phase="works", done=1, total=2)
        return attempt_operations.record_heartbeat(attempt, heartbeat, at=self.now).reason

    def close(self, plan: int) -> None:
        lifecycle.close_plan(self.row(plan), at=self.now)

    def reopen(self, plan: int) -> None:
        lifecycle.reopen_plan(self.row(plan), at=self.now)

    def cancel(self, plan: int) -> None:
        cancelling.cancel_plan(self.row(plan), reason="nobody waits for it", at=self.now)
        self.cancelled.add(self.plans[plan].pk)

    def conclude(self, plan: int) -> None:
        """Let the message come that asks for a conclusion."""
        concluding.conclude_plan(self.row(plan), at=self.now)

    def sweep(self) -> int:
        """Do what the sweeps do; return how much they found."""
        found = attempt_operations.mark_silent_attempts(at=self.now)
        for plan in decisions.unconcluded_plans(at=self.now):
            concluding.conclude_plan(plan, at=self.now)
            found += 1
        return found

    def come_to_rest(self) -> None:
        """Let every deadline pass, and the sweeps find all that is left."""
        latest = max(plan.deadline_at for plan in map(self.row, range(len(self.plans))))
        self.now = max(self.now, latest) + timedelta(hours=1)
        for _ in range(10):
            if not self.sweep():
                return
        raise AssertionError("the sweeps come to no end")

    # What there is

    def row(self, plan: int) -> Plan:
        rows = Plan.objects.select_related("project", "policy")
        return rows.defer("document", "policy__document").get(pk=self.plans[plan].pk)

    def attempts(self, plan: int, lane: str) -> list[Attempt]:
        return [
            plan_queries.attempt_with_key(opened.key)
            for opened in self.opened
            if (opened.plan, opened.lane) == (plan, lane)
        ]

    def seen_by_version(self, row: Plan) -> tuple[object, ...]:
        """Return everything that a conclusion of the plan's own evidence can rest on."""
        attempts = Attempt.objects.filter(lane__plan=row).order_by("pk")
        return (
            *attempts.values_list("key", "state"),
            Item.objects.filter(attempt__lane__plan=row).count(),
            Refusal.objects.filter(plan=row).count(),
            row.closed_at,
            row.deadline_at,
            row.cancelled_at,
        )

    def accepted(self) -> set[tuple[str, str, str]]:
        rows = Item.objects.filter(attempt__lane__plan__in=self.plans)
        return set(rows.values_list("attempt__key", "path", "sha256"))

    def newest(self, plan: int) -> Conclusion | None:
        return decisions.newest_conclusion(self.row(plan))


def comparable(content: Content) -> Content:
    return {name: value for name, value in content.items() if name not in TOLD_EACH_TIME}


def fresh_content(plan: Plan, *, at: datetime) -> Content:
    """Return what a plan's evidence means now, whatever was concluded before."""
    evaluation = evaluate(plan)
    judged = judgment(
        evaluation.findings, [draft.judged for draft in evaluation.gating], protected=False
    )
    return content_of(evaluation, judged, at=at)


def told_in_order(life: Life, states: dict[str, str]) -> Life:
    """Tell the same evidence again, attempt by attempt and in few segments, and let it come to rest.

    To be called when nothing of it is there but the plans. `states` are those of the attempts in the
    end. Of each attempt comes what was accepted, then what was refused beside it; what came too late
    comes when everything is over.
    """
    again = Life(life.plans)
    for opened in sorted(life.opened, key=lambda one: (one.plan, one.lane)):
        attempt = again.open_as(opened)
        _tell_attempt(again, attempt, [sent for sent in life.sent if sent.attempt == opened.key])
        if states[opened.key] == AttemptState.SEALED:
            assert again.seal(attempt)
    for number, plan in enumerate(life.plans):
        if plan.pk in life.cancelled:
            again.cancel(number)
    for sent in life.sent:
        if sent.is_late:
            again.send_again(sent)
    again.come_to_rest()
    return again


def _tell_attempt(again: Life, attempt: Attempt, all_sent: Sequence[Sent]) -> None:
    in_time = [sent for sent in all_sent if not sent.is_late]
    accepted = {path: data for sent in reversed(in_time) for path, data in sent.accepted.items()}
    if accepted:
        again.send(attempt, dict(sorted(accepted.items())))
    for sent in in_time:
        if sent.refused:
            again.send(attempt, sent.refused)
