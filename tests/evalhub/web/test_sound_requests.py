"""Requests that no view could answer rightly are refused before one is asked."""

import pytest
from django.test import Client

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    "address", ["/plans/%00/", "/plans/?project=a%00b", "/api/v1/attempts/att_%00/heartbeat"]
)
def test_address_with_nul_is_not_found(client: Client, address: str) -> None:
    response = client.get(address)

    assert response.status_code == 404
    assert "NUL" in response.content.decode()


def test_chunked_body_is_asked_for_its_length(client: Client) -> None:
    response = client.put(
        "/api/v1/projects/acme/agent/policy", headers={"Transfer-Encoding": "chunked"}
    )

    assert response.status_code == 411
    assert response.json()["code"] == "length-required"
