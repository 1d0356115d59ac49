"""Customers, payment intents and refunds: what may be done in which state."""

from typing import Any

import httpx
import pytest

pytestmark = pytest.mark.slow


def make_intent(client: httpx.Client, **fields: str) -> dict[str, Any]:
    data = {"amount": "5000", "currency": "usd", **fields}
    intent: dict[str, Any] = client.post("/v1/payment_intents", data=data).json()
    return intent


def paid_intent(client: httpx.Client, **fields: str) -> dict[str, Any]:
    return make_intent(client, payment_method="pm_card_visa", confirm="true", **fields)


def test_customer_from_creation_to_deletion(client: httpx.Client) -> None:
    created = client.post(
        "/v1/customers",
        data={"name": "Zoe Lang", "email": "zoe@example.com", "metadata[plan]": "plus"},
    ).json()
    path = f"/v1/customers/{created['id']}"

    updated = client.post(
        path, data={"email": "", "metadata[tier]": "b", "metadata[plan]": "", "address[city]": "X"}
    ).json()
    read = client.get(path).json()
    deleted = client.delete(path).json()
    stub = client.get(path)
    update_after = client.post(path, data={"name": "Z"})
    listed = client.get("/v1/customers", params={"email": "zoe@example.com"}).json()["data"]

    assert created["metadata"] == {"plan": "plus"}
    assert updated["email"] is None
    assert updated["metadata"] == {"tier": "b"}
    assert updated["address"]["city"] == "X"
    assert updated["address"]["country"] is None
    assert read == updated
    assert deleted == {"id": created["id"], "object": "customer", "deleted": True}
    assert (stub.status_code, stub.json()) == (200, deleted)
    assert update_after.status_code == 404
    assert listed == []


def test_absent_id_is_404_in_the_path(client: httpx.Client) -> None:
    answer = client.get("/v1/payment_intents/pi_no")

    assert answer.status_code == 404
    assert answer.json()["error"]["message"] == "No such payment_intent: 'pi_no'"


@pytest.mark.parametrize("email", ["zoe", "zoe@", "a b@example.com"])
def test_bad_email_is_refused(client: httpx.Client, email: str) -> None:
    answer = client.post("/v1/customers", data={"email": email})

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "email"


def test_metadata_limits(client: httpx.Client) -> None:
    long_key = client.post("/v1/customers", data={f"metadata[{'k' * 41}]": "v"})
    many_keys = client.post("/v1/customers", data={f"metadata[k{n}]": "v" for n in range(51)})

    assert (long_key.status_code, many_keys.status_code) == (400, 400)


def test_list_filters_by_customer_and_status(client: httpx.Client) -> None:
    email = {"email": "ana.souza@example.com"}
    customer = client.get("/v1/customers", params=email).json()["data"][0]
    everything = client.get("/v1/payment_intents", params={"limit": "100"}).json()["data"]

    own = client.get("/v1/payment_intents", params={"customer": customer["id"]}).json()["data"]
    canceled = client.get(
        "/v1/payment_intents", params={"status": "canceled", "limit": "100"}
    ).json()["data"]

    assert own == [row for row in everything if row["customer"] == customer["id"]]
    assert len(own) == 2
    assert canceled == [row for row in everything if row["status"] == "canceled"]
    assert len(canceled) == 6


def test_intent_is_paid_on_confirmation(client: httpx.Client) -> None:
    intent = make_intent(client)
    path = f"/v1/payment_intents/{intent['id']}"

    without_card = client.post(f"{path}/confirm")
    paid = client.post(f"{path}/confirm", data={"payment_method": "pm_card_visa"}).json()
    again = client.post(f"{path}/confirm")
    charge = client.get(f"/v1/charges/{paid['latest_charge']}").json()

    assert intent["status"] == "requires_payment_method"
    assert without_card.status_code == 400
    assert (paid["status"], paid["amount_received"]) == ("succeeded", 5000)
    assert again.json()["error"]["code"] == "payment_intent_unexpected_state"
    assert (charge["amount"], charge["payment_intent"]) == (5000, intent["id"])


@pytest.mark.parametrize(
    ("method", "decline_code"),
    [
        ("pm_card_chargeDeclined", "generic_decline"),
        ("pm_card_chargeDeclinedInsufficientFunds", "insufficient_funds"),
    ],
)
def test_declined_card_sends_the_intent_back(
    client: httpx.Client, method: str, decline_code: str
) -> None:
    intent = make_intent(client, payment_method=method)

    answer = client.post(f"/v1/payment_intents/{intent['id']}/confirm")
    after = client.get(f"/v1/payment_intents/{intent['id']}").json()

    assert answer.status_code == 402
    assert answer.json()["error"]["type"] == "card_error"
    assert answer.json()["error"]["decline_code"] == decline_code
    assert after["status"] == "requires_payment_method"
    assert after["last_payment_error"]["decline_code"] == decline_code


