"""What others run: the object store, GitHub, mail, the proxy; refused, away, or wrongly addressed."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from django.utils import timezone
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from evalhub.doctor import outside
from evidence.store.models import StorageFault, StorageOperation
from gates.checks.operations.delivery import deliver_check
from tests.evalhub.doctor.telling import OK, WARNING, WRONG, only
from tests.gates.checks.factories import make_check, make_checked_project
from tests.lanes.factories import NOW, make_plan, make_project
from tests.lanes.projects.identities import make_publisher
from tests.programs.github import GitHubStandIn
from tests.programs.issuer import serving_issuer
from tests.programs.s3 import S3Server

pytestmark = pytest.mark.django_db


def test_folder_that_takes_objects_is_right(settings: Settings) -> None:
    finding = only(outside.object_store(), OK)

    assert finding.sentence == (
        f"The folder {settings.OBJECTS_DIR} takes, gives back and deletes objects."
    )
    assert [path for path in settings.OBJECTS_DIR.rglob("*") if path.is_file()] == []


def test_folder_that_is_a_file_is_told(settings: Settings, tmp_path: Path) -> None:
    settings.OBJECTS_DIR = tmp_path / "file"
    settings.OBJECTS_DIR.write_text("")

    finding = only(outside.object_store(), WRONG)

    assert finding.sentence == f"The folder {tmp_path}/file cannot be used as it is configured."


def test_bucket_that_is_away_is_told_without_its_key(settings: Settings) -> None:
    settings.S3_BUCKET, settings.S3_ENDPOINT_URL = "evidence", "http://127.0.0.1:9"
    settings.S3_ACCESS_KEY_ID, settings.S3_SECRET_ACCESS_KEY = "key", "s3cret"

    finding = only(outside.object_store(), WRONG)

    assert "the bucket 'evidence' at http://127.0.0.1:9 failed a probe" in finding.sentence
    assert "EVALHUB_S3_*" in finding.fix
    assert "s3cret" not in str(finding)


@pytest.mark.slow
def test_bucket_is_right_with_its_key_and_told_without(settings: Settings, tmp_path: Path) -> None:
    with S3Server(tmp_path) as server:
        place = server.place
        settings.S3_BUCKET, settings.S3_ENDPOINT_URL = place.bucket, place.endpoint_url
        settings.S3_ACCESS_KEY_ID = place.access_key_id
        settings.S3_SECRET_ACCESS_KEY = place.secret_access_key
        right = only(outside.object_store(), OK)
        settings.S3_SECRET_ACCESS_KEY = "another"
        refused = only(outside.object_store(), WRONG)

    assert right.sentence.startswith("The bucket 'evidence' at http://127.0.0.1:")
    assert "SignatureDoesNotMatch" in refused.sentence


def test_faults_of_the_last_hour_are_told() -> None:
    at = timezone.now()
    assert only(outside.object_store_faults(at=at), OK)
    for minutes in (70, 20, 10):
        StorageFault.objects.create(
            at=at - timedelta(minutes=minutes),
            operation=StorageOperation.READ,
            sentence=f"The bucket was away for {minutes} s.",
        )

    finding = only(outside.object_store_faults(at=at), WARNING)

    assert finding.sentence.startswith("2 fault(s) were noted within the last hour, the last at ")
    assert finding.sentence.endswith("The bucket was away for 10 s.")


@pytest.mark.slow
def test_credentials_that_github_takes_are_right(settings: Settings, tmp_path: Path) -> None:
    with GitHubStandIn(tmp_path) as github:
        settings.GITHUB_API_URL, settings.GITHUB_TOKEN = github.url, github.token
        right = list(outside.credentials_of_github(clock=timezone.now))
        late = list(
            outside.credentials_of_github(clock=lambda: timezone.now() - timedelta(minutes=3))
        )
        settings.GITHUB_TOKEN = "ghp_an0ther"
        refused = only(outside.credentials_of_github(clock=timezone.now), WRONG)

    assert [finding.level for finding in right] == [OK, OK]
    assert right[0].sentence == f"{github.url} takes the credentials."
    assert "s behind GitHub's." in only(late, WARNING).sentence
    assert "GitHub answered 401: Bad credentials." in refused.sentence
    assert "EVALHUB_GITHUB_TOKEN" in refused.fix
    assert "an0ther" not in str(refused)


def test_github_that_is_away_is_told(settings: Settings) -> None:
    settings.GITHUB_API_URL, settings.GITHUB_TOKEN = "http://127.0.0.1:9", "token"

    sentence = only(outside.credentials_of_github(clock=timezone.now), WRONG).sentence

    assert sentence.startswith("http://127.0.0.1:9 does not take the credentials: GitHub could not")


def test_checks_that_wait_for_credentials_are_told(settings: Settings) -> None:
    settings.GITHUB_TOKEN = None
    assert only(outside.credentials_of_github(clock=timezone.now), OK)
    deliver_check(make_check(make_plan(make_checked_project())), at=NOW)

    finding = only(outside.credentials_of_github(clock=timezone.now), WRONG)

    assert finding.sentence == "1 check waits, because no credentials are set."


def test_mail_server_that_is_away_is_told(settings: Settings) -> None:
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", 9
    settings.EMAIL_HOST_USER, settings.EMAIL_HOST_PASSWORD = "evalhub", "s3cret"

    finding = only(outside.mail(), WRONG)

    assert finding.sentence.startswith("The mail server 127.0.0.1:9 cannot be used: ")
    assert "EVALHUB_EMAIL_URL" in finding.fix
    assert "s3cret" not in str(finding)


def test_no_mail_server_and_no_channel_is_right(settings: Settings) -> None:
    settings.EMAIL_HOST = ""

    assert only(outside.mail(), OK)


class _Proxy(BaseHTTPRequestHandler):
    """Hands requests on to `backend`, and keeps Host to itself, as a careless proxy does."""

    backend = ""

    def do_GET(self) -> None:
        answer = httpx.get(f"{self.backend}{self.path}", trust_env=False)
        self.send_response(answer.status_code)
        self.send_header("Content-Type", answer.headers["Content-Type"])
        self.end_headers()
        self.wfile.write(answer.content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class _Stranger(BaseHTTPRequestHandler):
    """Some other server."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"<h1>Welcome to nginx!</h1>")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_public_address_that_leads_to_us_is_right(
    settings: Settings, live_server: LiveServer
) -> None:
    settings.PUBLIC_URL = live_server.url

    finding = only(outside.public_address(), OK)

    assert finding.sentence == f"{live_server.url} answers, and knows its own address."


