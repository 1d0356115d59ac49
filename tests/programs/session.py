"""A pytest plugin: which database serves the session, which tests use one, what runs first.

With EVALHUB_TEST_DATABASE=postgres one PostgreSQL serves the whole session. It keeps nothing, and ends
with the session, even when pytest is killed. `tests/settings.py` chose the folder of its socket.
"""

from pathlib import Path

import pytest
from django.conf import settings

from tests.programs import versions
from tests.programs.postgres import PostgresServer

SERVER = pytest.StashKey[PostgresServer]()
# What a test asks pytest-django for when it wants a database; a mark does the same.
_DATABASE_FIXTURES = {"db", "transactional_db", "django_db_setup", "live_server"}
# Long ones first, so that no process is left with one at the end.
_ORDER = ("journey", "browser", "slow")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--only-database",
        action="store_true",
        help="run only the tests that use the database of this session",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Start the server in the process that other test processes descend from."""
    folder = _wanted_folder()
    if folder is not None and not hasattr(config, "workerinput"):
        try:
            config.stash[SERVER] = PostgresServer(folder, cluster=folder)
            config.stash[SERVER].start()
        except RuntimeError as error:
            raise pytest.UsageError(str(error)) from error


def pytest_unconfigure(config: pytest.Config) -> None:
    server = config.stash.get(SERVER, None)
    if server is not None:
        server.__exit__()


def pytest_report_header() -> list[str]:
    return versions.report()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Keep tests that share something in one process, for `--dist loadgroup`: it is made once."""
    if isinstance(item, pytest.Function) and item.get_closest_marker("xdist_group") is None:
        shared = _shared_by(item)
        if shared:
            item.add_marker(pytest.mark.xdist_group(min(shared, key=len)))


def _shared_by(item: pytest.Function) -> set[str]:
    """Return the module or folder within which this test shares fixtures with others."""
    definitions = item._fixtureinfo.name2fixturedefs.values()
    fixtures = [fixture for several in definitions for fixture in several]
    modules = {item.nodeid.partition("::")[0] for one in fixtures if one.scope == "module"}
    # What all tests can have is no reason to keep them together.
    folders = {one.baseid for one in fixtures if one.scope == "session"} - {"", "tests"}
    return modules | folders


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--only-database"):
        config.hook.pytest_deselected(items=[one for one in items if not uses_database(one)])
        items[:] = [one for one in items if uses_database(one)]
    items.sort(key=_place)


def uses_database(item: pytest.Item) -> bool:
    """Say whether a test uses the session's database: pytest-django refuses it to all others."""
    fixtures = _DATABASE_FIXTURES.intersection(getattr(item, "fixturenames", ()))
    return bool(fixtures) or item.get_closest_marker("django_db") is not None


def _place(item: pytest.Item) -> int:
    marks = {mark.name for mark in item.iter_markers()}
    return next((place for place, name in enumerate(_ORDER) if name in marks), len(_ORDER))


def _wanted_folder() -> Path | None:
    """Return the socket's folder that the settings name; None if they name another database."""
    database = settings.DATABASES["default"]
    is_postgres = database["ENGINE"] == "django.db.backends.postgresql"
    return Path(str(database["HOST"])) if is_postgres else None
