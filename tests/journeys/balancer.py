"""What stands in front of several web processes: it gives each new connection to the next of them."""

import socket
import threading
from itertools import cycle
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Self


class Balancer(ThreadingTCPServer):
    """Listens on `url` while its block runs."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, *ports: int) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.turns = cycle(ports)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class _Connection(BaseRequestHandler):
    server: Balancer

    def handle(self) -> None:
        with socket.create_connection(("127.0.0.1", next(self.server.turns))) as upstream:
            answers = threading.Thread(target=_pass_on, args=(upstream, self.request), daemon=True)
            answers.start()
            _pass_on(self.request, upstream)
            answers.join()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    """Copy until the source ends, and say so to the target."""
    try:
        while data := source.recv(65_536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        # One side has gone away: the other is to learn of it.
        for side in (source, target):
            side.close()
