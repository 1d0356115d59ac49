"""Settings for tests: the same settings, with a data directory of their own and a fast hasher."""

import atexit
import os
import shutil
import tempfile

if os.environ.get("EVALHUB_TEST_DATA"):
    os.environ["EVALHUB_DATA"] = os.environ["EVALHUB_TEST_DATA"]
else:
    os.environ["EVALHUB_DATA"] = tempfile.mkdtemp(prefix="evalhub-test-")
    atexit.register(shutil.rmtree, os.environ["EVALHUB_DATA"], ignore_errors=True)
for _name in ("DATABASE_URL", "CELERY_BROKER_URL", "EVALHUB_GITHUB_TOKEN"):
    os.environ.pop(_name, None)

from django.core.exceptions import ImproperlyConfigured  # noqa: E402

from evalhub.settings import *  # noqa: E402, F403
from evalhub.settings import DATA_DIR, DATABASES  # noqa: E402

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
CELERY_TASK_ALWAYS_EAGER = True
CELERY_TASK_EAGER_PROPAGATES = True
# No worker runs beside a test of pages, and a long session is no silent worker.
WORKER_SILENT_SECONDS = 24 * 3600
STORAGES = {"staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}}
# Files as they lie in the apps: tests collect nothing.
WHITENOISE_AUTOREFRESH = WHITENOISE_USE_FINDERS = True
match os.environ.get("EVALHUB_TEST_DATABASE", "sqlite"):
    case "sqlite":
        # In-memory databases answer threads with "table is locked"; a file behaves like the real one.
        DATABASES["default"]["TEST"] = {"NAME": str(DATA_DIR / "test.sqlite3")}
        # The tests' database need not survive a power cut.
        DATABASES["default"]["OPTIONS"] = {
            "timeout": 20,
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF;",
        }
    case "postgres":
        # tests/programs/session.py starts it. The folder of its socket is its whole address; test processes
        # that pytest-xdist starts inherit it.
        if "EVALHUB_TEST_POSTGRES" not in os.environ:
            os.environ["EVALHUB_TEST_POSTGRES"] = tempfile.mkdtemp(prefix="evalhub-postgres-")
        DATABASE_FILE = None
        DATABASES["default"] = {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": "evalhub",
            "USER": "postgres",
            "HOST": os.environ["EVALHUB_TEST_POSTGRES"],
            "CONN_MAX_AGE": 0,
        }
    case other:
        raise ImproperlyConfigured(
            f"EVALHUB_TEST_DATABASE is {other!r}; it takes sqlite or postgres."
        )
