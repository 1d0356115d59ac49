"""`evalhub verdict`: what a plan means, in words and as an exit code."""

import argparse
import time
from http import HTTPStatus

from evalhub.runner.client import Answered, Store
from evalhub.runner.connection import connected
from evalhub.runner.console import complain, say, say_json, table
from evalhub.runner.digests import add_plan_digest, plan_digest
from evalhub.runner.documents import JsonObject
from evalhub.runner.errors import Exit, StoreUnreachableError
from evalhub.runner.options import wants_json

_LONGEST_POLL_SECONDS = 60
_RETRY_SECONDS = 2
_CODES = {
    "success": Exit.GOOD,
    "neutral": Exit.GOOD,
    "failure": Exit.GATE_FAILED,
    "cancelled": Exit.GATE_FAILED,
    "action_required": Exit.ACTION_REQUIRED,
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    add_plan_digest(parser)
    parser.add_argument(
        "--wait", type=int, default=0, metavar="SECONDS", help="wait that long for a conclusion"
    )
    parser.add_argument(
        "--categories", action="store_true", help="show the verdict of every category, too"
    )
    parser.set_defaults(handler=verdict)


def verdict(options: argparse.Namespace) -> int:
    """Show the conclusion of a plan; an undecided plan is never good."""
    digest = plan_digest(options.digest)
    with connected(options) as store:
        answer = _conclusion(store, digest, seconds=options.wait)
    if wants_json(options):
        say_json(answer)
    elif answer.get("conclusion") is not None:
        say(conclusion_text(answer, with_categories=options.categories))
    if answer.get("conclusion") is None:
        complain(
            f"Plan {digest} is {answer.get('state', 'open')} and not decided yet; "
            "wait longer with --wait, or decide now with `evalhub plan close`."
        )
        return Exit.ACTION_REQUIRED
    # A word that this client does not know is not good either.
    return _CODES.get(str(answer["conclusion"]), Exit.ACTION_REQUIRED)


def _conclusion(store: Store, digest: str, *, seconds: int) -> JsonObject:
    until = time.monotonic() + seconds
    while True:
        left = max(0.0, until - time.monotonic())
        try:
            answer = store.conclusion(digest, wait_seconds=int(min(left, _LONGEST_POLL_SECONDS)))
        except StoreUnreachableError:
            # Whoever said how long to wait waits for a server that is just restarted, too.
            if left <= _RETRY_SECONDS:
                raise
            time.sleep(_RETRY_SECONDS)
            continue
        _check(store, answer)
        if answer.status != HTTPStatus.ACCEPTED or left < 1:
            return answer.document


def _check(store: Store, answer: Answered) -> None:
    """Refuse an answer that says neither what a plan means nor that it is not decided yet."""
    expected = "state" if answer.status == HTTPStatus.ACCEPTED else "conclusion"
    if not isinstance(answer.document.get(expected), str):
        raise StoreUnreachableError(
            f"The store at {store.url} answered without a {expected}; "
            "check that EVALHUB_URL is an evalhub server of this client's version."
        )


def conclusion_text(content: JsonObject, *, with_categories: bool = False) -> str:
    """Return a conclusion for a person: title, sentences, verdicts in a table, findings.

    Without `with_categories`, of the verdicts by category only those that are worse.
    """
    lines = [f"{str(content['conclusion']).upper()}: {content.get('title', '')}", ""]
    lines += [f"  {sentence}" for sentence in content.get("sentences", [])]
    verdicts = content.get("verdicts", [])
    shown = [row for row in verdicts if with_categories or _is_for_everyone(row)]
    if shown:
        lines += ["", table(_HEADERS, [_verdict_row(row) for row in shown])]
    if len(shown) < len(verdicts):
        lines.append(f"{len(verdicts) - len(shown)} more by category: --categories")
    findings = content.get("findings", [])
    lines += ["", *_finding_lines(findings)] if findings else []
    spend, unknown = content.get("spend_microusd"), content.get("unknown_cost_calls")
    if spend is not None:
        more = f" and {unknown} judge calls of unknown cost" if unknown else ""
        lines += ["", f"Judge money spent: ${spend / 1_000_000:.4f}{more}"]
    return "\n".join(lines)


_HEADERS = ("rubric", "arm", "against", "verdict", "effect", "95 % interval", "mde", "n", "reasons")
_MOST_SUBJECTS = 10


def _is_for_everyone(row: JsonObject) -> bool:
    return row.get("category") is None or row["verdict"] == "REGRESSION"


def _verdict_row(row: JsonObject) -> list[object]:
    category = row.get("category")
    return [
        f"{row['rubric']} ({category})" if category else row["rubric"],
        row["arm"],
        row["comparison"],
        row["verdict"],
        _number(row.get("delta"), sign="+"),
        _interval(row.get("ci95")),
        _number(row.get("mde")),
        _counts(row.get("n")),
        ", ".join(map(str, row.get("reasons") or [])) or None,
    ]


def _counts(n: JsonObject | None) -> str | None:
    """Return how many scenarios a verdict rests on: pairs, or the baseline's and the candidate's."""
    if not n:
        return None
    return f"{n['pairs']} pairs" if n.get("pairs") else f"{n.get('b')} and {n.get('c')}"


def _number(value: float | None, *, sign: str = "") -> str | None:
    return None if value is None else f"{value:{sign}.3g}"


def _interval(ends: list[float | None] | None) -> str | None:
    if not ends or any(end is None for end in ends):
        return None
    return f"{_number(ends[0], sign='+')} to {_number(ends[1], sign='+')}"


def _finding_lines(findings: list[JsonObject]) -> list[str]:
    lines = []
    for finding in findings:
        subjects = [str(subject) for subject in finding.get("subjects", [])]
        lines.append(f"Finding {finding['code']} ({finding['class']})")
        lines += [f"  {subject}" for subject in subjects[:_MOST_SUBJECTS]]
        if len(subjects) > _MOST_SUBJECTS:
            lines.append(f"  and {len(subjects) - _MOST_SUBJECTS} more")
    return lines
