"""`manage.py up`: all of evalhub on this machine, in the foreground."""

import os
import socket
from argparse import ArgumentTypeError
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from evalhub.environment import env_secret
from evalhub.supervisor.directory import DataDirectory, claim_data_directory
from evalhub.supervisor.errors import StoppedError, UpError
from evalhub.supervisor.health import is_healthy
from evalhub.supervisor.listener import Address, bound_listener, is_port
from evalhub.supervisor.programs import broker, django_command, web, worker
from evalhub.supervisor.supervision import Supervisor, blocked_signals

_SECONDS_TO_GET_READY = 60


class Command(BaseCommand):
    """Start and supervise web server, worker and broker until it is told to stop."""

    help = "Run evalhub on this machine: database, broker, worker and web server in one command."
    # They load every page, which takes longer than all else here; CI has run them.
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--host", default="127.0.0.1")
        parser.add_argument("--port", type=_port, default=8123)
        parser.add_argument("--data", type=Path, default=settings.DATA_DIR)

    def handle(self, *args: Any, **options: Any) -> None:
        address = Address(options["host"], options["port"])
        try:
            listening = bound_listener(
                address, otherwise="choose another with --port (make: PORT=)"
            )
            with blocked_signals(), listening as listener:
                directory = claim_data_directory(options["data"].absolute())
                try:
                    self._run(address, directory, listener)
                finally:
                    os.close(directory.lock)
        except UpError as error:
            raise CommandError(str(error)) from error
        except StoppedError:
            self._say("evalhub has stopped.")

    def _run(self, address: Address, directory: DataDirectory, listener: socket.socket) -> None:
        environment = _environment(address, directory)
        (directory.run / settings.ADDRESS_FILE.name).write_text(environment["EVALHUB_PUBLIC_URL"])
        supervisor = Supervisor(
            environment=environment,
            logs=directory.logs,
            folder=settings.BASE_DIR,
            lock=directory.lock,
            say=self._say,
        )
        try:
            supervisor.run(
                django_command("migrate", "--no-input", "--skip-checks", "--verbosity", "0")
            )
            supervisor.run(django_command("collectstatic", "--no-input", "--verbosity", "0"))
            if env_secret("CELERY_BROKER_URL") is None:
                supervisor.keep(broker(directory.redis_socket))
            supervisor.keep(worker(concurrency=settings.WORKER_CONCURRENCY, with_beat=True))
            supervisor.keep(web(listener.fileno(), threads=settings.WEB_THREADS))
            _wait_until_healthy(supervisor, address)
            self._say(f"evalhub is ready at {address.url}")
            self._say(_sign_in_line(supervisor))
            self._say(f"Data and logs are in {directory.path}; Ctrl-C stops everything.")
            while True:
                supervisor.watch(3600)
        finally:
            supervisor.stop()

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()


def _port(text: str) -> int:
    if not is_port(text):
        raise ArgumentTypeError(f"{text!r} is no port; give a number from 1 to 65535")
    return int(text)


def _environment(address: Address, directory: DataDirectory) -> dict[str, str]:
    return {
        "DJANGO_SETTINGS_MODULE": "evalhub.settings",
        "EVALHUB_PUBLIC_URL": address.url,
        **os.environ,
        "EVALHUB_DATA": str(directory.path),
        "PYTHONUNBUFFERED": "1",
    }


def _wait_until_healthy(supervisor: Supervisor, address: Address) -> None:
    for _ in range(_SECONDS_TO_GET_READY * 5):
        supervisor.watch(0.2)
        if is_healthy(address):
            return
    raise UpError(
        f"The web server did not answer at {address.url}/healthz within "
        f"{_SECONDS_TO_GET_READY} s; its log ends with: {supervisor.last_line('web')}"
    )


def _sign_in_line(supervisor: Supervisor) -> str:
    try:
        link = supervisor.run(django_command("sign_in_link")).strip()
    except UpError as error:
        return f"There is no sign-in link: {error}"
    return f"Sign in once with {link}"
