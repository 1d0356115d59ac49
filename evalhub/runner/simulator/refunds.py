"""Refunds, and the charges that they are taken from."""

from evalhub.runner.simulator.errors import ApiError, JsonObject, missing_parameter
from evalhub.runner.simulator.listing import page_of
from evalhub.runner.simulator.parameters import (
    AMOUNT,
    CREATED,
    METADATA,
    PAGE,
    TEXT,
    Accepted,
    merged_metadata,
    one_of,
)
from evalhub.runner.simulator.world import World, found

CREATABLE: Accepted = {
    "amount": AMOUNT,
    "charge": TEXT,
    "metadata": METADATA,
    "payment_intent": TEXT,
    "reason": one_of("duplicate", "fraudulent", "requested_by_customer"),
}
UPDATABLE: Accepted = {"metadata": METADATA}
LISTABLE: Accepted = {**PAGE, "charge": TEXT, "created": CREATED, "payment_intent": TEXT}
CHARGES_LISTABLE: Accepted = {
    **PAGE,
    "created": CREATED,
    "customer": TEXT,
    "payment_intent": TEXT,
}


def create(world: World, given: JsonObject) -> JsonObject:
    """Give money back; without `amount`, all that is left of the charge."""
    charge = _charge_of(world, given)
    left = charge["amount_captured"] - charge["amount_refunded"]
    if charge["refunded"]:
        raise ApiError(
            f"Charge {charge['id']} has already been refunded.", code="charge_already_refunded"
        )
    amount = given.get("amount", left)
    if amount > left:
        raise ApiError(
            f"Refund amount ({_money(amount, charge)}) is greater than unrefunded amount on "
            f"charge ({_money(left, charge)})",
            param="amount",
        )
    charge["amount_refunded"] += amount
    charge["refunded"] = charge["amount_refunded"] == charge["amount_captured"]
    key = world.new_id("re")
    world.refunds[key] = {
        "id": key,
        "object": "refund",
        "amount": amount,
        "balance_transaction": None,
        "charge": charge["id"],
        "created": world.tick(),
        "currency": charge["currency"],
        "metadata": merged_metadata({}, given.get("metadata", {})),
        "payment_intent": charge["payment_intent"],
        "reason": given.get("reason"),
        "receipt_number": None,
        "status": "succeeded",
    }
    return world.refunds[key]


def retrieve(world: World, key: str) -> JsonObject:
    return found(world.refunds, key, noun="refund", param="refund")


def update(world: World, key: str, given: JsonObject) -> JsonObject:
    refund = retrieve(world, key)
    if "metadata" in given:
        refund["metadata"] = merged_metadata(refund["metadata"], given["metadata"])
    return refund


def list_page(world: World, given: JsonObject) -> JsonObject:
    _check_filters(world, given)
    return page_of(world.refunds, given, noun="refund", url="/v1/refunds")


def retrieve_charge(world: World, key: str) -> JsonObject:
    return found(world.charges, key, noun="charge", param="id")


def list_charges(world: World, given: JsonObject) -> JsonObject:
    _check_filters(world, given)
    return page_of(world.charges, given, noun="charge", url="/v1/charges")


def _check_filters(world: World, given: JsonObject) -> None:
    tables = {
        "charge": world.charges,
        "customer": world.customers,
        "payment_intent": world.payment_intents,
    }
    for name, table in tables.items():
        if given.get(name) is not None:
            found(table, given[name], noun=name, param=name, in_path=False)


def _charge_of(world: World, given: JsonObject) -> JsonObject:
    if given.get("charge") is None and given.get("payment_intent") is None:
        raise missing_parameter("payment_intent")
    if given.get("charge") is not None and given.get("payment_intent") is not None:
        raise ApiError(
            "Received both charge and payment_intent: give one of them.", param="payment_intent"
        )
    if given.get("charge") is not None:
        return found(world.charges, given["charge"], noun="charge", param="charge", in_path=False)
    intent = found(
        world.payment_intents,
        given["payment_intent"],
        noun="payment_intent",
        param="payment_intent",
        in_path=False,
    )
    if intent["latest_charge"] is None:
        raise ApiError(
            f"This PaymentIntent ({intent['id']}) does not have a successful charge to refund.",
            param="payment_intent",
        )
    return world.charges[intent["latest_charge"]]


def _money(amount: int, charge: JsonObject) -> str:
    # The yen has no smaller unit: 500 is 500 yen, not 5.00.
    currency = charge["currency"].upper()
    return f"{amount} {currency}" if currency == "JPY" else f"{amount / 100:.2f} {currency}"
