"""Payment intents and their life: create, confirm, capture, cancel, update, list.

requires_payment_method -> requires_confirmation -> succeeded | requires_capture
                                                  | requires_action | declined (and back)
"""

from typing import NamedTuple

from evalhub.runner.simulator import customers
from evalhub.runner.simulator.errors import ApiError, JsonObject, missing_object
from evalhub.runner.simulator.listing import page_of
from evalhub.runner.simulator.parameters import (
    AMOUNT,
    BOOLEAN,
    CREATED,
    EMAIL,
    METADATA,
    PAGE,
    TEXT,
    Accepted,
    merged_metadata,
    one_of,
)
from evalhub.runner.simulator.world import World, found

CURRENCIES = ("chf", "eur", "gbp", "jpy", "usd")
STATUSES = (
    "canceled",
    "processing",
    "requires_action",
    "requires_capture",
    "requires_confirmation",
    "requires_payment_method",
    "succeeded",
)
_CANCELABLE = (
    "requires_payment_method",
    "requires_capture",
    "requires_confirmation",
    "requires_action",
    "processing",
)
_CONFIRMABLE = ("requires_payment_method", "requires_confirmation", "requires_action")


class _Card(NamedTuple):
    """What a test payment method does on confirmation."""

    outcome: str
    decline_code: str | None = None


_CARDS = {
    "pm_card_visa": _Card("charged"),
    "pm_card_mastercard": _Card("charged"),
    "pm_card_authenticationRequired": _Card("requires_action"),
    "pm_card_chargeDeclined": _Card("declined", "generic_decline"),
    "pm_card_chargeDeclinedInsufficientFunds": _Card("declined", "insufficient_funds"),
}
_DESCRIPTIVE: Accepted = {
    "customer": TEXT,
    "description": TEXT,
    "metadata": METADATA,
    "payment_method": TEXT,
    "receipt_email": EMAIL,
}
CREATABLE: Accepted = {
    **_DESCRIPTIVE,
    "amount": AMOUNT,
    "capture_method": one_of("automatic", "manual"),
    "confirm": BOOLEAN,
    "currency": one_of(*CURRENCIES),
}
UPDATABLE: Accepted = {**_DESCRIPTIVE, "amount": AMOUNT, "currency": one_of(*CURRENCIES)}
CONFIRMABLE: Accepted = {"payment_method": TEXT}
CAPTURABLE: Accepted = {"amount_to_capture": AMOUNT}
CANCELABLE: Accepted = {
    "cancellation_reason": one_of("duplicate", "fraudulent", "requested_by_customer", "abandoned")
}
# `status` is this world's own: the API that it follows offers it in its search only.
LISTABLE: Accepted = {**PAGE, "created": CREATED, "customer": TEXT, "status": one_of(*STATUSES)}


def create(world: World, given: JsonObject) -> JsonObject:
    _check_references(world, given)
    key = world.new_id("pi")
    method = given.get("payment_method")
    intent: JsonObject = {
        "id": key,
        "object": "payment_intent",
        "amount": given["amount"],
        "amount_capturable": 0,
        "amount_received": 0,
        "canceled_at": None,
        "cancellation_reason": None,
        "capture_method": given.get("capture_method", "automatic"),
        "client_secret": f"{key}_secret_{world.seed}",
        "confirmation_method": "automatic",
        "created": world.tick(),
        "currency": given["currency"],
        "customer": given.get("customer"),
        "description": given.get("description"),
        "last_payment_error": None,
        "latest_charge": None,
        "livemode": False,
        "metadata": merged_metadata({}, given.get("metadata", {})),
        "next_action": None,
        "payment_method": method,
        "payment_method_types": ["card"],
        "receipt_email": given.get("receipt_email"),
        "status": "requires_payment_method" if method is None else "requires_confirmation",
    }
    world.payment_intents[key] = intent
    return confirm(world, key, {}) if given.get("confirm") else intent


def retrieve(world: World, key: str) -> JsonObject:
    return found(world.payment_intents, key, noun="payment_intent", param="intent")


def update(world: World, key: str, given: JsonObject) -> JsonObject:
    """Change an intent; what was paid or canceled keeps its amount and currency."""
    intent = retrieve(world, key)
    _check_references(world, given)
    fixed = sorted({"amount", "currency", "payment_method", "customer"} & given.keys())
    if fixed and intent["status"] not in _CONFIRMABLE:
        raise _unexpected_state(intent, verb="updated", allowed=_CONFIRMABLE, param=fixed[0])
    metadata = intent["metadata"]
    if "metadata" in given:
        metadata = merged_metadata(metadata, given["metadata"])
    intent.update({**given, "metadata": metadata})
    if given.get("payment_method") and intent["status"] == "requires_payment_method":
        intent["status"] = "requires_confirmation"
    return intent


