"""Everything that others run: the object store, GitHub, mail, the proxy in front."""

import smtplib
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from urllib.parse import urlsplit

import httpx
from django.conf import settings
from django.core.mail import get_connection

from evalhub.doctor.findings import Finding, ok, said, warning, wrong
from evidence.store import queries as store
from evidence.store import storage
from gates.checks import github
from gates.checks import queries as checks
from lanes.projects import identity
from lanes.projects.models import ChannelKind
from lanes.projects.queries import channels, publishers

_ANSWER_SECONDS = 5.0
_CLOCKS_MAY_DIFFER = timedelta(seconds=30)
_FAULTS_WITHIN = timedelta(hours=1)


def object_store() -> Iterator[Finding]:
    """Write, read and delete an object."""
    fix = (
        "Check the folder's owner and rights, or the EVALHUB_S3_* settings and the bucket's policy."
    )
    if not storage.is_configured():
        yield wrong("objects", f"{_store()} cannot be used as it is configured.", fix=fix)
        return
    try:
        storage.probe()
    except storage.StorageUnavailableError as error:
        yield wrong("objects", said(error.detail), fix=fix)
    else:
        yield ok("objects", f"{_store()} takes, gives back and deletes objects.")


def _store() -> str:
    folder = storage.folder_of_objects()
    if folder is not None:
        return f"The folder {folder}"
    return f"The bucket {settings.S3_BUCKET!r} at {settings.S3_ENDPOINT_URL or 'AWS'}"


def object_store_faults(*, at: datetime) -> Iterator[Finding]:
    """See whether the object store failed lately, though it may work now."""
    newest = store.storage_faults_since(at - _FAULTS_WITHIN).first()
    if newest is None:
        yield ok("objects", "No fault was noted within the last hour.")
    else:
        count = store.storage_faults_since(at - _FAULTS_WITHIN).count()
        yield warning(
            "objects",
            f"{count} fault(s) were noted within the last hour, the last at {newest.at:%H:%M:%S} UTC:"
            f" {said(newest.sentence)}",
            fix="If it goes on, look at the object store's own log.",
        )


def credentials_of_github(*, clock: Callable[[], datetime]) -> Iterator[Finding]:
    """See whether GitHub takes the credentials, and what it thinks the time is."""
    if not settings.GITHUB_TOKEN:
        yield _without_credentials()
        return
    with github.connection(at=clock(), timeout_seconds=_ANSWER_SECONDS) as hub:
        known = hub.recognize()
    if not isinstance(known, github.Recognized):
        yield wrong(
            "GitHub",
            f"{settings.GITHUB_API_URL} does not take the credentials: {known.detail}",
            fix="Set EVALHUB_GITHUB_TOKEN to a valid token, or EVALHUB_GITHUB_API_URL to your GitHub.",
        )
        return
    yield ok("GitHub", f"{settings.GITHUB_API_URL} takes the credentials.")
    if known.clock is not None:
        yield _clock_beside(known.clock, clock())


def _without_credentials() -> Finding:
    waiting = checks.checks_without_credentials()
    if not waiting:
        return ok("GitHub", "No credentials are set, and no check waits for any.")
    return wrong(
        "GitHub",
        f"{waiting} check{' waits' if waiting == 1 else 's wait'}, because no credentials are set.",
        fix="Set EVALHUB_GITHUB_TOKEN (or EVALHUB_GITHUB_TOKEN_FILE) to a token with `checks: write`.",
    )


def _clock_beside(theirs: datetime, ours: datetime) -> Finding:
    ahead = theirs - ours
    if abs(ahead) <= _CLOCKS_MAY_DIFFER:
        return ok("clock", "GitHub's clock and this machine's agree.")
    side = "behind" if ahead > timedelta() else "ahead of"
    return warning(
        "clock",
        f"This machine's clock is {abs(ahead).total_seconds():.0f} s {side} GitHub's.",
        fix="Let it keep time by NTP: segments of lanes are refused when clocks differ by minutes.",
    )


def issuer_of_identities() -> Iterator[Finding]:
    """Ask the issuer of CI identities for its keys, if any project trusts a CI job."""
    issuer = settings.OIDC_ISSUER
    if not publishers.has_publishers():
        yield ok("CI identity", f"No project trusts a CI job, so {issuer} is not asked.")
        return
    try:
        identity.fetched_keys(issuer)
    except identity.IssuerUnavailableError as error:
        yield wrong(
            "CI identity",
            f"CI jobs cannot sign in: {said(error.detail)}",
            fix="Let the web servers reach EVALHUB_OIDC_ISSUER by https, or set it to your CI's issuer.",
        )
    else:
        yield ok("CI identity", f"{issuer} gives its signing keys.")


def mail() -> Iterator[Finding]:
    """See whether the mail server takes the credentials."""
    if not settings.EMAIL_HOST:
        waiting = channels.used_channels(ChannelKind.EMAIL).count()
        if waiting:
            yield wrong(
                "mail",
                f"{waiting} channel(s) send e-mail, but there is no mail server.",
                fix="Set EVALHUB_EMAIL_URL (or EVALHUB_EMAIL_URL_FILE), or disable the channels.",
            )
        else:
            yield ok("mail", "No mail server is set, and no channel sends e-mail.")
        return
    place = f"{settings.EMAIL_HOST}:{settings.EMAIL_PORT}"
    connection = get_connection(timeout=_ANSWER_SECONDS)
    try:
        connection.open()
    except (OSError, smtplib.SMTPException) as error:
        yield wrong(
            "mail",
            f"The mail server {place} cannot be used: {said(error)}",
            fix="Check scheme, host, port, user and password in EVALHUB_EMAIL_URL.",
        )
    else:
        yield ok("mail", f"The mail server {place} takes us.")
    finally:
        connection.close()


def failing_channels() -> Iterator[Finding]:
    """Find the channels on which nothing arrives."""
    for channel in channels.failing_channels():
        yield warning(
            "notices",
            f"Channel {channel.name!r} of {channel.project.name} has failed {channel.failures} time(s)"
            f" in a row: {said(channel.last_error)}",
            fix="Test or disable it on the project's page of channels.",
        )


def public_address() -> Iterator[Finding]:
    """Ask the public address for addresses: does what it says of itself come through the proxy?"""
    url = settings.PUBLIC_URL
    try:
        answer = httpx.get(
            f"{url}/api/v1/schema/",
            timeout=_ANSWER_SECONDS,
            trust_env=urlsplit(url).hostname not in {"localhost", "127.0.0.1", "::1"},
        )
        told = next(iter(answer.raise_for_status().json()["schemas"].values()))
    except httpx.TransportError as error:
        yield warning(
            "proxy",
            f"{url} does not answer from here: {said(error)}",
            fix="Start the web server; if it runs, see whether this machine may reach its own address.",
        )
    except (httpx.HTTPStatusError, ValueError, LookupError, TypeError, AttributeError) as error:
        yield wrong(
            "proxy",
            f"What answers at {url} is not this evalhub: {said(error)}",
            fix="Point EVALHUB_PUBLIC_URL to it, and let the proxy hand on every path.",
        )
    else:
        yield _handed_on(url, str(told))


def _handed_on(url: str, told: str) -> Finding:
    if told.startswith(f"{url}/"):
        return ok("proxy", f"{url} answers, and knows its own address.")
    seen = urlsplit(told)
    return wrong(
        "proxy",
        f"Behind {url} evalhub takes itself for {seen.scheme}://{seen.netloc}: links lead astray.",
        fix="Let the proxy set Host and X-Forwarded-Proto, and set EVALHUB_PUBLIC_URL for the web server.",
    )
