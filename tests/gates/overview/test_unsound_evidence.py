"""What does not count is shown where people look: on the plan, on the lane and in the check."""

import html
import json
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import pytest
from django.test import Client
from django.urls import reverse

from evalhub.protocol.paths import run_folder
from evalhub.protocol.segments import Category
from evidence.store.models import Refusal
from evidence.store.operations.intake import SegmentRefusedError
from gates.checks.operations.summary import Concluded, concluded_output
from gates.decisions.models import Conclusion
from lanes.plans.models import Attempt, Plan
from lanes.projects.models import Role
from tests.evidence.factories import (
    ndjson,
    next_seq,
    run_keys,
    seal_attempt,
    send_members,
    send_segment,
)
from tests.evidence.store.kinds import Kind
from tests.evidence.store.wire_kinds import WIRE_KINDS
from tests.evidence.store.zip_kinds import ZIP_KINDS
from tests.gates.factories import (
    Told,
    codes,
    concluded,
    deliver,
    judge_line,
    make_gated_project,
    make_scored_plan,
    run_members,
    steady,
)
from tests.lanes.factories import make_attempt, make_user

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

KINDS = list({(kind.category, kind.code): kind for kind in [*ZIP_KINDS, *WIRE_KINDS]}.values())
"""One of each category and code."""
GOOD = steady("candidate")
SCENARIOS = [(f"order-{n}", "orders") for n in range(4)]
EVERYTHING = {"run": ["result", "judge"], "lane": ["preflight"]}
PREFLIGHT = {"lane/preflight.json": b'{"guards": []}'}


def text_of(client: Client, address: str) -> str:
    """Return the words of a page."""
    response = client.get(address)
    assert response.status_code == 200
    plain = re.sub(
        r"<(script|style).*?</\1>|<[^>]*>", " ", response.content.decode(), flags=re.DOTALL
    )
    return " ".join(html.unescape(plain).split())


def sent(attempt: Attempt, kind: Kind) -> Refusal:
    data = kind.data(attempt)
    try:
        send_segment(attempt, data, seq=next_seq(attempt))
    except SegmentRefusedError:
        assert kind.path is None
    return Refusal.objects.filter(attempt=attempt).order_by("-pk")[0]


def plan_of(scenarios: Sequence[tuple[str, str]], **lane: object) -> Plan:
    limits = {"ordinary": 256, "baseline": 2, "max_parallel": 8}
    return make_scored_plan(make_gated_project(), scenarios=scenarios, limits=limits, lane=lane)


def signed_in(client: Client, plan: Plan) -> Client:
    client.force_login(make_user(project=plan.project, role=Role.VIEWER))
    return client


def check_of(conclusion: Conclusion) -> str:
    output = concluded_output([Concluded(conclusion.plan, conclusion)])
    return f"{output.title}\n{output.summary}\n{output.text}"


def test_every_code_is_in_the_quarantine_of_its_plan(client: Client) -> None:
    plan = plan_of([(f"s-{n}", f"c-{n:03}") for n in range(len(KINDS))])
    refusals = [
        sent(make_attempt(plan, f"ordinary-{n}"), kind) for n, kind in enumerate(KINDS, start=1)
    ]
    reader, address = signed_in(client, plan), reverse("quarantine", args=[plan.digest])

    pages: list[str] = []
    following: str | None = address
    while following is not None:
        response = reader.get(following)
        pages.append(html.unescape(response.content.decode()))
        older = response.context["next"]
        following = f"{address}{older}" if older else None

    for kind, refusal in zip(KINDS, refusals, strict=True):
        assert (refusal.category, refusal.code) == (kind.category, kind.code)
        # Controls and their like are shown as what they are, which the words of a sentence are not.
        assert kind.words in "".join(pages), kind.name


@pytest.mark.parametrize("category", [c for c in Category if c is not Category.MISSING])
def test_each_category_is_on_the_plan_the_lane_and_the_check(
    client: Client, category: Category
) -> None:
    kind = next(k for k in WIRE_KINDS if k.category == category)
    plan = plan_of(SCENARIOS)
    attempt = make_attempt(plan)
    refusal = sent(attempt, kind)
    deliver(attempt_now(plan), GOOD)

    conclusion = concluded(plan)

    reader = signed_in(client, plan)
    on_plan = text_of(reader, reverse("plan", args=[plan.digest]))
    lane = reverse("lane", args=[plan.digest, "ordinary-1"])
    on_lane = text_of(reader, f"{lane}?attempt={attempt.key}")
    in_check = check_of(conclusion)
    subject = f"ordinary-1: {refusal.path or 'a whole segment'}"
    # The attempt's own results come after one that has their path.
    refused = Refusal.objects.filter(plan=plan, category=category)
    assert f"Refused: {refused.count()} {category}" in on_plan
    for text in (on_plan, in_check):
        assert "In quarantine: " in text
        assert subject in text
    assert f"{refused.filter(attempt=attempt).count()} {category}" in on_lane
    assert (refusal.path or "the whole segment") in on_lane
    assert refusal.detail in on_lane


