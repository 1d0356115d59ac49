"""One POST to a URL that somebody outside has given.

No proxy, no redirect, no credentials from the environment; one deadline for all of it; of the answer
the status and a few hundred bytes. The connection goes to the address that was looked at, under the
name of the URL (Host, SNI, certificate): a name that resolves otherwise a moment later changes nothing.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import cache
from http import HTTPStatus
from ipaddress import ip_address
from ssl import SSLContext
from typing import Any

import httpcore
import httpx

from evalhub.web.transports import addresses
from evalhub.web.transports.addresses import Allowance, Resolver, Target, UnfitTargetError
from evalhub.web.transports.outcomes import Arrived, Outcome, Refused, Uncertain

TIMEOUT_SECONDS = 10.0
# A host with two addresses, one of them dead, is still reached within the deadline.
_CONNECT_SECONDS = 4.0
_MOST_READ_BYTES = 2048
_MOST_SHOWN = 200
_LONGEST_WAIT = timedelta(days=1)


@cache
def _trusted_certificates() -> SSLContext:
    # With SSL_CERT_FILE from the environment: an internal receiver has an internal authority.
    return httpx.create_ssl_context()


@dataclass(frozen=True)
class Poster:
    """Posts within what is allowed; the other fields are for tests of this module alone."""

    allowed: Allowance
    resolve: Resolver = addresses.resolved
    certificates: SSLContext | None = None
    timeout_seconds: float = TIMEOUT_SECONDS

    def post(
        self, url: str, *, content: bytes, headers: Mapping[str, str], at: datetime
    ) -> Outcome:
        """Send `content` once and tell what came of it. `at` is the present, for Retry-After."""
        try:
            target = addresses.target_of(url, allowed=self.allowed)
            found = addresses.connectable(target, allowed=self.allowed, resolve=self.resolve)
        except UnfitTargetError as error:
            return Refused(str(error))
        except OSError:
            return Refused(
                "The URL's host has no address: its name does not exist, or DNS is away."
            )
        deadline = time.monotonic() + self.timeout_seconds
        try:
            with self._pool(_Network(found, deadline=deadline)) as pool:
                response = pool.handle_request(_request(target, content, headers))
                try:
                    # What an internal host answers is for nobody who can only name it.
                    is_outside = all(addresses.is_public(ip_address(text)) for text in found)
                    return _outcome(response, host=target.host, is_quoted=is_outside, at=at)
                finally:
                    response.close()
        except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
            return Refused(f"{target.host} could not be reached: {_reason(error)}.")
        except httpcore.TimeoutException:
            seconds = f"{self.timeout_seconds:g} seconds"
            return Uncertain(f"{target.host} did not answer within {seconds}.")
        except (httpcore.NetworkError, httpcore.ProtocolError) as error:
            return Uncertain(f"{target.host} broke off: {_reason(error)}.")

    def _pool(self, network: "_Network") -> httpcore.ConnectionPool:
        certificates = self.certificates or _trusted_certificates()
        return httpcore.ConnectionPool(ssl_context=certificates, network_backend=network)


def _request(target: Target, content: bytes, headers: Mapping[str, str]) -> httpcore.Request:
    host = f"[{target.host}]" if ":" in target.host else target.host
    url = httpcore.URL(scheme=target.scheme, host=target.host, port=target.port, target=target.path)
    own = [
        ("Host", host if target.is_usual_port else f"{host}:{target.port}"),
        ("User-Agent", "evalhub"),
        ("Accept-Encoding", "identity"),
        ("Content-Length", str(len(content))),
    ]
    return httpcore.Request("POST", url, headers=[*own, *headers.items()], content=content)


def _outcome(response: httpcore.Response, *, host: str, is_quoted: bool, at: datetime) -> Outcome:
    status = response.status
    if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        return Arrived()
    if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
        return Refused(
            f"{host} answered {status}, a redirect, which is not followed: give the final URL."
        )
    detail = f"{host} answered {status}{_said(response) if is_quoted else ''}."
    retry_at = _retry_at(response, at=at)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR and retry_at is None:
        return Uncertain(detail)
    return Refused(detail, retry_at)


def _retry_at(response: httpcore.Response, *, at: datetime) -> datetime | None:
    """Return when the receiver wants to hear from us again, at most a day ahead."""
    if response.status not in {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}:
        return None
    found = [value for name, value in response.headers if name.lower() == b"retry-after"]
    header = found[0].decode("latin-1").strip() if found else ""
    wait: timedelta | None = None
    if header.isascii() and header.isdecimal() and len(header) < 10:
        wait = timedelta(seconds=int(header))
    elif header:
        wait = _until(header, at=at)
    return None if wait is None else at + min(max(wait, timedelta()), _LONGEST_WAIT)


def _until(date: str, *, at: datetime) -> timedelta | None:
    try:
        moment = parsedate_to_datetime(date)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - at


def _said(response: httpcore.Response) -> str:
    kept = b""
    try:
        for part in response.iter_stream():
            kept += part[:_MOST_READ_BYTES]
            if len(kept) >= _MOST_READ_BYTES:
                break
    except (httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError):
        # The status is known; what else was to be said is not worth a doubt about it.
        pass
    text = " ".join(kept.decode(errors="replace").split())
    shown = text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"
    return f": {shown.rstrip('.')}" if shown else ""


def _reason(error: Exception) -> str:
    return str(error).rstrip(".") or "nothing more was said"


class _Network(httpcore.NetworkBackend):
    """Connects to given addresses whatever name it is asked for, and knows one deadline for all."""

    def __init__(self, found: list[str], *, deadline: float) -> None:
        self.found = found
        self.deadline = deadline
        self.inner = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        failure: Exception = httpcore.ConnectTimeout("no time was left to connect")
        for address in self.found:
            left = self.deadline - time.monotonic()
            if left <= 0:
                break
            try:
                stream = self.inner.connect_tcp(
                    address,
                    port,
                    timeout=min(left, _CONNECT_SECONDS),
                    local_address=local_address,
                    socket_options=socket_options,
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
                continue
            return _Stream(stream, self.deadline)
        raise failure


class _Stream(httpcore.NetworkStream):
    """A connection whose every step ends at the deadline, however slowly the other side drips."""

    def __init__(self, inner: httpcore.NetworkStream, deadline: float) -> None:
        self.inner = inner
        self.deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self.inner.read(max_bytes, self._left(httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self.inner.write(buffer, self._left(httpcore.WriteTimeout))

    def close(self) -> None:
        self.inner.close()

    def start_tls(
        self,
        ssl_context: SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        left = self._left(httpcore.ConnectTimeout)
        return _Stream(self.inner.start_tls(ssl_context, server_hostname, left), self.deadline)

    def get_extra_info(self, info: str) -> Any:
        return self.inner.get_extra_info(info)

    def _left(self, too_late: type[Exception]) -> float:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise too_late("the time for all of it is over")
        return left
