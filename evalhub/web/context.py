"""What the frame of every page shows beside the page itself."""

import logging
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import Error
from django.http import HttpRequest
from django.utils import timezone
from django.utils.functional import SimpleLazyObject
from django.utils.timesince import timesince

from evalhub.tasks import queries
from evalhub.tasks.queries import WorkerState

logger = logging.getLogger(__name__)


def worker_trouble(request: HttpRequest) -> dict[str, Any]:
    """Say on the pages of people who have signed in when nobody does the work. One query, if asked."""
    return {"worker_trouble": SimpleLazyObject(lambda: _trouble(request, at=timezone.now()))}


def _trouble(request: HttpRequest, *, at: datetime) -> list[str]:
    # A request that is refused early, for its host, has nobody yet.
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated:
        return []
    try:
        return trouble_sentences(queries.worker_state(at), at=at)
    except Error as error:
        # A page does not fail for its frame: a new release may be there before its tables.
        logger.warning("state of the worker not read: %s", error)
        return []


def trouble_sentences(state: WorkerState, *, at: datetime) -> list[str]:
    """Return what is wrong with the worker and what that means, for people who wait for it."""
    mend = "Whoever runs the server finds the reason with `manage.py doctor`."
    if state.silent_for is not None:
        since = timesince(at - state.silent_for, at, depth=1)
        return [
            f"The worker has been silent for {since}: conclusions and checks wait."
            f" What lanes send is kept all the same. {mend}"
        ]
    return [
        f"A part of the worker has been failing for {_failing_for(run.finished_at, at=at)}"
        f" ({run.name}): what it does waits. {mend}"
        for run in state.failing
    ]


def _failing_for(done_at: datetime | None, *, at: datetime) -> str:
    return "as long as it is known" if done_at is None else timesince(done_at, at, depth=1)


def github_sign_in(request: HttpRequest) -> dict[str, bool]:
    """Context processor: whether people can sign in with GitHub."""
    return {"github_sign_in": settings.GITHUB_SIGN_IN}
