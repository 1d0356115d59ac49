"""Settings from environment variables: each wrong one is named, none is repeated that may be a secret."""

import pytest
from django.core.exceptions import ImproperlyConfigured

from evalhub.environment import MailServer, SettingError, env_broker, env_int, env_mail_server

NAME = "EVALHUB_EMAIL_URL"


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("smtp://localhost", MailServer("localhost", 25, "", "", "smtp")),
        ("smtp://mail.internal:2525/", MailServer("mail.internal", 2525, "", "", "smtp")),
        ("smtps://u:p%40ss@mail.org", MailServer("mail.org", 465, "u", "p@ss", "smtps")),
        (
            "smtp+starttls://me%40org:a%2Fb@[::1]",
            MailServer("::1", 587, "me@org", "a/b", "smtp+starttls"),
        ),
    ],
)
def test_mail_server_is_read_from_its_url(
    monkeypatch: pytest.MonkeyPatch, url: str, server: MailServer
) -> None:
    monkeypatch.setenv(NAME, url)

    assert env_mail_server(NAME) == server


def test_without_a_url_there_is_no_mail_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(NAME, raising=False)

    assert env_mail_server(NAME).host == ""


@pytest.mark.parametrize(
    "url",
    [
        "mail.org:25",
        "https://geheim@mail.org",
        "smtp://",
        "smtp://mail.org:port",
        "smtp://mail.org/inbox",
        "smtp://mail.org?tls=1",
        "smtp://user:geheim@mail.org",
    ],
)
def test_wrong_mail_server_is_refused_without_its_password(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv(NAME, url)

    with pytest.raises(ImproperlyConfigured, match=NAME) as refused:
        env_mail_server(NAME)

    assert "geheim" not in str(refused.value)


@pytest.mark.parametrize("text", ["0", "-1", "2147483648", "9" * 5000, "many", "1.5", ""])
def test_number_that_no_timer_or_port_takes_is_named(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("EVALHUB_SWEEP_SECONDS", text)

    with pytest.raises(SettingError, match="takes a whole number from 1 to 2147483647") as refused:
        env_int("EVALHUB_SWEEP_SECONDS", 10, least=1)

    assert len(str(refused.value)) < 200


BROKER = "CELERY_BROKER_URL"


@pytest.mark.parametrize(
    "url",
    [
        "redis://localhost",
        "redis://:p%40ss@redis:6379/0",
        "redis://[::1]:6379/15",
        "rediss://user:word@redis.internal/1?ssl_cert_reqs=required",
        "redis+socket:///var/run/redis.sock",
        "redis+socket:///var/run/redis.sock?virtual_host=2",
        "amqp://user:word@rabbit:5672/evalhub",
        "amqps://rabbit//",
        "amqp://one;amqp://two",
    ],
)
def test_address_of_a_broker_is_taken_as_it_is(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv(BROKER, url)

    assert env_broker(BROKER) == url


@pytest.mark.parametrize("url", ["", None])
def test_without_an_address_there_is_no_broker(
    monkeypatch: pytest.MonkeyPatch, url: str | None
) -> None:
    monkeypatch.delenv(BROKER, raising=False)
    if url is not None:
        monkeypatch.setenv(BROKER, url)

    assert env_broker(BROKER) is None


@pytest.mark.parametrize(
    "url",
    [
        "localhost",
        "redis:6379",
        "redis://",
        "redis:///0",
        "redis://:geheim@redis:port/0",
        "redis://:geheim#1@redis:6379/0",
        "redis://:gehe/im@redis:6379/0",
        "redis://:geheim@redis:6379/first",
        "redis://:geheim@redis:0/0",
        "redis://:geheim@redis:65536/0",
        "redis+socket://var/run/redis.sock",
        "redis+socket://",
        "filesystem://",
        "memory://",
        "sqs://geheim@",
        "https://geheim@host",
        "redis://[::1",
        "redis://one;geheim",
    ],
)
def test_wrong_address_of_a_broker_is_refused_without_its_password(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv(BROKER, url)

    with pytest.raises(SettingError, match=f"{BROKER} takes redis://:password@") as refused:
        env_broker(BROKER)

    assert refused.value.variable == BROKER
    assert "geheim" not in str(refused.value)
