"""The issuer of CI identities: what it signs with, and what a token says that it signed.

The one place that speaks to the issuer. Its address is the instance's setting: no token and no
document leads anywhere else.
"""

import json
import re
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NewType
from urllib.parse import urlsplit

import httpx
import jwt
from jwt.utils import base64url_decode
from pydantic import ValidationError

from evalhub.protocol.identity import VerifiedSource
from evalhub.protocol.policy import Event
from evalhub.web.errors import DomainError

ALGORITHM = "RS256"
# A runner's clock and ours; GitHub dates `nbf` ten minutes back, but not `iat`.
LEEWAY_SECONDS = 30
# GitHub's live five minutes. Each is remembered until it has expired, so that must end.
_LONGEST_LIFE_SECONDS = 24 * 3600
_LONGEST_TOKEN = 16 * 1024
_LARGEST_DOCUMENT = 256 * 1024
_MOST_KEYS = 100
_LEAST_KEY_BITS = 2048
_ANSWER_SECONDS = 5.0
_LONGEST_SECONDS = 10.0
_LOOPBACK = {"localhost", "127.0.0.1", "::1"}
_REQUIRED = ("iss", "aud", "iat", "nbf", "exp", "jti")
EVENTS: Mapping[str, Event] = {
    "pull_request": "pull_request",
    "merge_group": "merge_group",
    "push": "push",
    "schedule": "schedule",
    "workflow_dispatch": "manual",
    "repository_dispatch": "manual",
}
"""GitHub's events that an evaluation may come from, and what a plan calls them."""

SignedClaims = NewType("SignedClaims", dict[str, Any])
"""Claims of which the issuer's signature, the audience and the times were checked."""


class IssuerUnavailableError(DomainError):
    """The issuer gives no keys that anything could be checked with."""

    status = 503
    code = "issuer-unavailable"
    fix = "Try again later; whoever runs the server sees why with `manage.py doctor`."
    retry_after_seconds = 30


class IdentityRefusedError(DomainError):
    """A token is no identity here. `reason` is the code; 403 where it is sound but not trusted."""

    status = 400
    code = "identity-refused"

    def __init__(
        self, reason: str, detail: str, *, fix: str | None = None, status: int | None = None
    ) -> None:
        super().__init__(detail, fix=fix)
        self.code = f"identity-{reason}"
        self.status = status or self.status


def fetched_keys(issuer: str) -> str:
    """Ask the issuer for its signing keys and return those that can be used, as a JWKS.

    Raises:
        IssuerUnavailableError: if it does not answer in time, or with something else.
    """
    parts = urlsplit(issuer)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
        raise IssuerUnavailableError(f"The issuer is {issuer!r}; expected an https address.")
    deadline = time.monotonic() + _LONGEST_SECONDS
    with httpx.Client(
        timeout=_ANSWER_SECONDS,
        follow_redirects=False,
        trust_env=parts.hostname not in _LOOPBACK,
        headers={"Accept": "application/json", "Accept-Encoding": "identity"},
    ) as client:
        discovery = _document(client, f"{issuer}/.well-known/openid-configuration", deadline)
        if discovery.get("issuer") != issuer:
            raise IssuerUnavailableError(
                f"What answers at {issuer} says that it is {discovery.get('issuer')!r}."
            )
        address = discovery.get("jwks_uri")
        if not isinstance(address, str) or _origin(address) != _origin(issuer):
            raise IssuerUnavailableError(
                f"The issuer {issuer} names keys at {address!r}, which is not of its own host."
            )
        usable = usable_keys(_document(client, address, deadline))
    if not usable:
        raise IssuerUnavailableError(f"The issuer {issuer} gave no RSA key for {ALGORITHM}.")
    return json.dumps({"keys": usable})


