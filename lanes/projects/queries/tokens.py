"""Tokens, and how secrets are kept."""

from evalhub.protocol.canonical import bytes_digest
from lanes.projects.models import Token


def secret_digest(secret: str) -> str:
    """Return how a secret of 256 random bits is kept: its sha256, without the prefix."""
    return bytes_digest(secret.encode()).removeprefix("sha256:")


def token_with_secret(secret: str) -> Token | None:
    digest = secret_digest(secret)
    return Token.objects.select_related("project").filter(digest=digest).first()
