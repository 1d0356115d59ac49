"""The address on which the web server listens, bound before it starts."""

import os
import socket
import struct
from typing import NamedTuple

from evalhub.supervisor.errors import UpError

DEFAULT_BIND = "127.0.0.1:8123"
_SILENCE_SECONDS = 15


class Address(NamedTuple):
    """Where to listen. `str()` gives it back as EVALHUB_BIND takes it."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """Return where a program on this machine finds the server.

        >>> Address("0.0.0.0", 8000).url, Address("::1", 8123).url
        ('http://127.0.0.1:8000', 'http://[::1]:8123')
        """
        everywhere = {"0.0.0.0", "::", ""}  # noqa: S104
        host = "127.0.0.1" if self.host in everywhere else self.host
        return f"http://{Address(host, self.port)}"


def address_of(text: str) -> Address:
    """Return the address that `host:port` or `[host]:port` says.

    Raises:
        UpError: if it says none.

    >>> address_of("[::]:8000")
    Address(host='::', port=8000)
    """
    host, colon, port = text.rpartition(":")
    is_bracketed = host.startswith("[") and host.endswith("]")
    sound = colon and is_port(port) and host and (is_bracketed or ":" not in host)
    if not sound:
        raise UpError(
            f"EVALHUB_BIND is {text!r}; it takes an address and a port, such as 0.0.0.0:8000."
        )
    return Address(host[1:-1] if is_bracketed else host, int(port))


def is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 5 and 1 <= int(text) <= 65_535


def bound_listener(address: Address, *, otherwise: str) -> socket.socket:
    """Bind the address before anything starts: a taken port is told at once, and stays ours.

    Raises:
        UpError: if it cannot be bound; `otherwise` says how to choose another.
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
        reason = error.strerror if error.errno is None else os.strerror(error.errno)
        if error.errno is not None and error.errno < 0:
            # The resolver's numbers are below 0, and no words of the system are for them.
            reason = "the name has no address here"
        raise UpError(
            f"Port {address.port} on {address.host} cannot be used ({reason}); {otherwise}."
        ) from error
