"""`manage.py up`: all of evalhub on this machine, in the foreground."""

import os
import socket
import struct
import urllib.error
import urllib.request
from argparse import ArgumentTypeError
from pathlib import Path
from typing import Any, NamedTuple

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from evalhub.supervisor.directory import DataDirectory, claim_data_directory
from evalhub.supervisor.errors import StoppedError, UpError
from evalhub.supervisor.programs import broker, django_command, web, worker
from evalhub.supervisor.supervision import Supervisor, blocked_signals

_SECONDS_TO_GET_READY = 60
_SILENCE_SECONDS = 15


class _Address(NamedTuple):
    host: str
    port: int

    @property
    def url(self) -> str:
        """Return where a browser on this machine finds the server."""
        shown = "127.0.0.1" if self.host in {"0.0.0.0", "::", ""} else self.host  # noqa: S104
        return f"http://[{shown}]:{self.port}" if ":" in shown else f"http://{shown}:{self.port}"


class Command(BaseCommand):
    """Start and supervise web server, worker and broker until it is told to stop."""

    help = "Run evalhub on this machine: database, broker, worker and web server in one command."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--host", default="127.0.0.1")
        parser.add_argument("--port", type=_port, default=8123)
        parser.add_argument("--data", type=Path, default=settings.DATA_DIR)

    def handle(self, *args: Any, **options: Any) -> None:
        address = _Address(options["host"], options["port"])
        try:
            with blocked_signals(), _listener(address) as listener:
                directory = claim_data_directory(options["data"].absolute())
                try:
                    self._run(address, directory, listener)
                finally:
                    os.close(directory.lock)
        except UpError as error:
            raise CommandError(str(error)) from error
        except StoppedError:
            self._say("evalhub has stopped.")

    def _run(self, address: _Address, directory: DataDirectory, listener: socket.socket) -> None:
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
            supervisor.run(django_command("migrate", "--no-input", "--verbosity", "0"))
            supervisor.run(django_command("collectstatic", "--no-input", "--verbosity", "0"))
            if "CELERY_BROKER_URL" not in os.environ:
                supervisor.keep(broker(directory.redis_socket))
            supervisor.keep(worker())
            supervisor.keep(web(listener.fileno()))
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
    if not text.isdigit() or not 1 <= int(text) <= 65_535:
        raise ArgumentTypeError(f"{text!r} is no port; give a number from 1 to 65535")
    return int(text)


def _listener(address: _Address) -> socket.socket:
    """Bind the address before anything starts: a taken port is told at once, and stays ours.

    Raises:
        UpError: if it cannot be bound.
    """
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        listener = socket.create_server((address.host, address.port), family=family, backlog=1024)
        # Accepted sockets inherit it: whoever opens a connection and then falls silent gives its
        # thread back, also before Django has seen a request.
        listener.setsockopt(
            socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", _SILENCE_SECONDS, 0)
        )
        return listener
    except OSError as error:
        raise UpError(
            f"Port {address.port} on {address.host} cannot be used ({os.strerror(error.errno or 0)}); "
            "choose another with --port."
        ) from error


def _environment(address: _Address, directory: DataDirectory) -> dict[str, str]:
    return {
        "DJANGO_SETTINGS_MODULE": "evalhub.settings",
        "EVALHUB_PUBLIC_URL": address.url,
        **os.environ,
        "EVALHUB_DATA": str(directory.path),
        "PYTHONUNBUFFERED": "1",
    }


def _wait_until_healthy(supervisor: Supervisor, address: _Address) -> None:
    for _ in range(_SECONDS_TO_GET_READY * 5):
        supervisor.watch(0.2)
        if _is_healthy(address):
            return
    raise UpError(
        f"The web server did not answer at {address.url}/healthz within "
        f"{_SECONDS_TO_GET_READY} s; its log ends with: {supervisor.last_line('web')}"
    )


def _is_healthy(address: _Address) -> bool:
    # No proxy of the machine between this process and its own child.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"{address.url}/healthz", timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _sign_in_line(supervisor: Supervisor) -> str:
    try:
        link = supervisor.run(django_command("sign_in_link")).strip()
    except UpError as error:
        return f"There is no sign-in link: {error}"
    return f"Sign in once with {link}"
