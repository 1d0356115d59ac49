"""A pytest plugin: which database serves the session, which tests use one, what runs when and where.

With EVALHUB_TEST_DATABASE=postgres one PostgreSQL serves the whole session. It keeps nothing, and ends
with the session, even when pytest is killed. `tests/settings.py` chose the folder of its socket.
"""

import signal
from collections.abc import Generator
from pathlib import Path

import pytest
from django.conf import settings
from xdist.scheduler import LoadScopeScheduling

from tests.programs import versions
from tests.programs.postgres import PostgresServer

SERVER = pytest.StashKey[PostgresServer]()
# What a test asks pytest-django for when it wants a database; a mark does the same.
_DATABASE_FIXTURES = {"db", "transactional_db", "django_db_setup", "live_server"}
# Long ones first, so that no process is left with one at the end.
_ORDER = ("journey", "browser", "slow")
# Folders whose tests share programs that are expensive to start.
_TOGETHER = ("tests/faults/", "tests/browser/")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--only-database",
        action="store_true",
        help="run only the tests that use the database of this session",
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadScopeScheduling:
    """Give a module's tests to one process of `-n`, so that what they share is made once."""
    config.option.loadscopereorder = False  # The order is `pytest_collection_modifyitems`'.
    scheduler = LoadScopeScheduling(config, log)
    scheduler._split_scope = _scope
    return scheduler


def pytest_configure(config: pytest.Config) -> None:
    """Start the server in the process that other test processes descend from."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # As in a shell's background job: the programs of a test are to heed Ctrl-C all the same.
        signal.signal(signal.SIGINT, signal.default_int_handler)
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


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Make what a test wrote fit for the way from one process to another, which takes UTF-8 alone."""
    report = yield
    report.sections = [
        (title, text.encode(errors="backslashreplace").decode()) for title, text in report.sections
    ]
    return report


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


def _scope(nodeid: str) -> str:
    folder = next((one for one in _TOGETHER if nodeid.startswith(one)), None)
    return folder or nodeid.partition("::")[0]


def _place(item: pytest.Item) -> int:
    marks = {mark.name for mark in item.iter_markers()}
    return next((place for place, name in enumerate(_ORDER) if name in marks), len(_ORDER))


def _wanted_folder() -> Path | None:
    """Return the socket's folder that the settings name; None if they name another database."""
    database = settings.DATABASES["default"]
    is_postgres = database["ENGINE"] == "django.db.backends.postgresql"
    return Path(str(database["HOST"])) if is_postgres else None
