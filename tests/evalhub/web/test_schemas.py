"""The JSON Schemas of the wire's documents are published for anybody."""

import pytest
from django.test import Client

from evalhub.web.api import DOCUMENTS


@pytest.mark.parametrize("name", DOCUMENTS)
def test_schema_of_each_document_is_published(client: Client, name: str) -> None:
    response = client.get(f"/api/v1/schema/{name}.json")

    assert response.status_code == 200
    assert response["Content-Type"] == "application/schema+json"
    schema = response.json()
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    assert schema["properties"]


def test_every_schema_is_listed_where_it_is(client: Client) -> None:
    listed = client.get("/api/v1/schema/").json()["schemas"]

    assert set(listed) == set(DOCUMENTS)
    assert client.get(listed["plan"]).status_code == 200


def test_schema_names_fields_as_the_wire_does(client: Client) -> None:
    properties = client.get("/api/v1/schema/segment.json").json()["properties"]

    assert {"schema", "class", "seq"} <= set(properties)


def test_unknown_schema_names_those_that_are_there(client: Client) -> None:
    response = client.get("/api/v1/schema/nothing.json")

    assert response.status_code == 404
    assert "'nothing'" in response.json()["detail"]
    assert "plan, policy" in response.json()["detail"]
