"""Customers: create, retrieve, update, list, delete."""

from evalhub.runner.simulator.errors import ApiError, JsonObject
from evalhub.runner.simulator.listing import page_of
from evalhub.runner.simulator.parameters import (
    CREATED,
    EMAIL,
    INTEGER,
    METADATA,
    PAGE,
    TEXT,
    Accepted,
    Group,
    merged_metadata,
    one_of,
)
from evalhub.runner.simulator.world import World, found

_ADDRESS = ("city", "country", "line1", "line2", "postal_code", "state")
WRITABLE: Accepted = {
    "address": Group(parts=dict.fromkeys(_ADDRESS, TEXT)),
    "balance": INTEGER,
    "description": TEXT,
    "email": EMAIL,
    "metadata": METADATA,
    "name": TEXT,
    "phone": TEXT,
    "tax_exempt": one_of("none", "exempt", "reverse"),
}
LISTABLE: Accepted = {**PAGE, "created": CREATED, "email": EMAIL}


def create(world: World, given: JsonObject) -> JsonObject:
    key = world.new_id("cus")
    customer: JsonObject = {
        "id": key,
        "object": "customer",
        "address": None,
        "balance": 0,
        "created": world.tick(),
        "currency": None,
        "default_source": None,
        "delinquent": False,
        "description": None,
        "discount": None,
        "email": None,
        "invoice_prefix": key[4:12].upper(),
        "livemode": False,
        "metadata": {},
        "name": None,
        "next_invoice_sequence": 1,
        "phone": None,
        "preferred_locales": [],
        "shipping": None,
        "tax_exempt": "none",
        "test_clock": None,
    }
    _apply(customer, given)
    world.customers[key] = customer
    return customer


def retrieve(world: World, key: str) -> JsonObject:
    """Return the customer; one that was deleted is answered as its stub, not as absent."""
    return found(world.customers, key, noun="customer", param="id")


def update(world: World, key: str, given: JsonObject) -> JsonObject:
    customer = _present(world, key, param="id", in_path=True)
    _apply(customer, given)
    return customer


def delete(world: World, key: str) -> JsonObject:
    _present(world, key, param="id", in_path=True)
    world.customers[key] = {"id": key, "object": "customer", "deleted": True}
    return world.customers[key]


def list_page(world: World, given: JsonObject) -> JsonObject:
    return page_of(world.customers, given, noun="customer", url="/v1/customers")


def check_present(world: World, given: JsonObject) -> None:
    """Refuse a `customer` parameter that names no customer, or a deleted one."""
    if given.get("customer") is not None:
        _present(world, given["customer"], param="customer", in_path=False)


def _present(world: World, key: str, *, param: str, in_path: bool) -> JsonObject:
    customer = found(world.customers, key, noun="customer", param=param, in_path=in_path)
    if customer.get("deleted"):
        raise ApiError(
            f"No such customer: '{key}'; it was deleted.",
            status=404 if in_path else 400,
            code="resource_missing",
            param=param,
        )
    return customer


def _apply(customer: JsonObject, given: JsonObject) -> None:
    metadata = customer["metadata"]
    if "metadata" in given:
        metadata = merged_metadata(metadata, given["metadata"])
    address = customer["address"]
    if "address" in given:
        address = {**(address or dict.fromkeys(_ADDRESS)), **given["address"]}
    customer.update({**given, "address": address, "metadata": metadata})
