"""Receivers of webhooks on this machine, each with a way to answer: raw sockets, so that any can be wrong."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

# A key of these tests alone: it signs for hub.test, which exists nowhere.
CERTIFICATE = Path(__file__).with_name("hub.test.pem")

Script = Callable[[socket.socket], None]


@dataclass
class Receiver:
    """What came in: one entry per request, head and body as sent; and where it listens."""

    port: int
    requests: list[bytes] = field(default_factory=list)
    connections: int = 0
    finished: threading.Event = field(default_factory=threading.Event)

    @property
    def header(self) -> dict[str, str]:
        """Return the headers of the only request, names in lower case."""
        (request,) = self.requests
        lines = request.partition(b"\r\n\r\n")[0].decode().split("\r\n")[1:]
        return {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}

    @property
    def body(self) -> bytes:
        (request,) = self.requests
        return request.partition(b"\r\n\r\n")[2]


def answer(status: str, *headers: str, body: bytes = b"") -> Script:
    """Answer each request with a whole response and close."""
    head = "\r\n".join([f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}", "", ""])
    return lambda connection: connection.sendall(head.encode() + body)


def hang_up(connection: socket.socket) -> None:
    """Take the request and close without a word."""
    connection.close()


@contextmanager
def receiving(*scripts: Script, tls: bool = False) -> Iterator[Receiver]:
    """Run a receiver that answers the n-th request by the n-th script, and the rest by the last."""
    listener = socket.create_server(("127.0.0.1", 0))
    receiver = Receiver(listener.getsockname()[1])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            receiver.connections += 1
            with suppress(OSError), connection:
                inner = context.wrap_socket(connection, server_side=True) if tls else connection
                with inner:
                    receiver.requests.append(_request(inner))
                    scripts[min(len(receiver.requests), len(scripts)) - 1](inner)
            receiver.finished.set()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        # Wakes accept(), which closing alone does not.
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(10)


def _request(connection: socket.socket) -> bytes:
    connection.settimeout(30)
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    length = int(
        next(
            line.partition(b":")[2]
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length:")
        )
    )
    while len(body) < length:
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body
