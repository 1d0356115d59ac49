"""Each claim of isolation, by mutation: two sound lanes, then one thing of one copied to the other."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from evalhub.protocol.canonical import bytes_digest
from evalhub.protocol.plan import PlannedLane
from evalhub.protocol.policy import Isolation
from evalhub.protocol.records import LaneEnvironment
from gates.verdicts.queries.isolation import RESOURCES, Case, ClaimResult, Report, isolation_results
from tests.lanes.factories import NOW

Json = dict[str, Any]
Change = Callable[[Json, Json], None]

SEED = bytes_digest(b"seed")


def fingerprint(*parts: str) -> str:
    return bytes_digest("/".join(parts).encode())


def make_environment(lane: str, attempt: int = 1) -> Json:
    """Return an environment that shares nothing with another lane or attempt."""
    own = f"{lane}-{attempt}"
    return {
        "tier": "sandboxed_interactive",
        "machine": {"boot_id": fingerprint(own, "boot"), "container": fingerprint(own, "box")},
        "simulators": [
            {
                "name": "payments",
                "instance_id": fingerprint(own, "instance"),
                "world_ids": [fingerprint(own, "world")],
                "seed_digest": SEED,
                "foreign_requests": 0,
            }
        ],
        "mcp": [{"server": "pay", "era": "legacy", "session_fps": [fingerprint(own, "session")]}],
        "credentials": [{"purpose": "llm", "fp": fingerprint(lane, "key"), "scope": "lane"}],
        "pool": fingerprint(lane, "pool"),
        "canary": {"planted": fingerprint(own, "canary"), "seen": [fingerprint(own, "canary")]},
    }


def make_lane(name: str, **fields: Any) -> PlannedLane:
    return PlannedLane.model_validate(
        {
            "name": name,
            "kind": "ordinary",
            "categories": ["refunds"],
            "memory": False,
            "runs": [(f"{name}-scenario", "candidate", 1)],
            "expects": {"run": ["result"], "lane": []},
            "environment": {
                "tier": "sandboxed_interactive",
                "simulator": {"name": "payments", "build": SEED, "seed_digest": SEED},
            },
            "pool": "judge-main",
            "timeout_minutes": 60,
            **fields,
        }
    )


def make_report(lane: str, environment: Json, *, attempt: int = 1, minute: int = 0) -> Report:
    opened_at = NOW + timedelta(minutes=minute)
    return Report(
        lane=lane,
        attempt=f"att_{lane}_{attempt}",
        opened_at=opened_at,
        ended_at=opened_at + timedelta(minutes=30),
        environment=LaneEnvironment.model_validate(environment),
    )


def results(
    first: Json, second: Json, *, claims: Isolation | None = None, minute: int = 0
) -> dict[str, ClaimResult]:
    """Judge two lanes that ran at one time, unless the second began at another minute."""
    lanes = {"east": make_lane("east"), "west": make_lane("west")}
    case = Case(
        lanes=lanes,
        reports=[make_report("east", first), make_report("west", second, minute=minute)],
        owing=frozenset({("east", "att_east_1"), ("west", "att_west_1")}),
    )
    return {r.resource: r for r in isolation_results(case, claims=claims or Isolation())}


def states(found: dict[str, ClaimResult]) -> dict[str, str]:
    return {resource: result.state for resource, result in found.items()}


PROVEN = dict.fromkeys(RESOURCES, "proven")


def test_isolation_of_lanes_that_share_nothing_is_proven() -> None:
    found = results(make_environment("east"), make_environment("west"))

    assert states(found) == PROVEN


def _copy_machine(east: Json, west: Json) -> None:
    west["machine"]["boot_id"] = east["machine"]["boot_id"]
    west["machine"]["container"] = east["machine"]["container"]


def _copy_world(east: Json, west: Json) -> None:
    west["simulators"][0]["world_ids"] = east["simulators"][0]["world_ids"]


def _copy_instance(east: Json, west: Json) -> None:
    west["simulators"][0]["instance_id"] = east["simulators"][0]["instance_id"]


def _copy_session(east: Json, west: Json) -> None:
    west["mcp"][0]["session_fps"] = east["mcp"][0]["session_fps"]


def _copy_credential(east: Json, west: Json) -> None:
    west["credentials"] = east["credentials"]


def _copy_pool(east: Json, west: Json) -> None:
    west["pool"] = east["pool"]


def _other_seed(east: Json, west: Json) -> None:
    for environment in (east, west):
        environment["simulators"][0]["seed_digest"] = fingerprint("another seed")


def _see_foreign_canary(east: Json, west: Json) -> None:
    west["canary"]["seen"].append(east["canary"]["planted"])


def _see_unknown_canary(east: Json, west: Json) -> None:
    west["canary"]["seen"].append(fingerprint("nobody's"))


def _count_foreign_request(east: Json, west: Json) -> None:
    west["simulators"][0]["foreign_requests"] = 1


@pytest.mark.parametrize(
    ("change", "resource"),
    [
        (_copy_machine, "machine"),
        (_copy_world, "world"),
        (_copy_instance, "world"),
        (_count_foreign_request, "world"),
        (_copy_session, "mcp_session"),
        (_copy_credential, "credential"),
        (_copy_pool, "pool"),
        (_other_seed, "seed"),
        (_see_foreign_canary, "canary"),
        (_see_unknown_canary, "canary"),
    ],
)
def test_isolation_names_exactly_the_claim_that_is_violated(change: Change, resource: str) -> None:
    east, west = make_environment("east"), make_environment("west")
    change(east, west)

    found = results(east, west)

    assert states(found) == {**PROVEN, resource: "violated"}
    assert {name for o in found[resource].offences for name in (o.first, o.second) if name} <= {
        "east",
        "west",
    }


def test_isolation_names_the_pair_that_shares() -> None:
    east, west = make_environment("east"), make_environment("west")
    _copy_world(east, west)

    (offence,) = results(east, west)["world"].offences

    assert (offence.first, offence.second, offence.detail) == ("east", "west", "share a world")


@pytest.mark.parametrize(
    ("field", "resources"),
    [
        ("machine", {"machine"}),
        ("simulators", {"world", "seed"}),
        ("mcp", {"mcp_session"}),
        ("credentials", {"credential"}),
        ("pool", {"pool"}),
        ("canary", {"canary"}),
    ],
)
def test_isolation_without_a_report_is_unproven(field: str, resources: set[str]) -> None:
    east, west = make_environment("east"), make_environment("west")
    del west[field]

    found = results(east, west)

    assert states(found) == {**PROVEN, **dict.fromkeys(resources, "unproven")}
    assert all(found[r].offences[0].first == "west" for r in resources)


def test_isolation_of_a_lane_without_environment_is_unproven_everywhere() -> None:
    case = Case(
        lanes={"east": make_lane("east"), "west": make_lane("west")},
        reports=[make_report("east", make_environment("east"))],
        owing=frozenset({("east", "att_east_1"), ("west", "att_west_1")}),
    )

    found = isolation_results(case, claims=Isolation())

    assert {result.state for result in found} == {"unproven"}
    assert all(result.offences[0].first == "west" for result in found)


def test_isolation_on_one_machine_at_different_times_is_proven() -> None:
    east, west = make_environment("east"), make_environment("west")
    _copy_machine(east, west)

    assert results(east, west, minute=60)["machine"].state == "proven"


def test_isolation_in_two_containers_of_one_machine_is_unproven() -> None:
    east, west = make_environment("east"), make_environment("west")
    west["machine"]["boot_id"] = east["machine"]["boot_id"]

    assert results(east, west)["machine"].state == "unproven"


def test_isolation_that_is_not_claimed_is_listed_and_not_judged() -> None:
    east, west = make_environment("east"), make_environment("west")
    _copy_world(east, west)
    claims = Isolation(world="not_claimed")

    found = results(east, west, claims=claims)

    assert states(found) == {**PROVEN, "world": "not_claimed"}
    assert found["world"].offences == ()


@pytest.mark.parametrize(("scope", "state"), [("campaign", "proven"), ("lane", "violated")])
def test_isolation_allows_sharing_only_where_it_is_declared(scope: str, state: str) -> None:
    east, west = make_environment("east"), make_environment("west")
    east["credentials"][0]["scope"] = scope
    _copy_credential(east, west)
    claims = Isolation(credential="shared_declared")

    assert results(east, west, claims=claims)["credential"].state == state


def test_isolation_of_equal_seeds_is_violated_by_a_lane_that_differs() -> None:
    east, west = make_environment("east"), make_environment("west")
    lanes = {
        name: make_lane(name, environment={"tier": "sandboxed_interactive"})
        for name in ("east", "west")
    }
    west["simulators"][0]["seed_digest"] = fingerprint("another seed")
    case = Case(lanes, [make_report("east", east), make_report("west", west)], frozenset())

    found = {r.resource: r for r in isolation_results(case, claims=Isolation())}

    assert found["seed"].state == "violated"


def test_isolation_of_a_second_attempt_needs_a_world_of_its_own() -> None:
    first, second = make_environment("east", 1), make_environment("east", 2)
    second["simulators"][0]["world_ids"] = first["simulators"][0]["world_ids"]
    case = Case(
        lanes={"east": make_lane("east")},
        reports=[
            make_report("east", first),
            make_report("east", second, attempt=2, minute=60),
        ],
        owing=frozenset(),
    )

    found = {r.resource: r for r in isolation_results(case, claims=Isolation())}

    assert states(found) == {**PROVEN, "world": "violated"}


def test_isolation_of_a_second_attempt_on_the_same_key_and_pool_is_proven() -> None:
    reports = [
        make_report("east", make_environment("east", number), attempt=number, minute=60 * number)
        for number in (1, 2)
    ]
    case = Case({"east": make_lane("east")}, reports, frozenset())

    assert {r.state for r in isolation_results(case, claims=Isolation())} == {"proven"}


def test_isolation_is_violated_by_an_advisory_lane_too() -> None:
    east, west = make_environment("east"), make_environment("west")
    _copy_world(east, west)
    lanes = {"east": make_lane("east"), "west": make_lane("west", kind="advisory")}
    case = Case(lanes, [make_report("east", east), make_report("west", west)], frozenset())

    found = {r.resource: r for r in isolation_results(case, claims=Isolation())}

    assert found["world"].state == "violated"
