"""A mail server on this machine that keeps what it takes, and can refuse, stall or hang up at any command."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from socketserver import StreamRequestHandler, ThreadingTCPServer

import pytest
from pytest_django import Settings


@dataclass
class MailServer:
    """`answers` holds, by command, what is said to the next ones instead of the usual.

    None hangs up; an empty answer is never given, and `waiting` tells of it. Beside commands there are "HELLO" for the greeting,
    "LETTER" for the end of a letter, and "TAKEN" for the end of one that is already kept.
    """

    letters: list[EmailMessage] = field(default_factory=list)
    recipients: list[str] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    answers: dict[str, list[str | None]] = field(default_factory=dict)
    waiting: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)
    port: int = 0

    def say(self, command: str, usual: str) -> str | None:
        waiting = self.answers.get(command, [])
        return waiting.pop(0) if waiting else usual


class HungUpError(Exception):
    """The conversation ends here."""


class _Handler(StreamRequestHandler):
    server: "_Server"

    def handle(self) -> None:
        with suppress(HungUpError, OSError):
            self.answer("HELLO", "220 mail.test ESMTP")
            while line := self.rfile.readline():
                self.server.kept.commands.append(line.decode().rstrip())
                self.obey(self.server.kept.commands[-1])

    def obey(self, line: str) -> None:
        kept = self.server.kept
        match line[:4].upper():
            case "EHLO" | "HELO":
                self.answer("EHLO", "250 mail.test")
            case "RCPT":
                if self.answer("RCPT", "250 OK").startswith("250"):
                    kept.recipients.append(line.partition("<")[2].rstrip(">"))
            case "DATA":
                if self.answer("DATA", "354 go on").startswith("354"):
                    self.take()
            case "QUIT":
                self.answer("QUIT", "221 bye")
                raise HungUpError
            case command:
                self.answer(command, "250 OK")

    def take(self) -> None:
        lines: list[bytes] = []
        while (line := self.rfile.readline()) != b".\r\n":
            lines.append(line.removeprefix(b".").replace(b"\r\n", b"\n"))
        answer = self.server.kept.say("LETTER", "250 kept")
        if answer is not None and answer.startswith("250"):
            letter = message_from_bytes(b"".join(lines), policy=policy.default)
            assert isinstance(letter, EmailMessage)
            self.server.kept.letters.append(letter)
            answer = self.server.kept.say("TAKEN", answer)
        self.write(answer)

    def answer(self, command: str, usual: str) -> str:
        said = self.server.kept.say(command, usual)
        self.write(said)
        return said or ""

    def write(self, said: str | None) -> None:
        if said is None:
            raise HungUpError
        if not said:
            self.server.kept.waiting.set()
            self.server.kept.released.wait(30)
            raise HungUpError
        self.wfile.write(f"{said}\r\n".encode())


class _Server(ThreadingTCPServer):
    daemon_threads = True

    def __init__(self, kept: MailServer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.kept = kept
        kept.port = self.server_address[1]


@contextmanager
def mail_server(settings: Settings) -> Iterator[MailServer]:
    """Run a mail server and have the settings name it, in place of the test runner's outbox."""
    kept = MailServer()
    with _Server(kept) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", kept.port
        settings.DEFAULT_FROM_EMAIL = "evalhub@hub.test"
        try:
            yield kept
        finally:
            kept.released.set()
            server.shutdown()
            thread.join(10)


@pytest.fixture
def mail(settings: Settings) -> Iterator[MailServer]:
    with mail_server(settings) as kept:
        yield kept


def closed_port() -> int:
    """Return a port of this machine on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])
