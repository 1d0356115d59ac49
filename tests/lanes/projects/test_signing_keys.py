"""The issuer's keys: asked for once a minute at most, rotated, kept while the issuer is away."""

from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from lanes.projects import identity
from lanes.projects.identity import IdentityRefusedError, IssuerUnavailableError
from lanes.projects.models import IssuerKeys, Project
from lanes.projects.operations import signing_keys
from tests.lanes.factories import NOW
from tests.lanes.projects.identities import exchange, identity_of, issuer, make_publisher, project
from tests.lanes.wire import assert_problem
from tests.programs.issuer import Issuer, jwk, serving_issuer

__all__ = ["issuer", "project"]

pytestmark = pytest.mark.django_db

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


def key_for(issuer: Issuer, name: str = "first", *, at: datetime = NOW) -> object:
    return signing_keys.key_for(name, issuer=issuer.url, at=at)


def test_keys_are_asked_for_once_and_kept(issuer: Issuer) -> None:
    for minutes in range(50):
        key_for(issuer, at=NOW + minutes * MINUTE)

    assert issuer.questions == 1
    assert issuer.requests["/.well-known/jwks"] == 1


def test_who_came_earlier_and_looks_later_asks_no_second_time(issuer: Issuer) -> None:
    key_for(issuer)

    with pytest.raises(IssuerUnavailableError, match="is not known yet"):
        key_for(issuer, "second", at=NOW - timedelta(milliseconds=5))
    assert issuer.questions == 1


def test_old_keys_are_asked_for_again(issuer: Issuer) -> None:
    key_for(issuer)
    issuer.rotate("second")

    with pytest.raises(IdentityRefusedError) as refused:
        key_for(issuer, at=NOW + HOUR + MINUTE)

    assert refused.value.code == "identity-key"
    assert issuer.questions == 2


def test_unknown_keys_are_asked_for_once_a_minute(issuer: Issuer) -> None:
    key_for(issuer)
    for second in range(1, 180, 10):
        with pytest.raises((IdentityRefusedError, IssuerUnavailableError)):
            key_for(issuer, f"invented-{second}", at=NOW + timedelta(seconds=second))

    # At the beginning, and in each of the two minutes that were over since.
    assert issuer.questions == 3


def test_new_key_is_found_within_the_minute(issuer: Issuer) -> None:
    key_for(issuer)
    issuer.rotate("first", "second")

    with pytest.raises(IssuerUnavailableError) as later:
        key_for(issuer, "second", at=NOW + timedelta(seconds=15))
    assert later.value.retry_after_seconds == 45
    assert key_for(issuer, at=NOW + timedelta(seconds=15)) is not None
    assert key_for(issuer, "second", at=NOW + timedelta(seconds=61)) is not None


@pytest.mark.parametrize("trouble", ["down", "redirect", "large", "not JSON", "a list"])
def test_keys_that_are_there_stand_while_the_issuer_is_in_trouble(
    issuer: Issuer, trouble: str
) -> None:
    key_for(issuer)
    issuer.trouble = trouble

    assert key_for(issuer, at=NOW + 2 * HOUR) is not None
    assert issuer.questions == 2
    with pytest.raises(IssuerUnavailableError):
        key_for(issuer, at=NOW + DAY + HOUR)
    assert issuer.requests["/elsewhere"] == 0


def test_issuer_that_is_away_is_told_with_a_time_to_come_back(
    issuer: Issuer, project: Project
) -> None:
    make_publisher(project)
    issuer.trouble = "down"

    answer = exchange(identity_of(issuer))

    problem = assert_problem(answer, 503, "issuer-unavailable")
    assert "answered with status 503" in problem.detail
    assert 1 <= int(answer.headers["Retry-After"]) <= 60
    issuer.trouble = ""
    assert_problem(exchange(identity_of(issuer)), 503, "issuer-unavailable")
    IssuerKeys.objects.update(asked_at=NOW - DAY)
    assert exchange(identity_of(issuer)).status == 200


def test_nobody_listening_is_told_alike(issuer: Issuer) -> None:
    with serving_issuer() as gone:
        pass

    with pytest.raises(IssuerUnavailableError, match="does not answer"):
        key_for(gone)


def test_a_question_that_never_ended_holds_nobody_up_for_long(issuer: Issuer) -> None:
    IssuerKeys.objects.create(issuer=issuer.url, asked_at=NOW)

    with pytest.raises(IssuerUnavailableError, match="are being asked for") as later:
        key_for(issuer, at=NOW + timedelta(seconds=5))
    assert later.value.retry_after_seconds == 2
    assert key_for(issuer, at=NOW + timedelta(seconds=61)) is not None


def test_a_clock_that_was_set_back_holds_nobody_up(issuer: Issuer) -> None:
    key_for(issuer, at=NOW + 7 * DAY)

    assert key_for(issuer) is not None
    assert issuer.questions == 2


@pytest.fixture
def untrue(issuer: Issuer) -> Iterator[Issuer]:
    yield issuer
    with pytest.raises(IssuerUnavailableError):
        identity.fetched_keys(issuer.url)


def test_issuer_that_calls_itself_otherwise_is_none(untrue: Issuer) -> None:
    untrue.discovery["issuer"] = "https://token.actions.githubusercontent.com"


def test_keys_of_another_host_are_not_asked_for(untrue: Issuer) -> None:
    untrue.discovery["jwks_uri"] = untrue.url.replace("127.0.0.1", "localhost") + "/elsewhere"


def test_keys_elsewhere_by_another_scheme_are_not_asked_for(untrue: Issuer) -> None:
    untrue.discovery["jwks_uri"] = "file:///etc/passwd"


def test_issuer_without_a_usable_key_is_none(untrue: Issuer) -> None:
    untrue.jwks = {
        "keys": [
            jwk("first", kty="EC"),
            jwk("first", use="enc"),
            jwk("first", alg="HS256"),
            jwk("first", kid=None),
            jwk("first", n="AQAB"),
            jwk("first", e="AA"),
            jwk("weak", bits=1024),
            "not a key",
        ]
    }


@pytest.mark.parametrize(
    "address", ["http://issuer.example", "ftp://127.0.0.1", "file:///etc", "issuer.example", ""]
)
def test_issuer_is_asked_by_https_alone(address: str) -> None:
    with pytest.raises(IssuerUnavailableError, match="expected an https address"):
        identity.fetched_keys(address)
