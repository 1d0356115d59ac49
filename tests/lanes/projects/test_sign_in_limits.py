"""How often a password may be tried, and that a failure tells nothing about who exists."""

from collections import Counter

import pytest
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.hashers import MD5PasswordHasher
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings

from lanes.projects.models import RequestCount
from tests.lanes import factories

pytestmark = pytest.mark.django_db

PASSWORD = "correct horse battery"
hashed: Counter[str] = Counter()


class CountingHasher(MD5PasswordHasher):
    """Counts what a server's real hasher takes a third of a second for."""

    def encode(self, password: str, salt: str) -> str:
        hashed["times"] += 1
        return super().encode(password, salt)


def tried(client: Client, name: str, typed: str = "wrong", address: str = "192.0.2.1") -> int:
    return client.post(
        "/sign-in/", {"username": name, "password": typed}, REMOTE_ADDR=address
    ).status_code


def test_name_that_is_tried_too_often_waits_from_everywhere(
    client: Client, settings: Settings
) -> None:
    settings.SIGN_IN_REQUESTS = 3
    factories.make_user("ada", password=PASSWORD)
    factories.make_user("grace", password=PASSWORD)
    assert [tried(client, "ada", address=f"192.0.2.{n}") for n in range(3)] == [422] * 3

    response = client.post(
        "/sign-in/", {"username": "ada", "password": PASSWORD}, REMOTE_ADDR="192.0.2.9"
    )

    assert response.status_code == 429
    assert 1 <= int(response.headers["Retry-After"]) <= 60
    # The right password learns as little as a wrong one.
    assert SESSION_KEY not in client.session
    assert tried(client, "grace", PASSWORD, address="192.0.2.9") == 302


def test_unknown_names_are_counted_as_known_ones(client: Client, settings: Settings) -> None:
    settings.SIGN_IN_REQUESTS = 2

    assert [tried(client, "nobody") for _ in range(3)] == [422, 422, 429]
    assert [tried(client, "NOBODY") for _ in range(1)] == [429]


def test_address_that_tries_many_names_waits(client: Client, settings: Settings) -> None:
    settings.SIGN_IN_REQUESTS = 1
    factories.make_user("ada", password=PASSWORD)

    assert [tried(client, f"name-{n}") for n in range(5)] == [422] * 5
    assert tried(client, "ada", PASSWORD) == 429
    assert tried(client, "ada", PASSWORD, address="198.51.100.2") == 302


def test_names_are_not_kept_where_they_are_counted(client: Client) -> None:
    tried(client, "typed-into-the-wrong-field")

    assert "typed-into" not in str(list(RequestCount.objects.values_list("key", flat=True)))
    assert RequestCount.objects.filter(key__startswith="sign-in, name ").count() == 1


@pytest.mark.parametrize("name", ["ada", "nobody", "gone", "linked"])
def test_each_failure_hashes_as_often(client: Client, settings: Settings, name: str) -> None:
    settings.PASSWORD_HASHERS = [f"{__name__}.CountingHasher"]
    factories.make_user("ada", password=PASSWORD)
    factories.make_user("gone", password=PASSWORD)
    User.objects.filter(username="gone").update(is_active=False)
    User.objects.create_superuser("linked")
    hashed.clear()

    assert tried(client, name) == 422

    assert hashed == {"times": 1}