def test_proxy_that_keeps_the_host_to_itself_is_told(
    settings: Settings, live_server: LiveServer
) -> None:
    handler = type("_ToUs", (_Proxy,), {"backend": live_server.url})
    with serving(handler) as address:
        settings.PUBLIC_URL = address
        finding = only(outside.public_address(), WRONG)

    assert finding.sentence == (
        f"Behind {address} evalhub takes itself for {live_server.url}: links lead astray."
    )
    assert "X-Forwarded-Proto" in finding.fix


def test_other_server_at_our_address_is_told(settings: Settings) -> None:
    with serving(_Stranger) as address:
        settings.PUBLIC_URL = address
        finding = only(outside.public_address(), WRONG)

    assert finding.sentence.startswith(f"What answers at {address} is not this evalhub: ")


def test_address_where_nobody_listens_is_a_warning(settings: Settings) -> None:
    settings.PUBLIC_URL = "http://127.0.0.1:9"

    sentence = only(outside.public_address(), WARNING).sentence

    assert (
        sentence == "http://127.0.0.1:9 does not answer from here: [Errno 111] Connection refused."
    )


def test_issuer_is_not_asked_while_nobody_is_trusted(settings: Settings) -> None:
    with serving_issuer() as issuer:
        settings.OIDC_ISSUER = issuer.url

        finding = only(outside.issuer_of_identities(), OK)

        assert "No project trusts a CI job" in finding.sentence
        assert issuer.questions == 0


def test_issuer_that_gives_keys_is_right(settings: Settings) -> None:
    make_publisher(make_project(repository_id=74))
    with serving_issuer() as issuer:
        settings.OIDC_ISSUER = issuer.url

        finding = only(outside.issuer_of_identities(), OK)

    assert finding.sentence == f"{issuer.url} gives its signing keys."


@pytest.mark.parametrize(
    ("trouble", "said"),
    [("down", "answered with status 503."), ("redirect", "answered with a redirect.")],
)
def test_issuer_that_gives_none_is_told(settings: Settings, trouble: str, said: str) -> None:
    make_publisher(make_project(repository_id=74))
    with serving_issuer() as issuer:
        settings.OIDC_ISSUER, issuer.trouble = issuer.url, trouble

        finding = only(outside.issuer_of_identities(), WRONG)

    assert finding.sentence.startswith("CI jobs cannot sign in: http://127.0.0.1:")
    assert finding.sentence.endswith(said)
    assert "EVALHUB_OIDC_ISSUER" in finding.fix


def test_issuer_without_https_is_told(settings: Settings) -> None:
    make_publisher(make_project(repository_id=74))
    settings.OIDC_ISSUER = "http://token.example"

    assert "expected an https address" in only(outside.issuer_of_identities(), WRONG).sentence
