"""Which request does what: one table, read by the HTTP side."""

from collections.abc import Callable
from typing import NamedTuple

from evalhub.runner.simulator import customers, intents, refunds
from evalhub.runner.simulator.errors import JsonObject
from evalhub.runner.simulator.parameters import Accepted
from evalhub.runner.simulator.world import World


class Operation(NamedTuple):
    """One kind of request: its address, what it takes, what it does."""

    method: str
    path: str
    accepted: Accepted
    required: tuple[str, ...]
    run: Callable[[World, str, JsonObject], JsonObject]


def _on_all(function: Callable[[World, JsonObject], JsonObject]) -> Callable[..., JsonObject]:
    return lambda world, _key, given: function(world, given)


def _on_one(function: Callable[[World, str], JsonObject]) -> Callable[..., JsonObject]:
    return lambda world, key, _given: function(world, key)


OPERATIONS = (
    Operation("POST", "/v1/customers", customers.WRITABLE, (), _on_all(customers.create)),
    Operation("GET", "/v1/customers", customers.LISTABLE, (), _on_all(customers.list_page)),
    Operation("GET", "/v1/customers/{key}", {}, (), _on_one(customers.retrieve)),
    Operation("POST", "/v1/customers/{key}", customers.WRITABLE, (), customers.update),
    Operation("DELETE", "/v1/customers/{key}", {}, (), _on_one(customers.delete)),
    Operation(
        "POST",
        "/v1/payment_intents",
        intents.CREATABLE,
        ("amount", "currency"),
        _on_all(intents.create),
    ),
    Operation("GET", "/v1/payment_intents", intents.LISTABLE, (), _on_all(intents.list_page)),
    Operation("GET", "/v1/payment_intents/{key}", {}, (), _on_one(intents.retrieve)),
    Operation("POST", "/v1/payment_intents/{key}", intents.UPDATABLE, (), intents.update),
    Operation(
        "POST", "/v1/payment_intents/{key}/confirm", intents.CONFIRMABLE, (), intents.confirm
    ),
    Operation("POST", "/v1/payment_intents/{key}/capture", intents.CAPTURABLE, (), intents.capture),
    Operation("POST", "/v1/payment_intents/{key}/cancel", intents.CANCELABLE, (), intents.cancel),
    Operation("POST", "/v1/refunds", refunds.CREATABLE, (), _on_all(refunds.create)),
    Operation("GET", "/v1/refunds", refunds.LISTABLE, (), _on_all(refunds.list_page)),
    Operation("GET", "/v1/refunds/{key}", {}, (), _on_one(refunds.retrieve)),
    Operation("POST", "/v1/refunds/{key}", refunds.UPDATABLE, (), refunds.update),
    Operation("GET", "/v1/charges", refunds.CHARGES_LISTABLE, (), _on_all(refunds.list_charges)),
    Operation("GET", "/v1/charges/{key}", {}, (), _on_one(refunds.retrieve_charge)),
)
