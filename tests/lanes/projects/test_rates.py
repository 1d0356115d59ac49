"""How often somebody may ask, counted where all web processes see it."""

from datetime import timedelta

import pytest
from django.test import Client
from pytest_django import Settings

from lanes.projects.models import Project, RequestCount, SpeakerRefusal
from lanes.projects.operations.rates import (
    MOST_ROWS,
    TooManyRequestsError,
    address_key,
    count_request,
)
from tests.lanes.factories import NOW
from tests.lanes.projects.identities import exchange, identity_of, issuer, make_publisher, project
from tests.lanes.wire import assert_problem
from tests.programs.issuer import Issuer, job_claims

__all__ = ["issuer", "project"]

pytestmark = pytest.mark.django_db


def test_so_many_in_a_minute_and_no_more() -> None:
    for second in range(3):
        count_request("ada", most=3, at=NOW + timedelta(seconds=second))

    with pytest.raises(TooManyRequestsError) as refused:
        count_request("ada", most=3, at=NOW + timedelta(seconds=20))
    assert refused.value.retry_after_seconds == 40
    count_request("bob", most=3, at=NOW + timedelta(seconds=20))
    count_request("ada", most=3, at=NOW + timedelta(seconds=60))


def test_who_came_earlier_and_is_counted_later_begins_no_window() -> None:
    count_request("ada", most=1, at=NOW)

    with pytest.raises(TooManyRequestsError):
        count_request("ada", most=1, at=NOW - timedelta(milliseconds=5))


def test_window_of_a_clock_that_was_set_back_begins_anew() -> None:
    count_request("ada", most=1, at=NOW + timedelta(days=1))

    count_request("ada", most=1, at=NOW)


def test_rows_are_bounded() -> None:
    RequestCount.objects.bulk_create(
        RequestCount(key=f"address {number}", began_at=NOW, count=1) for number in range(MOST_ROWS)
    )
    for number in range(4):
        count_request(f"address 10.0.0.{number}", most=100, at=NOW)

    assert RequestCount.objects.count() == MOST_ROWS + 1
    assert RequestCount.objects.get(key="everybody else").count == 4
    count_request("address 10.1.0.1", most=100, at=NOW + timedelta(minutes=2))
    assert RequestCount.objects.count() == 1


@pytest.mark.parametrize(
    ("address", "key"),
    [
        ("203.0.113.7", "address 203.0.113.7"),
        ("2001:db8:1:2:3:4:5:6", "address 2001:db8:1:2::/64"),
        ("::ffff:203.0.113.7", "address 203.0.113.7"),
        ("", "address unknown"),
        ("203.0.113.7, evil", "address unknown"),
    ],
)
def test_addresses_of_one_machine_have_one_key(address: str, key: str) -> None:
    assert address_key(address) == key


def test_address_that_asks_too_often_waits(
    issuer: Issuer, project: Project, settings: Settings
) -> None:
    make_publisher(project)
    settings.TOKEN_REQUESTS = 2
    assert exchange("no.jwt.here").status == 400
    assert exchange(identity_of(issuer)).status == 200

    answer = exchange(identity_of(issuer))

    assert_problem(answer, 429, "too-many-requests")
    assert 1 <= int(answer.headers["Retry-After"]) <= 60
    # What comes too often is not written down each time.
    assert SpeakerRefusal.objects.count() == 1


def test_repository_that_asks_too_often_waits_and_no_other(
    issuer: Issuer, project: Project, settings: Settings, client: Client
) -> None:
    make_publisher(project)
    settings.TOKEN_REQUESTS = 2
    assert [exchange(identity_of(issuer)).status for _ in range(2)] == [200, 200]
    RequestCount.objects.filter(key__startswith="address").delete()

    problem = assert_problem(exchange(identity_of(issuer)), 429, "too-many-requests")

    assert "repository 74" in problem.detail
    other = exchange(identity_of(issuer, job_claims(repository_id="75")))
    assert_problem(other, 403, "identity-unknown-repository")


@pytest.mark.parametrize(
    ("proxies", "forwarded", "seen"),
    [
        (0, "198.51.100.9", "address 127.0.0.1"),
        (1, "10.9.9.9, 198.51.100.9", "address 198.51.100.9"),
        (2, "10.9.9.9, 198.51.100.9, 10.0.0.1", "address 198.51.100.9"),
        (2, "198.51.100.9", "address 127.0.0.1"),
    ],
)
def test_proxies_that_are_known_tell_the_address(
    settings: Settings, client: Client, proxies: int, forwarded: str, seen: str
) -> None:
    settings.PROXIES = proxies

    client.post(
        "/api/v1/token",
        data="grant_type=urn:ietf:params:oauth:grant-type:token-exchange&subject_token=x.y.z"
        "&subject_token_type=urn:ietf:params:oauth:token-type:jwt",
        content_type="application/x-www-form-urlencoded",
        headers={"X-Forwarded-For": forwarded},
    )

    assert RequestCount.objects.get().key == seen
