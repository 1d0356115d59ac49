"""How an attempt ended, in words or as JSON."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from evalhub.protocol.segments import Refused
from evalhub.runner.console import complain, say, say_json
from evalhub.runner.delivery import ENDED, DeliveryReport
from evalhub.runner.documents import JsonObject

_MOST_LISTED = 20
_EXAMPLES = 2
_DIGITS = re.compile(r"([0-9]+)")


def show_delivery(report: DeliveryReport, *, as_json: bool) -> int:
    """Say how an attempt ended and return the exit code."""
    if as_json:
        say_json(as_document(report))
        for told in (report.fruitless, report.failure):
            if told is not None:
                complain(str(told))
        return report.exit_code
    outcomes = ", ".join(f"{count} {name}" for name, count in sorted(report.outcomes.items()))
    if outcomes:
        say(f"{sum(report.outcomes.values())} of {report.total} runs ended: {outcomes}.")
    sealed = "sealed" if report.sealed else "not sealed"
    say(f"Attempt {report.attempt} is {sealed}: {_counted(report.accepted)} accepted.")
    for line in trouble(report):
        complain(line)
    return report.exit_code


def trouble(report: DeliveryReport) -> list[str]:
    """Return a sentence for each thing that keeps an attempt from being complete."""
    lines = list(report.left_out)
    if report.fruitless is not None:
        lines.append(report.fruitless)
    if report.stopped is not None:
        lines.append(f"The lane was stopped before its end: {report.stopped}.")
    if report.failure is not None:
        lines.append(str(report.failure))
    if report.refused:
        lines += _refusal_lines(report.refusals)
    if report.missing:
        listed = "\n".join(
            f"  {path}" for path in sorted(report.missing, key=_numbered)[:_MOST_LISTED]
        )
        more = len(report.missing) - _MOST_LISTED
        rest = f"\n  and {more} more" if more > 0 else ""
        lines.append(
            f"{_counted(len(report.missing))} missing that the plan expects:\n{listed}{rest}"
        )
    is_open = not report.sealed and report.failure is None and report.stopped not in ENDED
    if report.unsent or is_open:
        lines.append(
            f"{report.unsent} segments are not sent yet and wait in {report.spool}; "
            f"go on with `evalhub push {report.spool}`."
        )
    return lines


def as_document(report: DeliveryReport) -> JsonObject:
    """Return the report for a script."""
    return {
        "attempt": report.attempt,
        "spool": str(report.spool),
        "total": report.total,
        "outcomes": report.outcomes,
        "stopped": report.stopped,
        "fruitless": report.fruitless,
        "sealed": report.sealed,
        "accepted": report.accepted,
        "refused": report.refused,
        "refusals": [
            {**kind._asdict(), "paths": [item.path for item in items]}
            for kind, items in _by_kind(report.refusals).items()
        ],
        "missing": report.missing,
        "left_out": report.left_out,
        "unsent": report.unsent,
    }


def _numbered(path: str) -> list[tuple[int, str]]:
    """Return a key that sorts part 2 before part 10."""
    return [(int(t), "") if t.isdecimal() else (-1, t) for t in _DIGITS.split(path)]


class _Kind(NamedTuple):
    """What refused items have in common when one sentence can tell all of them."""

    category: str
    code: str
    detail: str


def _by_kind(refusals: Sequence[Refused]) -> dict[_Kind, list[Refused]]:
    kinds: dict[_Kind, list[Refused]] = {}
    for item in refusals:
        kinds.setdefault(_Kind(str(item.category), item.code, item.detail), []).append(item)
    return kinds


def _refusal_lines(refusals: Sequence[Refused]) -> list[str]:
    lines = []
    for kind, items in _by_kind(refusals).items():
        paths = [item.path for item in items[:_EXAMPLES]]
        more = len(items) - len(paths)
        shown = f"{', '.join(paths)} and {more} more" if more > 0 else " and ".join(paths)
        count = f", {len(items)} items" if len(items) > 1 else ""
        lines.append(f"Refused as {kind.category} ({kind.code}){count}: {shown}: {kind.detail}")
    subject = _counted(len(refusals))
    return [*lines, f"{subject} refused and in the plan's quarantine."]


def _counted(count: int) -> str:
    return "1 item is" if count == 1 else f"{count} items are"
