"""An attempt's connection: the lane token, renewed in time, shared by upload, heartbeat and seal."""

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import datetime
from http import HTTPStatus
from typing import TypeVar

from evalhub.protocol.messages import OpenedAttempt
from evalhub.runner.client import Store
from evalhub.runner.errors import RunnerError
from evalhub.runner.refusals import StoreRefusedError

Answer = TypeVar("Answer")

# Renewed when this part of its life is over, so that a slow renewal is still in time.
_RENEW_AFTER = 0.8


class TokenLostError(RunnerError):
    """Neither the lane token nor EVALHUB_TOKEN opens the attempt any more."""


class AttemptSession:
    """Calls to the store with the lane token of one attempt. Safe to use from several threads.

    The token is held in memory alone. `issuer` is the connection with the token that may issue
    another one (EVALHUB_TOKEN).
    """

    def __init__(self, issuer: Store, attempt: str, *, opened_at: datetime) -> None:
        self.attempt = attempt
        self._opened_at = opened_at
        self._issuer = issuer
        self._lane = Store(issuer.url, None, clock=issuer.clock)
        self._guard = threading.Lock()
        self._renew_at = 0.0
        self._generation = 0

    @classmethod
    def begun(cls, issuer: Store, opened: OpenedAttempt) -> "AttemptSession":
        """Return the session of an attempt that was just opened."""
        session = cls(issuer, opened.attempt, opened_at=issuer.clock.now())
        session._take(opened.lane_token, opened.expires_in)
        return session

    @classmethod
    def resumed(cls, issuer: Store, attempt: str, *, opened_at: datetime) -> "AttemptSession":
        """Return a session of an attempt that another process opened.

        Raises:
            RunnerError: if the store is away or gives no token for it.
        """
        session = cls(issuer, attempt, opened_at=opened_at)
        with ExitStack() as on_failure:
            on_failure.callback(session.close)
            session._renew(issuer)
            on_failure.pop_all()
        return session

    def call(self, request: Callable[[Store], Answer]) -> Answer:
        """Make a request with the lane token; renew it first when it is old, again after a 401.

        Raises:
            TokenLostError: if no token can be had any more.
            RunnerError: what the request itself raises.
        """
        with self._guard:
            if time.monotonic() >= self._renew_at:
                self._renew(self._lane)
            generation = self._generation
        try:
            return request(self._lane)
        except StoreRefusedError as error:
            if error.status != HTTPStatus.UNAUTHORIZED:
                raise
        with self._guard:
            # Another thread may have renewed it meanwhile.
            if generation == self._generation:
                self._renew(self._issuer)
        return request(self._lane)

    def stamp(self) -> datetime:
        """Return the time with which a segment is stamped now."""
        return self._issuer.clock.stamp(opened_at=self._opened_at)

    def close(self) -> None:
        self._lane.close()

    def _renew(self, by: Store) -> None:
        try:
            answer = by.renew(self.attempt)
        except StoreRefusedError as error:
            if by is self._lane:
                self._renew(self._issuer)
                return
            raise TokenLostError(
                f"The store gives no token for attempt {self.attempt} any more ({error}); "
                "check EVALHUB_TOKEN, then send the rest with `evalhub push`."
            ) from None
        self._take(answer.lane_token, answer.expires_in)

    def _take(self, token: str, expires_in: int) -> None:
        self._lane.use_token(token)
        self._renew_at = time.monotonic() + _RENEW_AFTER * expires_in
        self._generation += 1
