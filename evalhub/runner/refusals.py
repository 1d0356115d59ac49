"""What the store said in place of an answer: an error with a sentence that says what to do."""

from collections.abc import Sequence
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import NamedTuple

import httpx
from pydantic import ValidationError

from evalhub.protocol.faults import Fault
from evalhub.protocol.messages import Problem
from evalhub.runner.documents import fault_lines
from evalhub.runner.errors import RunnerError, StoreUnreachableError

_SHOWN_BODY = 200
_LONGEST_RETRY_AFTER = 600
# What the store says of a request that was cut or changed on its way: the next one may come through.
_LOST_ON_THE_WAY = frozenset({"body-incomplete", "upload-incomplete", "digest-mismatch"})
# How the store says that it does not know a plan.
_NO_PLAN = "There is no plan "


class StoreRefusedError(RunnerError):
    """The store understood the request and refused it; the message says why and how to mend it."""

    def __init__(self, sentence: str, *, status: int, code: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.code = code


def refusal(answer: httpx.Response, url: str) -> RunnerError:
    """Return what an answer that is none means: to be tried again, or a refusal."""
    sentence, code = _told(answer)
    status = answer.status_code
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status == HTTPStatus.TOO_MANY_REQUESTS:
        told = f"The store at {url} cannot work now ({status}): {sentence}"
        return StoreUnreachableError(told, code=code, retry_after_seconds=seconds_asked_for(answer))
    if status == HTTPStatus.REQUEST_TIMEOUT or code in _LOST_ON_THE_WAY:
        told = f"A request to the store at {url} did not arrive whole ({status}): {sentence}"
        return StoreUnreachableError(told, code=code, retry_after_seconds=seconds_asked_for(answer))
    return StoreRefusedError(f"{sentence}", status=status, code=code)


def seconds_asked_for(answer: httpx.Response) -> int:
    """Return the seconds that Retry-After names, as a number or as a date; 0 where it names none."""
    text = answer.headers.get("Retry-After", "")
    if text.isascii() and text.isdecimal():
        seconds = float(text)
    else:
        seconds = _seconds_until(text, now=answer.headers.get("Date", ""))
    return round(min(max(seconds, 0), _LONGEST_RETRY_AFTER))


def _seconds_until(date: str, *, now: str) -> float:
    """Return how far a date lies ahead, by the clock of whoever named it."""
    try:
        return (parsedate_to_datetime(date) - parsedate_to_datetime(now)).total_seconds()
    except (TypeError, ValueError):
        # Absent, no date, or one without a zone.
        return 0


class _Told(NamedTuple):
    sentence: str
    code: str


def _told(answer: httpx.Response) -> _Told:
    try:
        problem = Problem.model_validate_json(answer.content, extra="ignore")
    except ValidationError:
        body = " ".join(answer.text[:_SHOWN_BODY].split())
        place = f"{answer.request.method} {answer.request.url.path}"
        return _Told(f"{place} was answered with {answer.status_code}: {body or 'nothing'}", "")
    faults = [Fault(e.pointer, e.got, e.expected) for e in problem.errors]
    detail = problem.detail
    if answer.status_code == HTTPStatus.NOT_FOUND and detail.startswith(_NO_PLAN):
        # Whoever asks for a plan by its digest has built it: only the next step is missing.
        sentence = f"{detail.rstrip('.')}: register it first with `evalhub plan register FILE`."
        return _Told(sentence, problem.code)
    # One fault is in the sentence; of several, each is told once, on a line of its own.
    if len(faults) > 1:
        detail = f"{_without_faults(detail, faults)}{fault_lines(faults)}"
    separator = "\n" if len(faults) > 1 else " "
    return _Told(f"{detail}{separator}{problem.fix}" if problem.fix else detail, problem.code)


def _without_faults(detail: str, faults: Sequence[Fault]) -> str:
    places = [place for fault in faults if (place := detail.find(str(fault))) > 0]
    return detail[: min(places)].rstrip() if places else detail
