"""The world before anybody has touched it."""

from collections import Counter

import pytest

from evalhub.runner.simulator import intents
from evalhub.runner.simulator.seeding import CUSTOMERS, build_digest, orders, seeded_world

pytestmark = pytest.mark.slow


def test_equal_seeds_give_equal_worlds() -> None:
    assert seeded_world(7).digest() == seeded_world(7).digest()
    assert seeded_world(7).digest() != seeded_world(8).digest()


def test_digest_of_a_seed_never_changes() -> None:
    # Plans name this digest: a change of the seeded data is a new SEED_VERSION and a new line here.
    assert (
        seeded_world(7).digest()
        == "sha256:d33969025dfc9548aa15f62c4142486ddb79d4efc35bc37904a93521f8593966"
    )


@pytest.mark.parametrize("seed", [1, 7, 2026])
def test_seeded_data_can_hurt(seed: int) -> None:
    world = seeded_world(seed)
    placed = Counter(intent["status"] for intent in world.payment_intents.values())
    refunded = [charge for charge in world.charges.values() if charge["amount_refunded"]]

    assert len(world.customers) >= 31
    assert set(placed) == set(intents.STATUSES)
    assert min(placed.values()) >= 6
    assert {charge["refunded"] for charge in refunded} == {True, False}
    assert any(intent["currency"] == "jpy" for intent in world.payment_intents.values())
    assert len({name for name, _ in CUSTOMERS}) < len(CUSTOMERS)


def test_rows_stand_in_another_order_for_another_seed() -> None:
    first, second = (
        [row["email"] for row in seeded_world(seed).customers.values()] for seed in (1, 2)
    )

    assert sorted(first) == sorted(second)
    assert first != second
    assert first != [email for _, email in CUSTOMERS]


def test_orders_are_placed_as_listed() -> None:
    world = seeded_world(7)
    by_number = {row["metadata"]["order"]: row for row in world.payment_intents.values()}

    for order in orders():
        intent = by_number[order.number]
        assert world.customers[intent["customer"]]["email"] == order.email
        assert (intent["status"], intent["currency"]) == (order.status, order.currency)
        assert intent["amount"] >= 4000


def test_times_are_unique_and_before_the_clock() -> None:
    world = seeded_world(7)
    times = [row["created"] for row in world.payment_intents.values()]

    assert len(times) == len(set(times))
    assert max(times) < world.clock


def test_build_digest_is_a_digest() -> None:
    assert build_digest() == build_digest()
    assert build_digest().startswith("sha256:")
    assert len(build_digest()) == 71
