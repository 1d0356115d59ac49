"""Whether the evidence in an archive would count here: by the rules of registration and of intake.

Nothing is written. What an archive says that its origin decided stands only where it can be so.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from evalhub.protocol.export import POLICY
from evalhub.protocol.exported import (
    ExportedAttempt,
    ExportedPlan,
    ExportError,
    SegmentNames,
)
from evalhub.protocol.paths import PathError
from evalhub.protocol.plan import Plan, RunKey
from evalhub.protocol.policy import Policy
from evalhub.protocol.registration import registration_refusals
from evalhub.protocol.retained import RetainedRefusal
from evalhub.protocol.segments import Receipt
from evalhub.protocol.tombstones import Tombstone
from evidence.store.models import Removal
from evidence.store.operations import tombstones
from evidence.store.operations.reading import (
    Expected,
    SegmentContent,
    SegmentUnfitError,
    sorted_segment,
)
from evidence.store.operations.rows import ReceiptContradictedError, told_items
from evidence.store.operations.uploads import nameless_copy

# Clocks of two servers may differ by that much.
_AHEAD = timedelta(hours=1)
_EARLIEST, _LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)
# As the columns take them.
_CODE = re.compile(r"[a-z0-9_.-]{1,40}")


def expect_sound_evidence(exported: ExportedPlan, *, at: datetime) -> None:
    """Return if every receipt in an archive is one that intake can have given.

    Raises:
        ExportError: with the first thing that is not as it should be.
    """
    _expect_registrable(exported)
    for told in _times(exported):
        if not _EARLIEST <= told.at <= at + _AHEAD:
            raise ExportError(
                f"{told.what} is {told.at:%Y-%m-%d %H:%M} UTC; it is {at:%Y-%m-%d %H:%M} now."
            )
    owners = {key: lane.name for lane in exported.document.lanes for key in lane.run_keys}
    followed_at: dict[str, datetime] = {}
    # From the newest of each lane on: an attempt ends at the latest when the next one is opened.
    for attempt in sorted(exported.attempts, key=lambda one: -one.document.number):
        lane = attempt.document.lane
        end = _End(attempt.sealed, followed_at.get(lane))
        _expect_sound_attempt(exported, attempt, owners, end, at=at)
        followed_at[lane] = attempt.document.opened_at


class _End(NamedTuple):
    """Until when an attempt took evidence."""

    sealed: frozenset[int] | None
    followed_at: datetime | None

    def is_before(self, receipt: Receipt) -> bool:
        if self.sealed is not None and receipt.seq not in self.sealed:
            return True
        return self.followed_at is not None and receipt.received_at > self.followed_at


def _expect_registrable(exported: ExportedPlan) -> None:
    plan = exported.document
    if plan.kind != "gate":
        raise ExportError(
            "It is a re-judge batch, which means nothing without the plans whose transcripts it scored."
        )
    policy = exported.export.document(Policy, POLICY)
    refusals = registration_refusals(plan, policy=policy, base=None, at=_registered_at(exported))
    if refusals:
        first = refusals[0]
        raise ExportError(
            f"its plan cannot have been registered: {first.code} at {first.pointer}, which was"
            f" {first.got}; expected {first.expected}."
        )


def _registered_at(exported: ExportedPlan) -> datetime:
    told = exported.export.manifest.registered_at
    if told is not None:
        return told
    # Guards were fresh when the plan was registered, which an older archive does not tell.
    checked = [guard.checked_at for guard in exported.document.guards]
    return max(checked, default=exported.export.manifest.exported_at)


class _Time(NamedTuple):
    what: str
    at: datetime


def _times(exported: ExportedPlan) -> Iterator[_Time]:
    manifest = exported.export.manifest
    yield _Time("The time of the export", manifest.exported_at)
    if manifest.registered_at is not None:
        yield _Time("The time of the plan's registration", manifest.registered_at)
    for attempt in exported.attempts:
        yield _Time(f"The beginning of {attempt.folder}", attempt.document.opened_at)
        if attempt.seal is not None:
            yield _Time(f"The seal of {attempt.folder}", attempt.seal.sealed_at)


def _expect_sound_attempt(
    exported: ExportedPlan,
    attempt: ExportedAttempt,
    owners: Mapping[RunKey, str],
    end: _End,
    *,
    at: datetime,
) -> None:
    expected = _expected(exported.document, attempt, owners)
    received: list[tuple[datetime, SegmentNames]] = []
    for segment in attempt.segments:
        if segment.refusal is not None:
            reason = exported.export.document(RetainedRefusal, segment.refusal)
            _expect_in_time(segment.refusal, reason.refused_at, at=at)
            _expect_plain(segment.refusal, reason.code, reason.detail)
        if segment.receipt is not None:
            receipt = exported.export.document(Receipt, segment.receipt)
            _expect_in_time(segment.receipt, receipt.received_at, at=at)
            if receipt.accepted and end.is_before(receipt):
                raise ExportError(
                    f"{segment.receipt} cannot be true: it accepts what came after its attempt's end."
                )
            received.append((receipt.received_at, segment))
    taken: dict[str, str] = {}
    for _, segment in sorted(received, key=lambda pair: (pair[0], pair[1].seq)):
        _expect_received(exported, segment, expected, taken)


def _expected(plan: Plan, attempt: ExportedAttempt, owners: Mapping[RunKey, str]) -> Expected:
    """Return what a segment must say of itself. Whether it came in time was decided when it came."""
    lane = plan.lane(attempt.document.lane)
    return Expected(
        project=plan.project,
        plan=attempt.document.plan,
        lane=lane.name,
        attempt=attempt.document.attempt,
        tested_sha=plan.arm(lane.run_keys[0].arm).sha,
        opened_at=_EARLIEST,
        received_at=_LATEST,
        clock_shown_at=_LATEST,
        owners=owners,
    )


def _expect_received(
    exported: ExportedPlan, segment: SegmentNames, expected: Expected, taken: dict[str, str]
) -> None:
    """Compare one receipt with what intake says of the segment; `taken` has the items before it."""
    assert segment.receipt is not None  # noqa: S101 - the caller has chosen those
    receipt = exported.export.document(Receipt, segment.receipt)
    for refused in receipt.refused:
        _expect_plain(segment.receipt, refused.code, refused.detail)
    try:
        told = told_items(_content(exported, segment, expected), receipt)
    except ReceiptContradictedError as error:
        raise ExportError(f"{segment.receipt} cannot be true: {error}") from None
    for item in told.accepted:
        if taken.setdefault(item.path, item.sha256) != item.sha256:
            raise ExportError(
                f"{segment.receipt} cannot be true: it accepts {item.path!r}, and the attempt has"
                " another item at this path."
            )


def _content(exported: ExportedPlan, segment: SegmentNames, expected: Expected) -> SegmentContent:
    if segment.archive is None:
        return _removed_content(exported, segment)
    with nameless_copy(exported.export.chunks(segment.archive)) as file:
        try:
            return sorted_segment(file, expected=expected, seq=segment.seq)
        except SegmentUnfitError as error:
            raise ExportError(
                f"{segment.archive} was received, and intake refuses it: {error.unfit.detail}"
            ) from None


def _removed_content(exported: ExportedPlan, segment: SegmentNames) -> SegmentContent:
    """Return what a tombstone tells of a segment whose bytes were removed where it came from."""
    assert segment.purged is not None  # noqa: S101 - else the archive has been refused
    told = exported.export.document(Tombstone, segment.purged)
    if (told.seq, told.sha256) != (segment.seq, segment.sha256):
        raise ExportError(f"{segment.purged} speaks of segment {told.seq} with {told.sha256}.")
    if told.class_ is None or told.created_at is None:
        raise ExportError(f"{segment.purged} is of a segment that was never received.")
    _expect_own_order(exported, segment.purged, told)
    try:
        return tombstones.items_of(told)
    except PathError as error:
        raise ExportError(f"{segment.purged} cannot be true: {error}") from None


def _expect_own_order(exported: ExportedPlan, path: str, told: Tombstone) -> None:
    others = Removal.objects.filter(key=told.removal.key).exclude(plan__digest=exported.digest)
    if others.exists():
        raise ExportError(f"{path} names order {told.removal.key}, which is of another plan here.")


def _expect_in_time(path: str, told: datetime, *, at: datetime) -> None:
    if not _EARLIEST <= told <= at + _AHEAD:
        raise ExportError(f"{path} is of {told:%Y-%m-%d %H:%M} UTC, which has not come yet.")


def _expect_plain(path: str, code: str, detail: str) -> None:
    if _CODE.fullmatch(code) is None or "\0" in detail:
        raise ExportError(f"{path} gives a reason that intake never gives: {code[:80]!r}.")