def attempt_now(plan: Plan) -> Attempt:
    """Return the newest attempt of the plan's lane."""
    return Attempt.objects.filter(lane__plan=plan).order_by("-number")[0]


class Gathered(NamedTuple):
    """One thing that only the whole of the evidence shows."""

    name: str
    origin: str
    code: str
    subjects: list[str]
    words: str
    """What the lane's page says."""
    bring: Callable[[Plan], None]

    def __str__(self) -> str:
        return self.name


def _nothing(plan: Plan) -> None:
    """Let the lane's machine never come."""


def _all_but(*missing: str) -> Callable[[Plan], None]:
    """Bring and seal everything but some leaves of the first run key, or of the lane."""

    def bring(plan: Plan) -> None:
        attempt = make_attempt(plan)
        first, *others = run_keys(attempt)
        members = {} if "preflight" in missing else dict(PREFLIGHT)
        for key in others:
            members |= run_members(key, _told(key))
        for path, data in run_members(first, _told(first)).items():
            if not any(word in path for word in missing):
                members[path] = data
        send_members(attempt, members)
        seal_attempt(attempt)

    return bring


def _told(key: object) -> Told:
    told = GOOD(key)  # type: ignore[arg-type]
    assert told is not None
    return told


def _ending(outcome: str, *, runs: int = 4) -> Callable[[Plan], None]:
    def bring(plan: Plan) -> None:
        attempt = make_attempt(plan)
        bad = run_keys(attempt)[:runs]
        deliver(
            attempt, lambda key: _told(key)._replace(outcome=outcome) if key in bad else GOOD(key)
        )
        send_members(attempt, PREFLIGHT)
        seal_attempt(attempt)

    return bring


def _never_sealed(plan: Plan) -> None:
    attempt = make_attempt(plan)
    deliver(attempt, GOOD)
    send_members(attempt, PREFLIGHT)


def _only_in_quarantine(plan: Plan) -> None:
    attempt = make_attempt(plan)
    first, *others = run_keys(attempt)
    deliver(attempt, GOOD, keys=others)
    send_members(attempt, PREFLIGHT)
    send_members(attempt, {f"{run_folder(first)}/result.json": b"{"})
    seal_attempt(attempt)


def _judged_otherwise(plan: Plan) -> None:
    attempt = make_attempt(plan)
    deliver(attempt, lambda key: _told(key)._replace(fingerprint="sha256:" + "7" * 64))
    send_members(attempt, PREFLIGHT)
    seal_attempt(attempt)


def _out_of_scale(plan: Plan) -> None:
    _all_but("judge")(plan)
    attempt = make_attempt(plan)
    deliver(attempt, GOOD)
    first = run_keys(attempt)[0]
    line = judge_line("correctness", 99.0)
    send_members(attempt, {f"{run_folder(first)}/judge.2.ndjson": ndjson(line)})
    send_members(attempt, PREFLIGHT)
    seal_attempt(attempt)


def _unreadable(plan: Plan) -> None:
    attempt = make_attempt(plan)
    with pytest.raises(SegmentRefusedError):
        send_segment(attempt, b"no archive at all", seq=90)
    deliver(attempt, GOOD)
    send_members(attempt, PREFLIGHT)
    seal_attempt(attempt)


def _ran_elsewhere(plan: Plan) -> None:
    attempt = make_attempt(plan)
    deliver(attempt, GOOD)
    send_members(attempt, PREFLIGHT)
    environment = {"tier": "llm_emulated", "memory": True}
    send_members(attempt, {"lane/environment.json": json.dumps(environment).encode()})
    seal_attempt(attempt)


