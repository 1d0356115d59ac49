"""Which tests run a second time on another database."""

import pytest

from tests.programs.session import uses_database


@pytest.mark.django_db
def test_marked_test_uses_the_database(request: pytest.FixtureRequest) -> None:
    assert uses_database(request.node)


@pytest.mark.usefixtures("transactional_db")
def test_fixture_for_the_database_says_it_too(request: pytest.FixtureRequest) -> None:
    assert uses_database(request.node)


def test_other_test_uses_none(request: pytest.FixtureRequest) -> None:
    assert not uses_database(request.node)
