"""Signatures of webhooks in the form of standardwebhooks.com, which many libraries verify."""

import base64
import hashlib
import hmac
import secrets
from datetime import datetime

_PREFIX = "whsec_"


def new_secret() -> str:
    """Return a secret of 256 random bits, in the form in which receivers take it."""
    return _PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def signed_headers(secret: str, *, message_id: str, content: bytes, at: datetime) -> dict[str, str]:
    """Return the three headers with which a receiver tells that a message is ours, new and whole.

    `message_id` is equal for each try of one message, so that a second one can be told.
    """
    timestamp = str(int(at.timestamp()))
    key = base64.b64decode(secret.removeprefix(_PREFIX))
    signed = b".".join([message_id.encode(), timestamp.encode(), content])
    signature = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return {
        "webhook-id": message_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": f"v1,{signature}",
    }
