"""The Celery app. `celery -A evalhub.tasks.app worker -B` runs it."""

import ctypes
import logging.config
import os
import signal
from typing import Any

from celery import Celery, Task
from celery.signals import beat_embedded_init, setup_logging, task_postrun, task_prerun
from django.conf import settings
from kombu.transport import TRANSPORT_ALIASES

from evalhub.tasks import trail
from evalhub.tasks.clockwork import Every
from evalhub.tasks.names import SWEEPS

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "evalhub.settings")

_PR_SET_PDEATHSIG = 1
# Longer than the clocks of beat's and a worker's machine may differ.
_SWEEP_KEEPS_SECONDS = 300
# Taken before beat is forked off, so beat can tell whether its worker is still its parent.
_WORKER_PID = os.getpid()

# For redis+socket:// too, which takes its transport from the address.
TRANSPORT_ALIASES.update(dict.fromkeys(["redis", "rediss"], "evalhub.tasks.transport:Transport"))

app = Celery("evalhub")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.conf.update(
    task_ignore_result=True,
    task_acks_late=True,
    task_default_queue="evalhub",
    broker_connection_retry_on_startup=True,
    # A broker that is away for long comes back too.
    broker_connection_max_retries=None,
    # A task that a killed worker held comes back after this time; kombu looks for it every second.
    broker_transport_options={
        "visibility_timeout": 120,
        "unacked_restore_interval": 1,
        "unacked_restore_throttle": 1,
        "socket_connect_timeout": 2,
        "socket_timeout": 3,
        # A broker that is away must not hold a request: the row is written, a sweep finds it.
        "max_retries": 1,
        "interval_start": 0,
        "interval_step": 0,
        "interval_max": 0,
    },
    beat_schedule={
        name.value: {
            "task": name.value,
            "schedule": Every(settings.SWEEP_SECONDS),
            # What beat asked for while no worker was there need not be done a thousand times.
            "options": {"expires": _SWEEP_KEEPS_SECONDS},
        }
        for name in SWEEPS
    },
    beat_scheduler="evalhub.tasks.clockwork:Clockwork",
)
app.autodiscover_tasks()


@beat_embedded_init.connect
def _end_beat_with_its_worker(**_: Any) -> None:
    """Have the kernel end the embedded beat when its worker dies: fork does not inherit that wish."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != _WORKER_PID:
        os._exit(0)


@setup_logging.connect
def _log_as_everything_else(**_: Any) -> None:
    """Keep Celery from logging in a form of its own."""
    logging.config.dictConfig(settings.LOGGING)


@task_prerun.connect
def _begin_trail(task_id: str, task: Task[..., Any], **_: Any) -> None:
    asked_by = (task.request.headers or {}).get("request_id")
    names = {"request_id": str(asked_by)} if asked_by else {}
    trail.begin(task=task.name, task_id=task_id, **names)


@task_postrun.connect
def _end_trail(**_: Any) -> None:
    trail.end()