def confirm(world: World, key: str, given: JsonObject) -> JsonObject:
    """Charge the payment method, or put the intent on hold when it is captured by hand."""
    intent = retrieve(world, key)
    _check_references(world, given)
    if intent["status"] not in _CONFIRMABLE:
        raise _unexpected_state(intent, verb="confirmed", allowed=_CONFIRMABLE)
    method = given.get("payment_method") or intent["payment_method"]
    if method is None:
        raise ApiError(
            "You cannot confirm this PaymentIntent because it's missing a payment method.",
            code="payment_intent_unexpected_state",
        )
    intent["payment_method"] = method
    card = _CARDS[method]
    if card.outcome == "declined":
        raise _decline(intent, card)
    intent["last_payment_error"] = None
    if card.outcome == "requires_action":
        intent["status"] = "requires_action"
        intent["next_action"] = {"type": "use_stripe_sdk"}
    elif intent["capture_method"] == "manual":
        intent["status"] = "requires_capture"
        intent["amount_capturable"] = intent["amount"]
    else:
        _charge(world, intent, amount=intent["amount"])
    return intent


def capture(world: World, key: str, given: JsonObject) -> JsonObject:
    """Take the money on hold, or a part of it; the rest is released."""
    intent = retrieve(world, key)
    if intent["status"] != "requires_capture":
        raise _unexpected_state(intent, verb="captured", allowed=("requires_capture",))
    amount = intent["amount_capturable"]
    if "amount_to_capture" in given:
        amount = given["amount_to_capture"]
    if amount > intent["amount_capturable"]:
        raise ApiError(
            "The amount_to_capture is greater than the remaining amount you can capture.",
            code="amount_too_large",
            param="amount_to_capture",
        )
    intent["amount_capturable"] = 0
    _charge(world, intent, amount=amount)
    return intent


def cancel(world: World, key: str, given: JsonObject) -> JsonObject:
    intent = retrieve(world, key)
    if intent["status"] not in _CANCELABLE:
        raise ApiError(
            f"You cannot cancel this PaymentIntent because it has a status of {intent['status']}. "
            "Only a PaymentIntent with one of the following statuses may be canceled: "
            f"{', '.join(_CANCELABLE)}.",
            code="payment_intent_unexpected_state",
        )
    intent.update(
        status="canceled",
        canceled_at=world.tick(),
        cancellation_reason=given.get("cancellation_reason"),
        amount_capturable=0,
    )
    return intent


def list_page(world: World, given: JsonObject) -> JsonObject:
    if given.get("customer") is not None:
        found(world.customers, given["customer"], noun="customer", param="customer", in_path=False)
    return page_of(world.payment_intents, given, noun="payment_intent", url="/v1/payment_intents")


def _check_references(world: World, given: JsonObject) -> None:
    customers.check_present(world, given)
    method = given.get("payment_method")
    if method is not None and method not in _CARDS:
        raise missing_object("PaymentMethod", method, param="payment_method", status=400)


def _charge(world: World, intent: JsonObject, *, amount: int) -> None:
    key = world.new_id("ch")
    world.charges[key] = {
        "id": key,
        "object": "charge",
        "amount": amount,
        "amount_captured": amount,
        "amount_refunded": 0,
        "captured": True,
        "created": world.tick(),
        "currency": intent["currency"],
        "customer": intent["customer"],
        "description": intent["description"],
        "disputed": False,
        "livemode": False,
        "metadata": {},
        "paid": True,
        "payment_intent": intent["id"],
        "payment_method": intent["payment_method"],
        "refunded": False,
        "status": "succeeded",
    }
    intent.update(status="succeeded", amount_received=amount, latest_charge=key, next_action=None)


def _decline(intent: JsonObject, card: _Card) -> ApiError:
    error: JsonObject = {
        "type": "card_error",
        "code": "card_declined",
        "decline_code": card.decline_code,
        "message": "Your card has insufficient funds."
        if card.decline_code == "insufficient_funds"
        else "Your card was declined.",
    }
    intent["status"] = "requires_payment_method"
    intent["payment_method"] = None
    intent["last_payment_error"] = error
    return ApiError(
        error["message"],
        status=402,
        kind="card_error",
        code="card_declined",
        details={"decline_code": card.decline_code, "payment_intent": dict(intent)},
    )


def _unexpected_state(
    intent: JsonObject, *, verb: str, allowed: tuple[str, ...], param: str | None = None
) -> ApiError:
    return ApiError(
        f"This PaymentIntent could not be {verb} because it has a status of {intent['status']}. "
        f"Only a PaymentIntent with one of the following statuses may be {verb}: "
        f"{', '.join(allowed)}.",
        code="payment_intent_unexpected_state",
        param=param,
        details={"payment_intent": dict(intent)},
    )
