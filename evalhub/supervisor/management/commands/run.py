"""`manage.py run web|worker|beat`: become one program of evalhub, for a container or a service unit."""

import os
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from evalhub.supervisor.errors import UpError
from evalhub.supervisor.listener import address_of, bound_listener
from evalhub.supervisor.programs import Program, beat, web, worker


class Command(BaseCommand):
    """Replace this process by the program, so that signals reach it and its end is this one's."""

    help = "Run one program of evalhub in the foreground: the web server, a worker, or beat."
    # They load every page, which takes longer than all else here; CI has run them.
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("program", choices=("web", "worker", "beat"))

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            program = _program(options["program"])
            (settings.DATA_DIR / "run").mkdir(parents=True, exist_ok=True)
        except UpError as error:
            raise CommandError(str(error)) from error
        except OSError as error:
            raise CommandError(
                f"{settings.DATA_DIR} cannot be written to ({error.strerror}); name a directory "
                "of this user in EVALHUB_DATA."
            ) from error
        for descriptor in program.inherits:
            os.set_inheritable(descriptor, True)  # noqa: FBT003 - takes no keyword
        # The programs find the code by the working directory.
        os.chdir(settings.BASE_DIR)
        os.execve(program.command[0], program.command, {**os.environ, "PYTHONUNBUFFERED": "1"})  # noqa: S606


def _program(name: str) -> Program:
    match name:
        case "worker":
            return worker(concurrency=settings.WORKER_CONCURRENCY, with_beat=False)
        case "beat":
            return beat()
    _require_static_files()
    address = address_of(settings.BIND)
    listener = bound_listener(address, otherwise="choose another in EVALHUB_BIND")
    return web(listener.detach(), threads=settings.WEB_THREADS)


def _require_static_files() -> None:
    if not (settings.STATIC_ROOT / "staticfiles.json").exists():
        raise UpError(
            f"There are no static files in {settings.STATIC_ROOT}: run `manage.py collectstatic` "
            "once for this version of evalhub, or name their folder in EVALHUB_STATIC."
        )