def usable_keys(document: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the public RSA keys of a JWKS that may sign identities, each with its id."""
    keys = document.get("keys")
    found = [_public_part(key) for key in keys[:_MOST_KEYS]] if isinstance(keys, list) else []
    return [key for key in found if key is not None and _is_strong(key)]


def _public_part(key: object) -> dict[str, str] | None:
    if not isinstance(key, dict) or key.get("kty") != "RSA":
        return None
    if key.get("use", "sig") != "sig" or key.get("alg", ALGORITHM) != ALGORITHM:
        return None
    parts = {name: key.get(name) for name in ("kid", "n", "e")}
    named = {name: part for name, part in parts.items() if isinstance(part, str) and part}
    if len(named) < len(parts):
        return None
    return {"kty": "RSA", "use": "sig", "alg": ALGORITHM, **named}


def _is_strong(key: Mapping[str, str]) -> bool:
    try:
        public = jwt.PyJWK(dict(key), algorithm=ALGORITHM).key
    except (jwt.PyJWKError, jwt.InvalidKeyError, ValueError):
        return False
    return bool(public.key_size >= _LEAST_KEY_BITS)


def key_named(document: str, key_id: str) -> jwt.PyJWK | None:
    """Return the key of this id from a JWKS of `fetched_keys`; None if it is not there."""
    keys = json.loads(document)["keys"] if document else []
    found = next((key for key in keys if key["kid"] == key_id), None)
    return None if found is None else jwt.PyJWK(found, algorithm=ALGORITHM)


def _document(client: httpx.Client, url: str, deadline: float) -> Mapping[str, Any]:
    content = b""
    try:
        with client.stream("GET", url) as answer:
            if answer.status_code != httpx.codes.OK:
                what = "a redirect" if answer.is_redirect else f"status {answer.status_code}"
                raise IssuerUnavailableError(f"{url} answered with {what}.")
            # As it comes: what is sent compressed could be far larger than its limit.
            for part in answer.iter_raw():
                content += part
                if len(content) > _LARGEST_DOCUMENT or time.monotonic() > deadline:
                    raise IssuerUnavailableError(f"{url} sends too much, or too slowly.")
        document = json.loads(content)
    except httpx.HTTPError as error:
        reason = str(error) or type(error).__name__
        raise IssuerUnavailableError(f"{url} does not answer: {reason}.") from error
    except (ValueError, RecursionError) as error:
        raise IssuerUnavailableError(f"{url} answered something that is not JSON.") from error
    if not isinstance(document, dict):
        raise IssuerUnavailableError(f"{url} answered something that is not a JSON object.")
    return document


def _origin(url: str) -> tuple[str, str | None, int | None] | None:
    try:
        parts = urlsplit(url)
        return parts.scheme, parts.hostname, parts.port
    except ValueError:
        return None


def unsigned_claims(token: str) -> dict[str, Any]:
    """Return what a token says of itself, true or not: to name who was refused, and nothing else."""
    # Not through PyJWT, which says nothing of a token whose header it does not take.
    try:
        claims = json.loads(base64url_decode(token.split(".")[1]))
    except (ValueError, LookupError, RecursionError):
        return {}
    return claims if isinstance(claims, dict) else {}


def key_id_of(token: str, *, issuer: str) -> str:
    """Return the id of the key that a token says it is signed with.

    Raises:
        IdentityRefusedError: if it is no token that could be signed by the issuer at all.
    """
    if len(token) > _LONGEST_TOKEN or not token.isascii():
        raise IdentityRefusedError(
            "malformed", f"The token has {len(token)} characters; expected a JWT of a few thousand."
        )
    header = _header(token)
    if header.get("alg") != ALGORITHM:
        raise IdentityRefusedError(
            "algorithm",
            f"The token's algorithm is {_short(header.get('alg'))}; only {ALGORITHM} is.",
        )
    if "crit" in header or "b64" in header:
        raise IdentityRefusedError(
            "header", "The token's header asks for an extension (crit); none is understood here."
        )
    key_id = header.get("kid")
    if not isinstance(key_id, str) or not 0 < len(key_id) <= 200:
        raise IdentityRefusedError("no-key-id", "The token's header does not name its key (kid).")
    claimed = unsigned_claims(token).get("iss")
    if claimed != issuer:
        # Before any key is asked for: nobody makes this server ask by inventing issuers.
        raise IdentityRefusedError(
            "issuer", f"The token was issued by {_short(claimed)}; this server trusts {issuer}."
        )
    return key_id


def _header(token: str) -> dict[str, Any]:
    # Not through PyJWT, which refuses some headers without saying which.
    try:
        header = json.loads(base64url_decode(token.partition(".")[0]))
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict) or token.count(".") != 2:
        raise IdentityRefusedError(
            "malformed", "The subject_token is not a signed JWT.", fix=_FIX_TOKEN
        )
    return header


_FIX_TOKEN = "Send the token that CI gives the job: in GitHub Actions with `id-token: write`."  # noqa: S105


def signed_claims(
    token: str, key: jwt.PyJWK, *, issuer: str, audience: str, at: datetime
) -> SignedClaims:
    """Return the claims of a token that the issuer signed for this server, and that is good at `at`.

    Raises:
        IdentityRefusedError: if anything of that is not so.
    """
    try:
        claims = jwt.decode(
            token,
            key,
            algorithms=[ALGORITHM],
            issuer=issuer,
            audience=audience,
            options={
                "require": list(_REQUIRED),
                "strict_aud": True,
                # Below, by the time that is given.
                "verify_exp": False,
                "verify_nbf": False,
                "verify_iat": False,
            },
        )
    except jwt.InvalidSignatureError:
        raise IdentityRefusedError(
            "signature", "The token's signature is not the issuer's."
        ) from None
    except jwt.InvalidAudienceError:
        said = _short(unsigned_claims(token).get("aud"))
        raise IdentityRefusedError(
            "audience",
            f"The token is for the audience {said}; expected {audience!r} alone.",
            fix=f"Ask CI for a token with the audience {audience} (EVALHUB_OIDC_AUDIENCE on the lane"
            " side; EVALHUB_URL by itself).",
        ) from None
    except jwt.MissingRequiredClaimError as error:
        raise IdentityRefusedError("claims", f"The token has no claim {error.claim}.") from None
    except (jwt.InvalidTokenError, ValueError) as error:
        raise IdentityRefusedError("malformed", f"The token cannot be read: {error}.") from None
    _check_times(claims, now=at.timestamp())
    return SignedClaims(dict(claims))


def _check_times(claims: Mapping[str, Any], *, now: float) -> None:
    times = {name: claims[name] for name in ("iat", "nbf", "exp")}
    for name, value in times.items():
        if type(value) is not int:
            raise IdentityRefusedError("claims", f"The claim {name} is not a whole number.")
    if times["exp"] <= now - LEEWAY_SECONDS:
        raise IdentityRefusedError(
            "expired", f"The token expired {now - times['exp']:.0f} s ago.", fix=_FIX_FRESH
        )
    if times["iat"] > now + LEEWAY_SECONDS or times["nbf"] > now + LEEWAY_SECONDS:
        ahead = max(times["iat"], times["nbf"]) - now
        raise IdentityRefusedError(
            "from-the-future",
            f"The token begins to be good in {ahead:.0f} s.",
            fix="Look at the clock of this server.",
        )
    if times["exp"] - times["iat"] > _LONGEST_LIFE_SECONDS:
        raise IdentityRefusedError("claims", "The token is good for more than a day.")


_FIX_FRESH = "Ask CI for a fresh token right before it is exchanged."


def _short(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= 120 else f"{text[:120]}…"


def source_of(claims: SignedClaims) -> VerifiedSource:
    """Return what the claims say of a CI job.

    Raises:
        IdentityRefusedError: if a claim is absent or cannot be read, or for an event of which no
            evaluation comes.
    """
    event = _text(claims, "event_name")
    if event not in EVENTS:
        raise IdentityRefusedError("event", _event_detail(event), fix=_FIX_EVENT, status=403)
    ref = _text(claims, "ref")
    pull_request = _PULL_REQUEST.fullmatch(ref)
    if (event == "pull_request") != (pull_request is not None):
        raise IdentityRefusedError(
            "ref",
            f"The ref {_short(ref)} does not fit the event {event}.",
            fix="Run the evaluation for an open pull request, on its test merge.",
            status=403,
        )
    try:
        return VerifiedSource(
            issuer=_text(claims, "iss"),
            repository=_text(claims, "repository"),
            repository_id=_number(claims, "repository_id"),
            repository_owner_id=_number(claims, "repository_owner_id"),
            workflow_ref=_text(claims, "workflow_ref"),
            job_workflow_ref=_text(claims, "job_workflow_ref"),
            event=EVENTS[event],
            ref=ref,
            ref_protected=claims.get("ref_protected") == "true",
            sha=_text(claims, "sha"),
            pull_request=int(pull_request[1]) if pull_request else None,
            workflow_run_id=_number(claims, "run_id"),
            run_attempt=_number(claims, "run_attempt"),
            job=_number(claims, "check_run_id"),
            environment=_text(claims, "environment") if claims.get("environment") else None,
            actor=_text(claims, "actor"),
        )
    except ValidationError as error:
        name = ".".join(str(part) for part in error.errors()[0]["loc"])
        raise IdentityRefusedError(
            "claims", f"What the token claims as {name} is not one."
        ) from None


_PULL_REQUEST = re.compile(r"refs/pull/([1-9][0-9]{0,14})/merge")
_FIX_EVENT = f"Start the evaluation from one of these events: {', '.join(EVENTS)}."


def _event_detail(event: str) -> str:
    if event == "pull_request_target":
        return (
            "A job of pull_request_target has the rights of the base branch while it may run what a"
            " fork wrote; it cannot speak for anybody here."
        )
    return f"The event {_short(event)} is none that evaluations come from."


def _text(claims: Mapping[str, Any], name: str) -> str:
    value = claims.get(name)
    if not isinstance(value, str) or not value:
        fix = None
        if name == "check_run_id":
            fix = "Update the CI server: this claim tells the jobs of a run apart."
        raise IdentityRefusedError("claims", f"The token has no claim {name}.", fix=fix)
    return value


def _number(claims: Mapping[str, Any], name: str) -> int:
    text = _text(claims, name)
    if not (text.isascii() and text.isdecimal() and len(text) < 16):
        raise IdentityRefusedError("claims", f"The claim {name} is {_short(text)}, not a number.")
    return int(text)
