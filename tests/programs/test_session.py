"""Which tests run a second time on another database, and which stay together in one process."""

import pytest

from tests.programs.session import uses_database


@pytest.fixture(scope="module")
def _expensive() -> str:
    return "made once"


@pytest.mark.django_db
def test_marked_test_uses_the_database(request: pytest.FixtureRequest) -> None:
    assert uses_database(request.node)


@pytest.mark.usefixtures("transactional_db")
def test_fixture_for_the_database_says_it_too(request: pytest.FixtureRequest) -> None:
    assert uses_database(request.node)


def test_other_test_uses_none(request: pytest.FixtureRequest) -> None:
    assert not uses_database(request.node)
    assert request.node.get_closest_marker("xdist_group") is None


@pytest.mark.usefixtures("_expensive")
def test_fixture_of_a_module_keeps_its_tests_together(request: pytest.FixtureRequest) -> None:
    mark = request.node.get_closest_marker("xdist_group")

    assert mark is not None
    assert mark.args == ("tests/programs/test_session.py",)