def test_manual_capture_takes_a_part_once(client: httpx.Client) -> None:
    intent = paid_intent(client, capture_method="manual")
    path = f"/v1/payment_intents/{intent['id']}/capture"

    too_much = client.post(path, data={"amount_to_capture": "5001"})
    captured = client.post(path, data={"amount_to_capture": "3000"}).json()
    again = client.post(path)

    assert intent["status"] == "requires_capture"
    assert too_much.status_code == 400
    assert (captured["status"], captured["amount_received"]) == ("succeeded", 3000)
    assert captured["amount_capturable"] == 0
    assert again.json()["error"]["code"] == "payment_intent_unexpected_state"


def test_authentication_is_asked_for(client: httpx.Client) -> None:
    intent = make_intent(client, payment_method="pm_card_authenticationRequired", confirm="true")

    assert intent["status"] == "requires_action"
    assert intent["next_action"] == {"type": "use_stripe_sdk"}


def test_paid_intent_is_not_canceled_nor_repriced(client: httpx.Client) -> None:
    paid = paid_intent(client)
    path = f"/v1/payment_intents/{paid['id']}"

    canceled = client.post(f"{path}/cancel")
    repriced = client.post(path, data={"amount": "1"})
    described = client.post(path, data={"description": "late note"}).json()

    assert canceled.status_code == repriced.status_code == 400
    assert canceled.json()["error"]["message"].endswith(
        "requires_payment_method, requires_capture, requires_confirmation, requires_action, "
        "processing."
    )
    assert described["description"] == "late note"
    assert described["amount"] == 5000


def test_open_intent_is_changed_then_canceled(client: httpx.Client) -> None:
    intent = make_intent(client)
    path = f"/v1/payment_intents/{intent['id']}"

    changed = client.post(path, data={"amount": "700", "payment_method": "pm_card_visa"}).json()
    canceled = client.post(f"{path}/cancel", data={"cancellation_reason": "duplicate"}).json()

    assert (changed["amount"], changed["status"]) == (700, "requires_confirmation")
    assert (canceled["status"], canceled["cancellation_reason"]) == ("canceled", "duplicate")
    assert canceled["canceled_at"] > intent["created"]


def test_refunds_never_exceed_what_was_captured(client: httpx.Client) -> None:
    paid = paid_intent(client)
    wanted = {"payment_intent": paid["id"]}

    part = client.post("/v1/refunds", data={**wanted, "amount": "2000"}).json()
    too_much = client.post("/v1/refunds", data={**wanted, "amount": "3001"})
    rest = client.post("/v1/refunds", data={"charge": paid["latest_charge"]}).json()
    again = client.post("/v1/refunds", data=wanted)
    charge = client.get(f"/v1/charges/{paid['latest_charge']}").json()
    listed = client.get("/v1/refunds", params=wanted).json()["data"]

    assert (part["amount"], rest["amount"]) == (2000, 3000)
    assert too_much.json()["error"]["param"] == "amount"
    assert "30.01 USD" in too_much.json()["error"]["message"]
    assert again.json()["error"]["code"] == "charge_already_refunded"
    assert (charge["amount_refunded"], charge["refunded"]) == (5000, True)
    assert listed == [rest, part]


def test_refund_names_exactly_one_charge(client: httpx.Client) -> None:
    paid = paid_intent(client)
    unpaid = make_intent(client)

    neither = client.post("/v1/refunds")
    both = client.post(
        "/v1/refunds", data={"payment_intent": paid["id"], "charge": paid["latest_charge"]}
    )
    nothing_paid = client.post("/v1/refunds", data={"payment_intent": unpaid["id"]})

    assert neither.json()["error"]["code"] == "parameter_missing"
    assert both.status_code == nothing_paid.status_code == 400
    assert "does not have a successful charge" in nothing_paid.json()["error"]["message"]


def test_refund_metadata_is_updated(client: httpx.Client) -> None:
    paid = paid_intent(client)
    refund = client.post("/v1/refunds", data={"payment_intent": paid["id"]}).json()

    client.post(f"/v1/refunds/{refund['id']}", data={"metadata[ticket]": "T-1"})

    assert client.get(f"/v1/refunds/{refund['id']}").json()["metadata"] == {"ticket": "T-1"}


def test_filter_that_names_nothing_is_refused(client: httpx.Client) -> None:
    answers = [
        client.get("/v1/payment_intents", params={"customer": "cus_no"}),
        client.get("/v1/refunds", params={"payment_intent": "pi_no"}),
        client.get("/v1/charges", params={"customer": "cus_no"}),
    ]

    assert [answer.status_code for answer in answers] == [400, 400, 400]
    assert {answer.json()["error"]["code"] for answer in answers} == {"resource_missing"}
