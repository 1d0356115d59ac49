"""From flags and environment to a store, and how one that is away is waited for."""

import argparse
import os
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

from evalhub.runner.ci_identity import advice_without_identity, found_identity, has_identity
from evalhub.runner.client import Store
from evalhub.runner.errors import InputError, StoreUnreachableError
from evalhub.runner.options import store_token, store_url

Answer = TypeVar("Answer")

_FIRST_DELAY_SECONDS = 0.5
_LONGEST_DELAY_SECONDS = 30.0
# Chance must not make a lane ask again at once, many times in a row.
_LEAST_DELAY_SECONDS = 0.1
# Enough for the longest delay; a store may be away for more failures than a float has doublings.
_MOST_DOUBLINGS = 10
_TICK_SECONDS = 0.2


def connected(options: argparse.Namespace) -> Store:
    """Return the store that the command was given; without a token, with the identity of the CI job.

    Raises:
        InputError: if the address is absent, or token and identity are.
    """
    url = store_url(options)
    if url is None:
        raise InputError("EVALHUB_URL was absent; expected the address of the store (or --url).")
    token = store_token(options)
    if token is not None:
        return Store(url, token)
    identity = found_identity(url)
    if identity is None:
        raise InputError(
            "EVALHUB_TOKEN was absent; expected a token of the project "
            f"(or EVALHUB_TOKEN_FILE, a file that holds it).{advice_without_identity(os.environ)}"
        )
    return Store(url, None, auth=identity)


def can_connect(options: argparse.Namespace) -> bool:
    """Return whether `connected` has all that it needs."""
    return store_url(options) is not None and (store_token(options) is not None or has_identity())


def delay_seconds(failures: int, *, asked_for: int) -> float:
    """Return how long to wait after so many failures in a row, of which the last asked for a pause.

    Full jitter: lanes that lost the store together must not come back together.
    """
    doublings = min(failures - 1, _MOST_DOUBLINGS)
    longest = min(_FIRST_DELAY_SECONDS * 2.0**doublings, _LONGEST_DELAY_SECONDS)
    return asked_for + max(longest * random.random(), _LEAST_DELAY_SECONDS)  # noqa: S311 - no secret


def patient(
    request: Callable[[], Answer],
    *,
    seconds: float,
    report: Callable[[str], None],
    is_over: Callable[[], bool] = lambda: False,
) -> Answer:
    """Make a request until it is answered, for that many seconds while the store is away.

    A request whose answer was lost is made again: use it where that does no harm. `report` hears of
    each reason once; `is_over` ends the patience, also with a store that takes a request and is silent.

    Raises:
        StoreUnreachableError: the last of them.
    """
    until = time.monotonic() + seconds
    told: set[str] = set()
    failures = 0
    while True:
        try:
            return _answer(request, is_over)
        except StoreUnreachableError as error:
            failures += 1
            pause = delay_seconds(failures, asked_for=error.retry_after_seconds)
            left = until - time.monotonic()
            if left <= 0 or is_over():
                raise
            if str(error) not in told:
                report(f"{error} Trying again for up to {left:.0f} s.")
                told.add(str(error))
            _wait(min(pause, left), is_over)


def _answer(request: Callable[[], Answer], is_over: Callable[[], bool]) -> Answer:
    """Make a request in a thread of its own, so that nobody waits for its answer who should end."""
    answer: Future[Answer] = Future()

    def ask() -> None:
        try:
            answer.set_result(request())
        except BaseException as error:  # noqa: BLE001 - it is raised where the answer is waited for
            answer.set_exception(error)

    threading.Thread(target=ask, name="request", daemon=True).start()
    while not wait([answer], timeout=_TICK_SECONDS).done:
        if is_over():
            raise StoreUnreachableError(
                "The store had not answered when it was time to end; ask again later."
            )
    return answer.result()


def _wait(seconds: float, is_over: Callable[[], bool]) -> None:
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0 and not is_over():
        time.sleep(min(left, _TICK_SECONDS))
