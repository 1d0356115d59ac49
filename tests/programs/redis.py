"""A Redis of a test's own, with the command line that `manage.py up` has for it."""

from pathlib import Path

from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from evalhub.supervisor.programs import Program, broker
from tests.programs.server import Server, free_port


class RedisServer(Server):
    """A Redis on a port of the loopback that keeps nothing on disk."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, name="redis")
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.environment = {"CELERY_BROKER_URL": self.url}

    def program(self) -> Program:
        program = broker(self.folder / "redis.sock")
        # Later options win: a port in the place of the socket, as on a machine of its own.
        reached = ["--port", str(self.port), "--bind", "127.0.0.1", "--unixsocket", ""]
        return program._replace(command=[*program.command, *reached])

    def is_ready(self) -> bool:
        with Redis(port=self.port) as client:
            try:
                return client.ping() is True
            except RedisConnectionError:
                return False
