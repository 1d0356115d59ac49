"""One letter, to a mail server that takes it, refuses it, stalls or hangs up."""

import pytest
from pytest_django import Settings

from evalhub.web.transports import mail as transport
from evalhub.web.transports.mail import Letter
from evalhub.web.transports.outcomes import Arrived, Refused, Uncertain
from tests.evalhub.web.transports.smtp import MailServer, closed_port, mail

__all__ = ["mail"]

LETTER = Letter("ada@example.org", "Nightly is red – again", "resolved fell.\n", "<1@hub.test>")


def test_letter_arrives_as_it_was_written(mail: MailServer) -> None:
    outcome = transport.send(LETTER)

    assert outcome == Arrived("<1@hub.test>")
    (letter,) = mail.letters
    assert mail.recipients == ["ada@example.org"]
    assert letter["Subject"] == "Nightly is red – again"
    assert letter["From"] == "evalhub@hub.test"
    assert letter["To"] == "ada@example.org"
    assert letter["Message-ID"] == "<1@hub.test>"
    assert letter["Auto-Submitted"] == "auto-generated"
    assert letter.get_content() == "resolved fell.\n"


def test_line_breaks_in_headers_are_refused(mail: MailServer) -> None:
    for letter in (
        LETTER._replace(subject="Red\r\nBcc: all@example.org"),
        LETTER._replace(to="ada@example.org\nBcc: all@example.org"),
    ):
        outcome = transport.send(letter)

        assert isinstance(outcome, Refused)
        assert "line break" in outcome.detail
    assert mail.letters == []


def test_lines_that_begin_with_a_dot_do_not_end_the_letter(mail: MailServer) -> None:
    transport.send(LETTER._replace(text="a\n.\nRCPT TO:<eve@example.org>\n..b\n"))

    (letter,) = mail.letters
    assert letter.get_content() == "a\n.\nRCPT TO:<eve@example.org>\n..b\n"
    assert mail.recipients == ["ada@example.org"]


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("HELLO", "554 no service"),
        ("MAIL", "452 no space"),
        ("RCPT", "550 unknown user"),
        ("RCPT", "421 busy"),
        ("DATA", "451 later"),
        ("LETTER", "554 is spam"),
        ("LETTER", "451 later"),
    ],
)
def test_refusals_are_told_in_the_servers_words(
    mail: MailServer, command: str, answer: str
) -> None:
    mail.answers[command] = [answer]

    outcome = transport.send(LETTER)

    assert isinstance(outcome, Refused)
    assert answer in outcome.detail
    assert mail.letters == []


def test_letter_goes_out_when_the_server_takes_it_after_all(mail: MailServer) -> None:
    mail.answers["RCPT"] = ["450 greylisted"]

    first, second = transport.send(LETTER), transport.send(LETTER)

    assert isinstance(first, Refused)
    assert second == Arrived("<1@hub.test>")
    assert len(mail.letters) == 1


def test_lost_answer_is_uncertain(mail: MailServer) -> None:
    mail.answers["TAKEN"] = [None]

    outcome = transport.send(LETTER)

    assert isinstance(outcome, Uncertain)
    assert len(mail.letters) == 1


def test_server_that_hangs_up_at_once_has_taken_nothing(mail: MailServer) -> None:
    mail.answers["HELLO"] = [None]

    outcome = transport.send(LETTER)

    assert isinstance(outcome, Refused)
    assert "could not be used" in outcome.detail


def test_server_that_does_not_say_goodbye_has_taken_it(mail: MailServer) -> None:
    mail.answers["QUIT"] = [None]

    assert transport.send(LETTER) == Arrived("<1@hub.test>")


@pytest.mark.parametrize("command", ["EHLO", "LETTER"])
def test_silent_server_ends_at_the_time_out(
    mail: MailServer, settings: Settings, command: str
) -> None:
    settings.EMAIL_TIMEOUT = 1
    mail.answers[command] = ["", ""]

    assert isinstance(transport.send(LETTER), Uncertain)


def test_absent_server_and_absent_setting_are_told(settings: Settings, mail: MailServer) -> None:
    settings.EMAIL_PORT = closed_port()
    absent = transport.send(LETTER)
    settings.EMAIL_HOST = ""
    unset = transport.send(LETTER)

    assert isinstance(absent, Refused)
    assert "could not be used" in absent.detail
    assert isinstance(unset, Refused)
    assert "EVALHUB_EMAIL_URL" in unset.detail
