"""The seal: the lane hears what is missing while its machine still exists."""

from datetime import datetime

from django.db import transaction

from evalhub.protocol.faults import Fault
from evalhub.protocol.messages import SealAnswer, SealRequest
from evalhub.protocol.segments import Refused, SegmentDigest, seal_digest
from evalhub.web.errors import DomainError
from evidence.store import queries
from evidence.store.models import Refusal, Seal
from evidence.store.operations import documents
from lanes.plans import queries as plans_queries
from lanes.plans.models import Attempt, AttemptState
from lanes.plans.operations import attempts as attempts_operations

# Enough to act on; a lane that lost thousands of segments lost its spool.
_MOST_NAMED = 200


class SegmentsMissingError(DomainError):
    """The lane has sent other segments than were received."""

    status = 409
    code = "segments-missing"
    fix = "Send the segments that are named here from the spool, then seal again."


def seal(attempt: Attempt, request: SealRequest, *, at: datetime) -> SealAnswer:
    """Answer what is missing of the lane; with `final`, end the attempt. Safe to repeat.

    Raises:
        SegmentsMissingError: if the segments that were received are not those of the request.
        AttemptEndedError: if the attempt was superseded or cancelled.
    """
    sealed: Seal | None = None
    with transaction.atomic(durable=True):
        locked = Attempt.objects.select_for_update(no_key=True).get(pk=attempt.pk)
        if locked.state in {AttemptState.SUPERSEDED, AttemptState.CANCELLED}:
            raise attempts_operations.AttemptEndedError(
                f"The attempt {locked.key} was {locked.state.lower()}."
            )
        # Under the lock, so that no segment arrives between the comparison and the seal.
        _refuse_other_segments(queries.segment_digests(attempt), request)
        if request.final and locked.state != AttemptState.SEALED:
            attempts_operations.seal_attempt(attempt, at=at)
            sealed = Seal.objects.create(
                attempt=attempt, segments=request.segments, digest=request.digest, sealed_at=at
            )
        is_sealed = request.final or locked.state == AttemptState.SEALED
    if sealed is not None:
        documents.store_seal(sealed)
    return SealAnswer(missing=_missing(attempt), refused=_refused(attempt), sealed=is_sealed)


def _refuse_other_segments(received: list[SegmentDigest], request: SealRequest) -> None:
    if len(received) == request.segments and seal_digest(received) == request.digest:
        return
    known = {segment.seq for segment in received}
    # The request may name any number; only as many are looked at as can be told.
    looked_at = range(1, min(request.segments, len(known) + _MOST_NAMED) + 1)
    absent = [seq for seq in looked_at if seq not in known][:_MOST_NAMED]
    if absent:
        named = ", ".join(str(seq) for seq in absent)
        raise SegmentsMissingError(
            f"The seal names {request.segments} segments; {len(received)} were received,"
            f" without seq {named}.",
            faults=[Fault(f"/{seq}", "absent", "a segment") for seq in absent],
        )
    raise SegmentsMissingError(
        f"The seal names {request.segments} segments with the digest {request.digest}; the"
        f" {len(received)} that were received have {seal_digest(received)}.",
        fix="Compare the digests below with the spool; seal with what was received.",
        faults=[
            Fault(f"/{segment.seq}", segment.sha256, "the digest of the segment in the spool")
            for segment in received[:_MOST_NAMED]
        ],
    )


def _missing(attempt: Attempt) -> list[str]:
    planned = plans_queries.plan_document(attempt.lane.plan).lane(attempt.lane.name)
    coverage = queries.lane_coverage(attempt.lane, planned=planned)
    of_runs = [path for paths in coverage.missing.values() for path in paths]
    return of_runs + coverage.lane_missing


def _refused(attempt: Attempt) -> list[Refused]:
    rows = Refusal.objects.filter(attempt=attempt).order_by("pk")
    return [
        Refused.model_validate(row)
        for row in rows.values("path", "category", "code", "detail").iterator()
    ]
