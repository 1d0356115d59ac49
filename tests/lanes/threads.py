"""Doing things at the same time, each on a connection of its own."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar

from django.db import connection

Result = TypeVar("Result")


def at_once(calls: Sequence[Callable[[], Result]]) -> list[Result | Exception]:
    """Start all calls together; return what each returned or raised, in their order."""
    barrier = Barrier(len(calls))

    def run(call: Callable[[], Result]) -> Result:
        try:
            barrier.wait(30)
            return call()
        finally:
            connection.close()

    with ThreadPoolExecutor(len(calls)) as pool:
        futures = [pool.submit(run, call) for call in calls]
    outcomes: list[Result | Exception] = []
    for future in futures:
        error = future.exception()
        if isinstance(error, Exception):
            outcomes.append(error)
        else:
            outcomes.append(future.result())
    return outcomes
