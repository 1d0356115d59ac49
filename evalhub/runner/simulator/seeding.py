"""The data that a world begins with.

Who exists and which orders they have is fixed; ids, row order, times and amounts follow from the
seed. The data is meant to be able to hurt: more than three pages of customers, names and addresses
that differ by a letter, intents in every status, a partial refund, a currency without cents, and
rows in no order that would make the first page the right one.
"""

import hashlib
from pathlib import Path
from typing import NamedTuple

from evalhub.runner.simulator import customers, intents, refunds
from evalhub.runner.simulator.errors import JsonObject
from evalhub.runner.simulator.world import CLOCK_START, World, draw

NAME = "payments"
SEED_VERSION = 1
# The rows were made in the three months before the world's clock starts.
_DAYS_BEFORE = 90

CUSTOMERS = (
    ("Ana Souza", "ana.souza@example.com"),
    ("Anna Souza", "anna.souza@example.com"),
    ("Ana Sousa", "ana.sousa@example.com"),
    ("Liam Novak", "liam.novak@example.com"),
    ("Liam Novak", "l.novak@example.org"),
    ("Mei Tanaka", "mei.tanaka@example.com"),
    ("Mei Tanaka", "mei.tanaka@example.net"),
    ("Priya Raman", "priya.raman@example.com"),
    ("Priya Ramani", "priya.ramani@example.com"),
    ("Jonas Weber", "jonas.weber@example.com"),
    ("Jonas Webber", "jonas.webber@example.com"),
    ("Fatima Haddad", "fatima.haddad@example.com"),
    ("Fatimah Haddad", "fatimah.haddad@example.com"),
    ("Oskar Lind", "oskar.lind@example.com"),
    ("Oscar Lind", "oscar.lind@example.com"),
    ("Chloe Martin", "chloe.martin@example.com"),
    ("Chloé Martin", "chloe.martin@example.org"),
    ("Ivan Petrov", "ivan.petrov@example.com"),
    ("Ivana Petrova", "ivana.petrova@example.com"),
    ("Noor Aziz", "noor.aziz@example.com"),
    ("Tomás Vega", "tomas.vega@example.com"),
    ("Thomas Vega", "thomas.vega@example.com"),
    ("Grace Okafor", "grace.okafor@example.com"),
    ("Grace Okafor-Bell", "grace.okafor.bell@example.com"),
    ("Hugo Blanc", "hugo.blanc@example.com"),
    ("Ingrid Dahl", "ingrid.dahl@example.com"),
    ("Kenji Mori", "kenji.mori@example.com"),
    ("Kenji Morita", "kenji.morita@example.com"),
    ("Lucia Ferri", "lucia.ferri@example.com"),
    ("Marta Kowalska", "marta.kowalska@example.com"),
    ("Marta Kowalski", "marta.kowalski@example.com"),
    ("Nils Berg", "nils.berg@example.com"),
    ("Olga Brandt", "olga.brandt@example.com"),
    ("Pavel Horak", "pavel.horak@example.com"),
    ("Rosa Jimenez", "rosa.jimenez@example.com"),
    ("Samir Khan", "samir.khan@example.com"),
)
ORDER_COUNT = 72
# Of twelve orders in a row; the last column of each status is met six times in the whole set.
_STATUSES = (
    *("succeeded",) * 6,
    "requires_payment_method",
    "requires_confirmation",
    "requires_capture",
    "requires_action",
    "canceled",
    "processing",
)
_PARTLY_REFUNDED, _FULLY_REFUNDED = 3, 14


class Order(NamedTuple):
    """One seeded payment intent, named by its order number in the metadata."""

    number: str
    email: str
    status: str
    currency: str


def orders() -> list[Order]:
    """Return the orders in every world, whatever its seed."""
    return [
        Order(
            number=f"A-{1001 + index}",
            # 7 is coprime to the number of customers: each has two orders.
            email=CUSTOMERS[index * 7 % len(CUSTOMERS)][1],
            status=_STATUSES[(index + index // len(CUSTOMERS)) % len(_STATUSES)],
            currency=("usd", "eur", "usd", "jpy", "gbp")[index % 5],
        )
        for index in range(ORDER_COUNT)
    ]


def seeded_world(seed: int) -> World:
    """Return the world of this seed. Equal seeds give equal worlds, byte for byte."""
    world = World(seed=seed, clock=CLOCK_START - _DAYS_BEFORE * 86_400)
    step = _DAYS_BEFORE * 86_400 // (len(CUSTOMERS) + ORDER_COUNT + 2)
    people: dict[str, str] = {}
    for index in _shuffled(len(CUSTOMERS), seed=seed, label="customers"):
        name, email = CUSTOMERS[index]
        world.clock += draw(seed, "pause", email, below=step - 10)
        people[email] = customers.create(world, _person(name, email, index=index))["id"]
    book = orders()
    for index in _shuffled(len(book), seed=seed, label="orders"):
        world.clock += draw(seed, "pause", book[index].number, below=step - 10)
        intent = _place(world, book[index], customer=people[book[index].email])
        if index == _PARTLY_REFUNDED:
            refunds.create(world, {"payment_intent": intent["id"], "amount": 1500})
        if index == _FULLY_REFUNDED:
            refunds.create(world, {"payment_intent": intent["id"], "reason": "duplicate"})
    world.clock = CLOCK_START
    return world


def build_digest() -> str:
    """Return the sha256 over this package's source files: which simulator this is."""
    build = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        build.update(f"{path.name}\0".encode())
        build.update(hashlib.sha256(path.read_bytes()).digest())
    return f"sha256:{build.hexdigest()}"


def _person(name: str, email: str, *, index: int) -> JsonObject:
    plan = ("basic", "plus", "team")[index % 3]
    return {"name": name, "email": email, "metadata": {"plan": plan}}


def _place(world: World, order: Order, *, customer: str) -> JsonObject:
    """Bring one order into its status, by the API's own operations where they lead there."""
    # Whole units for the yen, else cents; never below 40.00, so that a part can be refunded.
    amount = 4_000 + draw(world.seed, "amount", order.number, below=30_000)
    waits = order.status in {"requires_payment_method", "canceled"}
    given: JsonObject = {
        "amount": amount,
        "currency": order.currency,
        "customer": customer,
        "description": f"Order {order.number}",
        "metadata": {"order": order.number},
        "capture_method": "manual" if order.status == "requires_capture" else "automatic",
        "payment_method": None if waits else _card(order.status),
        "confirm": order.status in {"succeeded", "requires_capture", "requires_action"},
    }
    intent = intents.create(world, given)
    if order.status == "canceled":
        intents.cancel(world, intent["id"], {"cancellation_reason": "abandoned"})
    if order.status == "processing":
        # Cards never rest here; bank debits do, and this world has none to confirm.
        intent["status"] = "processing"
    return intent


def _card(status: str) -> str:
    return "pm_card_authenticationRequired" if status == "requires_action" else "pm_card_visa"


def _shuffled(count: int, *, seed: int, label: str) -> list[int]:
    return sorted(range(count), key=lambda index: draw(seed, label, index, below=2**63))
