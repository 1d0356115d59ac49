"""What a check says: a title, a summary of the conclusion in plain words, the details below it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from django.conf import settings
from django.urls import reverse

from gates.checks.operations.markdown import code, cut, prose, table
from gates.decisions.models import Conclusion
from lanes.plans.models import Plan

Content = Mapping[str, Any]
"""JSON of a conclusion, as WIRE section 4 gives it."""

_LONGEST_TITLE = 300
_NAMED_SUBJECTS = 50
_VERDICT_HEAD = ["Rubric", "Compared with", "Verdict", "Before", "Now", "Change", "95 % interval"]
_VERDICT_HEAD += ["Scenarios", "Why"]
_COVERAGE_HEAD = ["Lane", "Planned", "Measured", "Unmeasured", "Missing", "Refused", "State"]
_COMPARED_WITH = {
    "concurrent": "the baseline beside it",
    "history": "the adopted baseline",
    "release": "the release",
    "fault": "the same agent without faults",
}


class Concluded(NamedTuple):
    """A plan and the conclusion that governs it."""

    plan: Plan
    conclusion: Conclusion


class Output(NamedTuple):
    """The three texts of a check, in GitHub's names."""

    title: str
    summary: str
    text: str


def plan_url(plan: Plan) -> str:
    return f"{settings.PUBLIC_URL}{reverse('plan', args=[plan.digest])}"


def pending_output(plans: Sequence[Plan], *, has_begun: bool) -> Output:
    """Return what is said before there is a conclusion.

    It does not tell progress: every change is a request to GitHub, and the page has it.
    """
    title = "Lanes are at work" if has_begun else "Registered; no lane has begun"
    lines = [f"- {_plan_line(plan)}, to be decided by {_when(plan)}" for plan in plans]
    return Output(title, cut(lines, rest_url=plan_url(plans[-1])), "")


def cancelled_output(plans: Sequence[Plan]) -> Output:
    lines = [f"- {_plan_line(plan)}" for plan in plans]
    return Output("Cancelled", cut(lines, rest_url=plan_url(plans[-1])), "")


def concluded_output(concluded: Sequence[Concluded]) -> Output:
    """Return what the conclusions say, the worst first."""
    worst = concluded[0]
    title = worst.conclusion.title
    if len(concluded) > 1:
        title = f"{title} (worst of {len(concluded)} plans)"
    url = plan_url(worst.plan)
    return Output(
        title[:_LONGEST_TITLE],
        cut([line for one in concluded for line in _summary_lines(one)], rest_url=url),
        cut([line for one in concluded for line in _detail_lines(one)], rest_url=url),
    )


def _summary_lines(one: Concluded) -> list[str]:
    content: Content = one.conclusion.content
    overall = [verdict for verdict in content["verdicts"] if verdict["category"] is None]
    return [
        f"**{one.conclusion.conclusion}**: {_plan_line(one.plan)}",
        "",
        *_verdict_table(overall),
        *_listed([prose(sentence) for sentence in content["sentences"]]),
        *_titled("Coverage", table(_COVERAGE_HEAD, [_lane(row) for row in content["coverage"]])),
        *_titled("Judges", _listed([_spend(content)])),
        *_titled("Isolation", _listed(_isolation(content["isolation"]))),
    ]


def _detail_lines(one: Concluded) -> list[str]:
    """Return what does not fit a summary: categories, every finding, what is only shown."""
    content: Content = one.conclusion.content
    by_category = [verdict for verdict in content["verdicts"] if verdict["category"] is not None]
    return [
        *_titled("Findings", _listed([_finding(finding) for finding in content["findings"]])),
        *_titled("By category", _verdict_table(by_category)),
        *_titled("Shown only", _listed([prose(row["sentence"]) for row in content["advisory"]])),
    ]


def _plan_line(plan: Plan) -> str:
    return f"[plan {plan.digest[7:19]}]({plan_url(plan)}), generation {plan.generation}"


def _when(plan: Plan) -> str:
    return f"{plan.deadline_at:%Y-%m-%d %H:%M} UTC"


