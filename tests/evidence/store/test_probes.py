"""What a lane tells of its simulator goes down to the match rates; what cannot count is refused."""

from typing import Any

import pytest

from evalhub.protocol.canonical import bytes_digest
from evidence.store import queries
from evidence.store.models import Item, Refusal
from lanes.fidelity.models import ProbeResult
from lanes.plans.models import Attempt
from lanes.projects.models import Project
from tests.evidence.factories import Json, ndjson, seal_attempt, send_members
from tests.lanes.factories import make_attempt, make_plan

pytestmark = pytest.mark.django_db

BUILD = bytes_digest(b"payments 1.4")
PART = "lane/probes.1.ndjson"


def make_probing_attempt(project: Project | None = None) -> Attempt:
    """Open an attempt of a lane to which the plan gives a simulator."""
    simulator = {"name": "payments", "build": BUILD}
    environment = {"tier": "sandboxed_interactive", "simulator": simulator}
    return make_attempt(make_plan(project, lane={"environment": environment}))


def probe_line(probe: str = "pi.create", result: str = "match", **fields: Any) -> Json:
    return {
        "probe": probe,
        "digest": bytes_digest(probe.encode()),
        "category": "happy",
        "source": "recorded",
        "result": result,
        **fields,
    }


def refusal_of(attempt: Attempt) -> Refusal:
    (refusal,) = queries.refusals_of_plan(attempt.lane.plan)
    return refusal


def test_probes_become_rows_of_the_build_that_the_plan_names() -> None:
    attempt = make_probing_attempt()
    filter_ = probe_line("pi.list.unknown_filter", "mismatch", paths=["/data/*", "/error/code"])
    lines = [probe_line(at="2026-11-29T12:00:00Z", duration_ms=12, extra={"x": 1}), filter_]

    receipt = send_members(attempt, {PART: ndjson(*lines)}).receipt

    assert (receipt.accepted, receipt.refused) == (1, [])
    assert Item.objects.get(path=PART).lines == 2
    matching, differing = ProbeResult.objects.order_by("probe")
    assert (matching.project, matching.suite_name) == (attempt.lane.plan.project, "support")
    assert (matching.plan, matching.lane, matching.attempt) == (
        attempt.lane.plan.digest,
        "ordinary-1",
        attempt.key,
    )
    assert (matching.simulator, matching.build) == ("payments", BUILD)
    assert (matching.result, matching.paths) == ("match", [])
    assert (differing.category, differing.source) == ("happy", "recorded")
    assert (differing.result, differing.paths) == ("mismatch", ["/data/*", "/error/code"])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (probe_line(result="passed"), "/result"),
        (probe_line(source="guessed"), "/source"),
        (probe_line(paths=["/a"]), "no paths where the answers match"),
        (probe_line(colour="red"), "/colour"),
        (probe_line(digest="abc"), "/digest"),
        (probe_line(probe=""), "/probe"),
        (probe_line(probe="a\x1b[31m"), "/probe"),
        (probe_line("x", "mismatch", paths=["/a"] * 201), "/paths"),
    ],
)
def test_malformed_probe_is_refused_with_its_line_and_field(line: Json, said: str) -> None:
    attempt = make_probing_attempt()

    send_members(attempt, {PART: ndjson(probe_line("before"), line)})

    refusal = refusal_of(attempt)
    assert (refusal.category, refusal.code) == ("malformed", "invalid_line")
    assert refusal.detail.startswith("Line 2: ")
    assert said in refusal.detail
    assert not ProbeResult.objects.exists()


def test_empty_part_is_refused() -> None:
    attempt = make_probing_attempt()

    send_members(attempt, {PART: b""})

    assert refusal_of(attempt).code == "empty"


def test_probe_told_twice_in_a_part_is_refused() -> None:
    attempt = make_probing_attempt()

    send_members(attempt, {PART: ndjson(probe_line(), probe_line(result="mismatch"))})

    refusal = refusal_of(attempt)
    assert (refusal.category, refusal.code) == ("malformed", "repeated_probe")


def test_probe_told_again_by_a_later_part_is_refused_and_the_first_stands() -> None:
    attempt = make_probing_attempt()
    send_members(attempt, {PART: ndjson(probe_line(result="mismatch"))})
    parts = {
        "lane/probes.2.ndjson": ndjson(probe_line("other")),
        "lane/probes.3.ndjson": ndjson(probe_line(), probe_line("third")),
        "lane/probes.4.ndjson": ndjson(probe_line("other")),
    }

    send_members(attempt, parts)

    refused = {refusal.path: refusal for refusal in queries.refusals_of_plan(attempt.lane.plan)}
    assert set(refused) == {"lane/probes.3.ndjson", "lane/probes.4.ndjson"}
    third = refused["lane/probes.3.ndjson"]
    assert (third.category, third.code) == ("duplicate", "repeated_probe")
    assert third.detail == "Probe pi.create was told of by an earlier part; each is run once."
    told = ProbeResult.objects.values_list("probe", "result")
    assert sorted(told) == [("other", "match"), ("pi.create", "mismatch")]


def test_same_part_sent_again_is_told_of_once() -> None:
    attempt = make_probing_attempt()
    part = {PART: ndjson(probe_line())}

    receipts = [send_members(attempt, part).receipt for _ in range(2)]

    assert [receipt.accepted for receipt in receipts] == [1, 1]
    assert ProbeResult.objects.count() == 1


def test_probe_of_a_new_attempt_is_told_beside_the_first() -> None:
    first = make_probing_attempt()
    send_members(first, {PART: ndjson(probe_line())})
    second = make_attempt(first.lane.plan)

    send_members(second, {PART: ndjson(probe_line())})

    assert ProbeResult.objects.count() == 2


def test_lane_without_a_simulator_has_nothing_to_probe() -> None:
    attempt = make_attempt()

    send_members(attempt, {PART: ndjson(probe_line())})

    refusal = refusal_of(attempt)
    assert (refusal.category, refusal.code) == ("unexpected", "no_simulator")
    assert not ProbeResult.objects.exists()


def test_more_probes_than_anybody_can_weigh_are_refused() -> None:
    attempt = make_probing_attempt()
    many = [probe_line(f"probe-{number}") for number in range(5_000)]
    send_members(attempt, {PART: ndjson(*many)})

    send_members(attempt, {"lane/probes.2.ndjson": ndjson(probe_line("one too many"))})

    assert refusal_of(attempt).code == "too_many_probes"
    assert ProbeResult.objects.count() == 5_000


def test_probes_after_the_seal_never_reach_a_rate() -> None:
    attempt = make_probing_attempt()
    seal_attempt(attempt)
    attempt.refresh_from_db()

    send_members(attempt, {PART: ndjson(probe_line())})

    assert refusal_of(attempt).category == "stale"
    assert not ProbeResult.objects.exists()
