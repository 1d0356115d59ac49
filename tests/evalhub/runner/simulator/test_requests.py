"""What every request has in common: keys, unknown names, idempotency, pages, state and reset."""

from typing import Any

import httpx
import pytest

from evalhub.runner.simulator.child import RunningSimulator

pytestmark = pytest.mark.slow


def error_of(answer: Any) -> dict[str, Any]:
    error: dict[str, Any] = answer.json()["error"]
    return error


@pytest.mark.parametrize(
    ("method", "path", "parameters", "named"),
    [
        ("GET", "/v1/customers", {"custmer": "cus_1"}, "custmer"),
        ("GET", "/v1/payment_intents", {"staus": "succeeded"}, "staus"),
        ("POST", "/v1/payment_intents", {"amuont": "5", "currency": "usd"}, "amuont"),
        ("POST", "/v1/customers", {"address[town]": "Bern"}, "address[town]"),
        ("POST", "/v1/customers", {"name[first]": "Ana"}, "name[first]"),
        ("POST", "/v1/customers", {"address": "Bern"}, "address"),
        ("GET", "/v1/customers", {"created[after]": "1"}, "created[after]"),
        ("POST", "/v1/refunds", {"payment_intent": "pi_1", "x[y][z]": "1"}, "x[y][z]"),
        ("GET", "/_evalhub/state", {"full": "1"}, "full"),
        ("POST", "/_evalhub/reset", {"seed": "8"}, "seed"),
    ],
)
def test_unknown_parameter_is_refused_by_name(
    client: httpx.Client, method: str, path: str, parameters: dict[str, str], named: str
) -> None:
    if method == "POST":
        answer = client.post(path, data=parameters)
    else:
        answer = client.get(path, params=parameters)

    assert answer.status_code == 400
    assert error_of(answer)["code"] == "parameter_unknown"
    assert error_of(answer)["param"] == named
    assert error_of(answer)["message"] == f"Received unknown parameter: {named}"


def test_every_unknown_parameter_is_named(client: httpx.Client) -> None:
    answer = client.get("/v1/customers", params={"a": "1", "limit": "3", "b": "2"})

    assert error_of(answer)["message"] == "Received unknown parameters: a, b"


def test_unknown_name_is_told_before_an_absent_one(client: httpx.Client) -> None:
    answer = client.post("/v1/payment_intents", data={"amuont": "5"})

    assert error_of(answer)["code"] == "parameter_unknown"


@pytest.mark.parametrize(
    ("parameters", "code", "named"),
    [
        ({"currency": "usd"}, "parameter_missing", "amount"),
        ({"amount": "abc", "currency": "usd"}, "parameter_invalid_integer", "amount"),
        ({"amount": "1e3", "currency": "usd"}, "parameter_invalid_integer", "amount"),
        ({"amount": "0", "currency": "usd"}, "parameter_invalid_integer", "amount"),
        ({"amount": "100000000", "currency": "usd"}, "amount_too_large", "amount"),
        ({"amount": "5", "currency": "xyz"}, None, "currency"),
        ({"amount": "5", "currency": "usd", "confirm": "yes"}, None, "confirm"),
        ({"amount": "5", "currency": "usd", "customer": "cus_no"}, "resource_missing", "customer"),
        (
            {"amount": "5", "currency": "usd", "payment_method": "pm_no"},
            "resource_missing",
            "payment_method",
        ),
    ],
)
def test_bad_value_is_refused_by_name(
    client: httpx.Client, parameters: dict[str, str], code: str | None, named: str
) -> None:
    answer = client.post("/v1/payment_intents", data=parameters)

    assert answer.status_code == 400
    assert error_of(answer).get("code") == code
    assert error_of(answer)["param"] == named


def test_parameter_given_twice_is_refused(client: httpx.Client) -> None:
    answer = client.get("/v1/payment_intents?status=succeeded&status=canceled")

    assert answer.status_code == 400
    assert error_of(answer)["param"] == "status"


@pytest.mark.parametrize(
    ("headers", "content"),
    [({"Content-Type": "application/json"}, b'{"name": "Ana"}'), ({}, b"name=Ana")],
)
def test_body_that_is_no_form_is_refused(
    client: httpx.Client, headers: dict[str, str], content: bytes
) -> None:
    answer = client.post("/v1/customers", content=content, headers=headers)

    assert answer.status_code == 400
    assert "application/x-www-form-urlencoded" in error_of(answer)["message"]


