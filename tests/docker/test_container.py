"""The image's programs really run: unprivileged, on a root file system for reading only, as process 1."""

import os
import re
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from tests.docker.compose import FOLDER, compose, duration
from tests.docker.container import Container, Image, built_image, run_in
from tests.docker.dockerfile import stages
from tests.programs.postgres import PostgresServer
from tests.programs.processes import descendants, wait_for
from tests.programs.redis import RedisServer
from tests.programs.server import free_port

pytestmark = [
    pytest.mark.journey,
    pytest.mark.enable_socket,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts what a container sees"),
]

SERVICES = compose(EVALHUB_HOST="localhost")["services"]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    return built_image(stages(FOLDER / "Dockerfile"), tmp_path_factory.mktemp("image"))


class Installation(NamedTuple):
    """What the services share: the image, secrets as files, variables of this machine."""

    folder: Path
    image: Image
    secrets: Path
    variables: dict[str, str]

    def container(self, service: str) -> Container:
        return Container(
            self.folder / service,
            self.image,
            SERVICES[service],
            variables={**self.variables, "EVALHUB_BIND": f"127.0.0.1:{free_port()}"},
            secrets=self.secrets,
        )


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory, image: Image) -> Iterator[Installation]:
    """Run the services' PostgreSQL and Redis, and migrate as the compose file says."""
    folder = tmp_path_factory.mktemp("installation")
    secrets = made_secrets(folder)
    postgres, redis = PostgresServer(folder, tcp=True), RedisServer(folder)
    with postgres, redis:
        (secrets / "database_url").write_text(postgres.url)
        (secrets / "broker_url").write_text(redis.url)
        variables = {
            "EVALHUB_SWEEP_SECONDS": "1",
            # A bucket is not what is looked at here.
            "EVALHUB_S3_BUCKET": "",
        }
        migrate = SERVICES["migrate"]
        run_in(
            image,
            migrate["command"],
            variables={**image.environment, **migrate["environment"], **variables},
            tmpfs=migrate["tmpfs"],
            secrets=secrets,
        )
        yield Installation(folder, image, secrets, variables)


def made_secrets(folder: Path) -> Path:
    """Make the secrets with the script that an operator runs."""
    (folder / "docker").mkdir()
    script = folder / "docker" / "make-secrets.sh"
    script.write_bytes((FOLDER / "make-secrets.sh").read_bytes())
    subprocess.run(["sh", str(script)], check=True)
    secrets = folder / "docker" / "secrets"
    # Docker binds the files one by one, past the closed folder; this binds the folder.
    secrets.chmod(0o755)
    return secrets


@pytest.fixture(scope="module")
def web(installation: Installation) -> Iterator[Container]:
    """Return a web server that several tests ask, and none ends."""
    with installation.container("web") as container:
        yield container


@pytest.fixture
def started(installation: Installation) -> Iterator[Callable[[str], Container]]:
    running: list[Container] = []

    def start(service: str) -> Container:
        running.append(installation.container(service))
        running[-1].start()
        return running[-1]

    yield start
    for container in running:
        container.stop()


def test_web_serves_pages_and_their_files(web: Container) -> None:
    url = f"http://{web.variables['EVALHUB_BIND']}"
    through_proxy = {"X-Forwarded-Proto": "https", "Host": "localhost"}

    with httpx.Client(base_url=url, headers=through_proxy, trust_env=False) as client:
        ready, page = client.get("/readyz"), client.get("/sign-in/")
        styles = re.findall(r'href="(/static/[^"]+\.css)"', page.text)
        files = [client.get(path).status_code for path in styles]

    assert (ready.status_code, page.status_code) == (200, 200)
    assert styles
    assert set(files) == {200}


def test_sign_in_link_is_made_beside_the_web_server(web: Container) -> None:
    assert web.ends_well(["python", "manage.py", "sign_in_link"])
    assert not web.ends_well(["touch", "/srv/evalhub/somewhere"])


@pytest.mark.parametrize("service", ["worker", "beat"])
def test_sigterm_to_process_one_ends_the_program_in_time(
    started: Callable[[str], Container], service: str
) -> None:
    container = started(service)
    granted = duration(SERVICES[service]["stop_grace_period"])
    family = descendants(container.process.pid)

    began = time.monotonic()
    container.terminate()
    code = container.process.wait(granted.total_seconds())

    assert code == 0
    assert time.monotonic() - began < granted.total_seconds()
    assert wait_for(lambda: not descendants(container.process.pid) & family, 5)


def test_request_that_is_under_way_is_answered_before_the_end(
    started: Callable[[str], Container],
) -> None:
    web = started("web")
    host, port = web.variables["EVALHUB_BIND"].split(":")
    with socket.create_connection((host, int(port)), timeout=20) as client:
        body = b"username=someone&password=anything"
        head = f"POST /sign-in/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        client.sendall(head.encode() + body[:10])
        # The web server has taken the request up when it has taken the connection.
        assert wait_for(lambda: _is_accepted(client), 10)

        web.terminate()
        assert wait_for(lambda: "Handling signal: term" in web.said, 10)
        client.sendall(body[10:])

        assert client.recv(12) == b"HTTP/1.1 403"
    granted = duration(SERVICES["web"]["stop_grace_period"])
    assert web.process.wait(granted.total_seconds()) == 0


def test_who_falls_silent_gives_the_thread_back(web: Container) -> None:
    host, port = web.variables["EVALHUB_BIND"].split(":")
    with socket.create_connection((host, int(port)), timeout=40) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: loc")

        assert client.recv(100) == b""


def _is_accepted(client: socket.socket) -> bool:
    """Say whether what was sent was read: the kernel holds nothing of it any more."""
    peer = client.getsockname()[1]
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if int(fields[2].split(":")[1], 16) == peer:
            return int(fields[4].split(":")[1], 16) == 0
    return False
