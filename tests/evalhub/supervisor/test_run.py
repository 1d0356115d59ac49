"""`manage.py run`: what it refuses before it becomes a program. That it becomes one: tests/docker."""

import socket
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from evalhub.supervisor.health import main
from evalhub.supervisor.listener import Address, address_of, bound_listener
from evalhub.supervisor.programs import beat, worker
from tests.programs.server import free_port

pytestmark = pytest.mark.enable_socket


@pytest.fixture(autouse=True)
def collected(settings: Settings, tmp_path: Path) -> Path:
    settings.STATIC_ROOT = tmp_path / "static"
    settings.STATIC_ROOT.mkdir()
    (settings.STATIC_ROOT / "staticfiles.json").write_text("{}")
    settings.DATA_DIR = tmp_path / "data"
    return tmp_path / "static"


def refused() -> str:
    with pytest.raises(CommandError) as told:
        call_command("run", "web")
    return str(told.value)


def test_web_without_static_files_is_refused(collected: Path) -> None:
    (collected / "staticfiles.json").unlink()

    assert "run `manage.py collectstatic`" in refused()


@pytest.mark.parametrize(
    "text", ["8000", "::1:8000", "localhost:", ":8000", "0.0.0.0:99999", "a:b", f"a:{'9' * 5000}"]
)
def test_address_that_is_none_is_refused(settings: Settings, text: str) -> None:
    settings.BIND = text

    assert refused().startswith(f"EVALHUB_BIND is {text!r}; it takes")


def test_taken_port_is_refused(settings: Settings) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        settings.BIND = f"127.0.0.1:{other.getsockname()[1]}"

        sentence = refused()

    assert "Address already in use" in sentence
    assert sentence.endswith("choose another in EVALHUB_BIND.")


def test_unknown_host_is_refused(settings: Settings) -> None:
    settings.BIND = "no.such.host.invalid:8000"

    sentence = refused()

    assert "Port 8000 on no.such.host.invalid cannot be used" in sentence
    assert "Unknown error" not in sentence


def test_directory_that_cannot_be_made_is_refused(settings: Settings, collected: Path) -> None:
    settings.DATA_DIR = collected / "staticfiles.json" / "data"
    settings.BIND = f"127.0.0.1:{free_port()}"

    assert "name a directory of this user in EVALHUB_DATA" in refused()


@pytest.mark.parametrize("text", ["127.0.0.1:8123", "[::1]:8000", "evalhub.internal:80"])
def test_address_reads_as_it_is_written(text: str) -> None:
    assert str(address_of(text)) == text


def test_accepted_connections_inherit_the_limit_of_silence() -> None:
    listener = bound_listener(Address("127.0.0.1", free_port()), otherwise="choose another")
    with listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            seconds = accepted.getsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, 16)[0]
    assert seconds == 15


def test_health_check_says_what_does_not_answer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    port = free_port()
    monkeypatch.setenv("EVALHUB_BIND", f"0.0.0.0:{port}")

    assert main() == 1
    assert capsys.readouterr().err == f"Nothing answers at http://127.0.0.1:{port}/healthz.\n"
    monkeypatch.setenv("EVALHUB_BIND", "nowhere")
    assert main() == 2


def test_worker_and_beat_are_two_programs() -> None:
    assert "-B" not in worker(concurrency=2, with_beat=False).command
    assert beat().command[-4:] == ["beat", "--pidfile=", "-l", "INFO"]
