"""One e-mail to one address, through the mail server of the settings."""

import re
import smtplib
from typing import NamedTuple

from django.conf import settings
from django.core.mail import EmailMessage, get_connection

from evalhub.web.transports.outcomes import Arrived, Outcome, Refused, Uncertain

# What ends a header, and with it begins another one.
_BREAK = re.compile(r"[\x00-\x1f\x7f]")
# The server has answered, and its answer was no: nothing was taken.
_DEFINITE = (
    smtplib.SMTPResponseException,
    smtplib.SMTPRecipientsRefused,
    smtplib.SMTPNotSupportedError,
)


class Letter(NamedTuple):
    """A text for one person. `message_id` is equal for each try, so that mail systems can tell."""

    to: str
    subject: str
    text: str
    message_id: str


def send(letter: Letter) -> Outcome:
    """Hand a letter to the mail server and tell what came of it.

    SMTP has no way to ask whether an earlier try arrived, so a lost answer stays uncertain.
    """
    if not settings.EMAIL_HOST:
        return Refused("This server has no mail server: whoever runs it can set EVALHUB_EMAIL_URL.")
    if _BREAK.search("".join(letter._replace(text=""))):
        return Refused("The letter has a line break in its subject or address, and was not sent.")
    connection = get_connection()
    message = EmailMessage(
        letter.subject,
        letter.text,
        settings.DEFAULT_FROM_EMAIL,
        [letter.to],
        connection=connection,
        headers={"Message-ID": letter.message_id, "Auto-Submitted": "auto-generated"},
    )
    try:
        connection.open()
    except (OSError, smtplib.SMTPException) as error:
        connection.close()
        return Refused(f"The mail server could not be used: {_said(error)}")
    try:
        connection.send_messages([message])
    except _DEFINITE as error:
        return Refused(f"The mail server refused the letter: {_said(error)}")
    except (OSError, smtplib.SMTPException) as error:
        return Uncertain(f"The mail server broke off: {_said(error)}")
    finally:
        connection.close()
    return Arrived(letter.message_id)


def _said(error: Exception) -> str:
    match error:
        case smtplib.SMTPRecipientsRefused(recipients=recipients):
            code, text = next(iter(recipients.values()))
            return f"{code} {_one_line(text)}."
        case smtplib.SMTPResponseException(smtp_code=code, smtp_error=text):
            return f"{code} {_one_line(text)}."
    return f"{_one_line(str(error)) or type(error).__name__}."


def _one_line(text: bytes | str) -> str:
    said = text.decode(errors="replace") if isinstance(text, bytes) else text
    return " ".join(said.split())[:300].rstrip(".")