def _titled(title: str, lines: Sequence[str]) -> list[str]:
    return [f"#### {title}", "", *lines] if lines else []


def _listed(entries: Sequence[str]) -> list[str]:
    return [*(f"- {entry}" for entry in entries), ""] if entries else []


def _verdict_table(verdicts: Iterable[Content]) -> list[str]:
    return table(_VERDICT_HEAD, [_verdict(verdict) for verdict in verdicts])


def _verdict(verdict: Content) -> list[str]:
    category = "" if verdict["category"] is None else f" in {code(verdict['category'])}"
    comparison = _COMPARED_WITH.get(verdict["comparison"], verdict["comparison"])
    return [
        f"{code(verdict['rubric'])}{category}, {code(verdict['arm'])}",
        prose(str(comparison)),
        _word(verdict),
        _number(verdict["mean_b"]),
        _number(verdict["mean_c"]),
        _change(verdict["delta"]),
        _interval(verdict["ci95"]),
        _sizes(verdict["n"]),
        ", ".join(code(str(reason)) for reason in verdict["reasons"]),
    ]


def _word(verdict: Content) -> str:
    notes = [
        note
        for note, applies in (
            ("not confirmed", verdict["verdict"] == "REGRESSION" and not verdict["confirmed"]),
            ("shown only", not verdict["gates"]),
        )
        if applies
    ]
    word = str(verdict["verdict"])
    return f"{word} ({', '.join(notes)})" if notes else word


def _change(delta: float | None) -> str:
    """Return an effect in words; below 0 is worse, whatever the rubric's direction."""
    if delta is None:
        return "–"
    if delta == 0:
        return "none"
    return f"{'better' if delta > 0 else 'worse'} by {_number(abs(delta))}"


def _interval(ends: Sequence[float] | None) -> str:
    return "–" if ends is None else f"{_number(ends[0])} to {_number(ends[1])}"


def _sizes(n: Content) -> str:
    """Return how many scenarios decided: pairs, or those of either side."""
    if n.get("pairs"):
        return f"{n['pairs']} pairs"
    return f"{n['b']} and {n['c']}"


def _lane(row: Content) -> list[str]:
    kind = "" if row["required"] else f" ({prose(row['kind'])})"
    counts = ("planned", "measured", "unmeasured", "missing", "refused")
    return [f"{code(row['lane'])}{kind}", *(str(row[c]) for c in counts), _words(row["state"])]


def _finding(finding: Content) -> str:
    subjects = finding["subjects"]
    named = ", ".join(code(subject) for subject in subjects[:_NAMED_SUBJECTS])
    more = len(subjects) - _NAMED_SUBJECTS
    and_more = f" and {more} more" if more > 0 else ""
    return f"{code(finding['code'])}: {prose(finding['detail'])} {named}{and_more}"


def _spend(content: Content) -> str:
    microusd, unknown = content["spend_microusd"], content["unknown_cost_calls"]
    if microusd is None:
        return "What the judges cost is not known."
    spent = f"{microusd / 1_000_000:.2f} US dollars"
    if unknown:
        return f"The judges cost at least {spent}; of {unknown} calls the cost is not known."
    return f"The judges cost {spent}."


def _isolation(claims: Sequence[Content]) -> list[str]:
    """Return what stands between success and the plan one by one, the rest by state."""
    quiet = {
        state: [code(claim["resource"]) for claim in claims if claim["state"] == state]
        for state in ("proven", "not_claimed")
    }
    return [
        *(_claim(claim) for claim in claims if claim["state"] not in quiet),
        *(f"{_words(state)}: {', '.join(names)}" for state, names in quiet.items() if names),
    ]


def _claim(claim: Content) -> str:
    offences = [
        f"{' and '.join(code(lane) for lane in offence['lanes'])} {prose(offence['detail'])}"
        for offence in claim["offences"][:_NAMED_SUBJECTS]
    ]
    return f"{_words(claim['state'])}: {code(claim['resource'])}: {'; '.join(offences)}"


def _words(stored: str) -> str:
    return prose(stored.replace("_", " ").lower())


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"