@pytest.mark.parametrize("authorization", [None, "Bearer wrong", "Bearer", "Basic a2V5"])
def test_request_without_the_key_is_foreign(
    running: RunningSimulator, authorization: str | None
) -> None:
    before = running.state()["requests"]
    headers = {} if authorization is None else {"Authorization": authorization}

    with httpx.Client(base_url=running.url, headers=headers, trust_env=False) as stranger:
        answers = [stranger.get(path) for path in ("/v1/customers", "/_evalhub/state", "/nowhere")]

    assert [answer.status_code for answer in answers] == [401, 401, 401]
    assert running.state()["requests"] == {**before, "foreign": before["foreign"] + 3}


def test_unknown_address_and_method_are_named(client: httpx.Client) -> None:
    nowhere = client.get("/v1/invoices")
    wrong_method = client.delete("/v1/refunds/re_1")

    assert (nowhere.status_code, wrong_method.status_code) == (404, 405)
    assert "GET: /v1/invoices" in error_of(nowhere)["message"]
    assert "DELETE: /v1/refunds/re_1" in error_of(wrong_method)["message"]


def test_idempotency_key_repeats_the_answer_not_the_deed(client: httpx.Client) -> None:
    data = {"amount": "500", "currency": "usd"}
    headers = {"Idempotency-Key": "once"}

    first = client.post("/v1/payment_intents", data=data, headers=headers)
    second = client.post("/v1/payment_intents", data=data, headers=headers)
    other = client.post("/v1/payment_intents", data={**data, "amount": "501"}, headers=headers)
    newest = client.get("/v1/payment_intents", params={"limit": "2"}).json()["data"]

    assert first.json() == second.json() == newest[0]
    assert newest[1]["description"].startswith("Order A-1")
    assert other.status_code == 400
    assert error_of(other)["type"] == "idempotency_error"


def test_pages_reach_every_row_once(client: httpx.Client) -> None:
    at_once = client.get("/v1/customers", params={"limit": "100"}).json()["data"]
    seen: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = client.get("/v1/customers", params={"limit": "7", **cursor}).json()
        seen += [row["id"] for row in page["data"]]
        if not page["has_more"]:
            break
        cursor = {"starting_after": seen[-1]}

    assert len(seen) == 36
    assert seen == [row["id"] for row in at_once]


def test_page_before_a_row_is_the_one_that_led_to_it(client: httpx.Client) -> None:
    first = client.get("/v1/customers", params={"limit": "5"}).json()
    second = client.get(
        "/v1/customers", params={"limit": "5", "starting_after": first["data"][-1]["id"]}
    ).json()

    back = client.get(
        "/v1/customers", params={"limit": "5", "ending_before": second["data"][0]["id"]}
    ).json()

    assert back["data"] == first["data"]
    assert back["has_more"] is False


@pytest.mark.parametrize("limit", ["0", "101", "ten"])
def test_page_size_has_bounds(client: httpx.Client, limit: str) -> None:
    answer = client.get("/v1/refunds", params={"limit": limit})

    assert answer.status_code == 400
    assert error_of(answer)["param"] == "limit"


def test_cursor_that_is_no_row_of_the_list_is_refused(client: httpx.Client) -> None:
    answer = client.get("/v1/customers", params={"starting_after": "cus_no"})

    assert answer.status_code == 400
    assert error_of(answer)["param"] == "starting_after"


def test_created_filter_bounds_both_ends(client: httpx.Client) -> None:
    rows = client.get("/v1/payment_intents", params={"limit": "100"}).json()["data"]
    newest, oldest = rows[10]["created"], rows[20]["created"]

    between = client.get(
        "/v1/payment_intents",
        params={"limit": "100", "created[lt]": str(newest), "created[gte]": str(oldest)},
    ).json()["data"]
    exact = client.get("/v1/payment_intents", params={"created": str(oldest)}).json()["data"]

    assert between == rows[11:21]
    assert exact == [rows[20]]


def test_reset_restores_the_seeded_world(client: httpx.Client) -> None:
    before = client.get("/_evalhub/state").json()
    client.post("/v1/customers", data={"name": "Somebody"})
    changed = client.get("/_evalhub/state").json()

    after = client.post("/_evalhub/reset").json()

    assert before["final_digest"] == before["seed_digest"] == after["final_digest"]
    assert changed["final_digest"] != before["final_digest"]
    assert changed["requests"]["total"] == before["requests"]["total"] + 1
    assert after["world_id"] != before["world_id"]
    assert after["world_ids"] == [*before["world_ids"], after["world_id"]]
    assert after["resets"] == before["resets"] + 1
