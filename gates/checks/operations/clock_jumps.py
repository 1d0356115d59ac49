"""Times of checks and rolling issues that a clock which was set back has left in the future."""

from datetime import datetime, timedelta

from evalhub.tasks.clock_jumps import bring_back
from gates.checks.models import Check, RollingIssue
from gates.checks.operations.delivery import CLAIM
from gates.checks.operations.issues import CLAIM as ISSUE_CLAIM

# GitHub's limits are told for an hour at most; our own pauses are shorter.
_FARTHEST_ATTEMPT = timedelta(hours=1)
# Looked at before anything that matters now: so it is looked at again.
_LONG_AGO = timedelta(days=1)


def bring_back_checks(*, at: datetime) -> None:
    """Have what waits for a time that was never meant be done now. Safe to repeat."""
    checks = Check.objects.all()
    bring_back(checks, "next_attempt_at", at=at, farthest=_FARTHEST_ATTEMPT, to=at)
    bring_back(checks, "claimed_until", at=at, farthest=CLAIM, to=None)
    bring_back(checks, "looked_at", at=at, farthest=timedelta(), to=at - _LONG_AGO)
    issues = RollingIssue.objects.all()
    bring_back(issues, "claimed_until", at=at, farthest=ISSUE_CLAIM, to=None)
