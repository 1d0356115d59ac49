"""The Celery app. `celery -A evalhub.tasks.app worker -B` runs it."""

import ctypes
import os
import signal
from typing import Any

from celery import Celery
from celery.signals import beat_embedded_init
from django.conf import settings

from evalhub.tasks.names import SWEEPS

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "evalhub.settings")

_PR_SET_PDEATHSIG = 1
# Longer than the clocks of beat's and a worker's machine may differ.
_SWEEP_KEEPS_SECONDS = 300
# Taken before beat is forked off, so beat can tell whether its worker is still its parent.
_WORKER_PID = os.getpid()

app = Celery("evalhub")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.conf.update(
    task_ignore_result=True,
    task_acks_late=True,
    task_default_queue="evalhub",
    broker_connection_retry_on_startup=True,
    worker_hijack_root_logger=False,
    # A task that a killed worker held comes back after this time; kombu looks for it every second.
    broker_transport_options={
        "visibility_timeout": 120,
        "unacked_restore_interval": 1,
        "unacked_restore_throttle": 1,
        "socket_connect_timeout": 2,
        # A broker that is away must not hold a request: the row is written, a sweep finds it.
        "max_retries": 1,
        "interval_start": 0,
        "interval_step": 0,
        "interval_max": 0,
    },
    beat_schedule={
        name.value: {
            "task": name.value,
            "schedule": float(settings.SWEEP_SECONDS),
            # What beat asked for while no worker was there need not be done a thousand times.
            "options": {"expires": _SWEEP_KEEPS_SECONDS},
        }
        for name in SWEEPS
    },
    beat_schedule_filename=str(settings.DATA_DIR / "run" / "beat-schedule"),
)
app.autodiscover_tasks()


@beat_embedded_init.connect
def _end_beat_with_its_worker(**_: Any) -> None:
    """Have the kernel end the embedded beat when its worker dies: fork does not inherit that wish."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != _WORKER_PID:
        os._exit(0)
