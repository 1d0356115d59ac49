"""Settings for benches: those of production, in one process, with nothing but warnings in the log.

Which store is worked on is chosen while the bench runs; see `tests/bench/stores.py`.
"""

import os
import tempfile

os.environ["EVALHUB_DATA"] = tempfile.mkdtemp(prefix="evalhub-bench-")
for _name in ("DATABASE_URL", "CELERY_BROKER_URL", "EVALHUB_GITHUB_TOKEN", "EVALHUB_S3_BUCKET"):
    os.environ.pop(_name, None)
os.environ["EVALHUB_LOG_LEVEL"] = "WARNING"

from evalhub.settings import *  # noqa: E402, F403

ALLOWED_HOSTS = ["testserver"]
CELERY_TASK_ALWAYS_EAGER = CELERY_TASK_EAGER_PROPAGATES = True
STORAGES = {"staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}}
WHITENOISE_AUTOREFRESH = WHITENOISE_USE_FINDERS = True
# No worker runs beside a bench.
WORKER_SILENT_SECONDS = 24 * 3600