FIRST = "order-0/candidate/1"
GATHERED = [
    Gathered(
        "lane that never came",
        "hve-core: envelope not found, producer set; GAIA: no scorecard produced, ERRORED",
        "missing",
        [f"order-{n}/candidate/{epoch}" for n in range(4) for epoch in (1,)],
        "pieces of evidence are missing",
        _nothing,
    ),
    Gathered(
        "lane that measured nothing for it never came",
        "GAIA: measured NOTHING; hve-core #2832: no trials, false green",
        "unmeasured_lane",
        ["ordinary-1"],
        "No attempt was opened",
        _nothing,
    ),
    Gathered(
        "run key without its result",
        "hve-core: run-key evidence incomplete, trial-population-mismatch; GAIA: N scenarios missing",
        "missing",
        [FIRST],
        FIRST,
        _all_but("result", "judge"),
    ),
    Gathered(
        "run without its judge's lines",
        "hve-core: grader-population-mismatch",
        "missing",
        ["runs/order-0/candidate/1/judge (correctness)"],
        "runs/order-0/candidate/1/judge (correctness)",
        _all_but("judge"),
    ),
    Gathered(
        "lane without a record of its own",
        "hve-core: summary omits producer; GAIA: embedder_ok is nowhere",
        "missing",
        ["ordinary-1: lane/preflight.json"],
        "lane/preflight.json",
        _all_but("preflight"),
    ),
    Gathered(
        "result that lies in quarantine alone",
        "hve-core: invalid-record; GAIA: NOT MEASURED",
        "missing",
        [FIRST],
        FIRST,
        _only_in_quarantine,
    ),
    *(
        Gathered(
            f"lane in which everything is {outcome}",
            "GAIA gap 2: a lane whose every scenario is INFRA_ERROR shows measured; hve-core: execution-error",
            "unmeasured_lane",
            ["ordinary-1"],
            "No run of the lane was measured.",
            _ending(outcome),
        )
        for outcome in (
            *("infra_error", "setup_error", "timeout", "budget_exceeded", "skipped", "judge_error"),
            "simulator_error",
        )
    ),
    Gathered(
        "more unmeasured than the policy allows",
        "GAIA: scenarios without a measurement; hve-core: execution-error",
        "unmeasured",
        [FIRST],
        "infra error",
        _ending("infra_error", runs=1),
    ),
    Gathered(
        "lane that never said that it was done",
        "GAIA: PARTIAL; hve-core: fan-in is not required to see the end",
        "unsealed_lane",
        ["ordinary-1"],
        "never said that it was done",
        _never_sealed,
    ),
    Gathered(
        "judge of another model",
        "GAIA: judge_model differs from expectations; baseline judge mismatch only a banner",
        "judge_changed",
        ["correctness/llm"],
        "passed",
        _judged_otherwise,
    ),
    Gathered(
        "lane in another environment",
        "hve-core: has tier 'x', expected 'y'; GAIA: memory lane with GAIA_MEMORY_DISABLED=1",
        "environment_differs",
        [
            "ordinary-1: the tier was llm_emulated, planned was sandboxed_interactive",
            "ordinary-1: memory was on, planned was off",
        ],
        "passed",
        _ran_elsewhere,
    ),
    Gathered(
        "score outside its scale",
        "hve-core: invalid-trial-score",
        "out_of_scale",
        [f"{FIRST} correctness"],
        "passed",
        _out_of_scale,
    ),
    Gathered(
        "segment that nobody can read",
        "hve-core: envelope unreadable",
        "unreadable_segment",
        ["ordinary-1"],
        "the whole segment",
        _unreadable,
    ),
]


@pytest.mark.parametrize("case", GATHERED, ids=str)
def test_what_gather_finds_is_on_the_plan_the_lane_and_the_check(
    client: Client, case: Gathered
) -> None:
    plan = make_scored_plan(
        make_gated_project(), scenarios=SCENARIOS, epochs=1, lane={"expects": EVERYTHING}
    )
    case.bring(plan)

    conclusion = concluded(plan)

    assert conclusion.conclusion in {"failure", "action_required"}
    found = codes(conclusion)[case.code]
    assert set(case.subjects) <= set(found["subjects"])
    assert found["detail"].endswith(".")
    reader = signed_in(client, plan)
    on_plan = text_of(reader, reverse("plan", args=[plan.digest]))
    on_lane = text_of(reader, reverse("lane", args=[plan.digest, "ordinary-1"]))
    in_check = check_of(conclusion)
    for text in (on_plan, in_check):
        assert found["detail"] in text
        assert all(subject in text for subject in case.subjects)
    assert case.words in on_lane
