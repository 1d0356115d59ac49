"""Settings for tests: the same settings, with a data directory of their own and a fast hasher."""

import os
import tempfile

os.environ["EVALHUB_DATA"] = os.environ.get("EVALHUB_TEST_DATA") or tempfile.mkdtemp(
    prefix="evalhub-test-"
)
for _name in ("DATABASE_URL", "CELERY_BROKER_URL", "EVALHUB_GITHUB_TOKEN"):
    os.environ.pop(_name, None)

from evalhub.settings import *  # noqa: E402, F403
from evalhub.settings import DATA_DIR, DATABASES  # noqa: E402

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
CELERY_TASK_ALWAYS_EAGER = True
CELERY_TASK_EAGER_PROPAGATES = True
STORAGES = {"staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}}
# In-memory databases answer threads with "table is locked"; a file behaves like the real one.
DATABASES["default"]["TEST"] = {"NAME": str(DATA_DIR / "test.sqlite3")}
# The tests' database need not survive a power cut.
DATABASES["default"]["OPTIONS"]["init_command"] = "PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF;"
