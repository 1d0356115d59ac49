"""The exchange of a CI job's identity for a run token (RFC 8693)."""

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from django.conf import settings
from django.db import IntegrityError, transaction

from evalhub.protocol.identity import VerifiedSource
from lanes.projects import identity
from lanes.projects.identity import IdentityRefusedError, SignedClaims
from lanes.projects.models import Project, Scope, TrustedPublisher, UsedIdentity
from lanes.projects.operations import publishers, rates, refusals, signing_keys, tokens
from lanes.projects.operations.tokens import IssuedToken, JobIdentity
from lanes.projects.queries import tokens as token_queries

RUN_TOKEN_LIFE = timedelta(minutes=15)
"""Long enough to plan and to open a lane; whoever works longer asks again."""
# The clocks of several web processes may differ: a used one is remembered a little longer.
_REMEMBERED = timedelta(minutes=10)


class RunToken(NamedTuple):
    """What a CI job speaks with, and what is known of it."""

    issued: IssuedToken
    project: Project
    source: VerifiedSource


def exchange_identity(token: str, *, address: str, at: datetime) -> RunToken:
    """Give a CI job a run token for its identity token, which is used up by that.

    To be called outside of a transaction: the issuer may have to be asked, and a refusal is kept.

    Raises:
        IdentityRefusedError: if it is no identity that a project trusts; recorded.
        IssuerUnavailableError: while that cannot be told.
        TooManyRequestsError: if the address or the repository asks too often.
    """
    rates.count_request(rates.address_key(address), most=settings.TOKEN_REQUESTS, at=at)
    try:
        claims = _signed_claims(token, at=at)
    except IdentityRefusedError as error:
        told = identity.unsigned_claims(token)
        refusals.record_refusal(error, claims=told, is_signed=False, address=address, at=at)
        raise
    try:
        return _issued(claims, at=at)
    except IdentityRefusedError as error:
        refusals.record_refusal(error, claims=claims, is_signed=True, address=address, at=at)
        raise


def _signed_claims(token: str, *, at: datetime) -> SignedClaims:
    issuer = settings.OIDC_ISSUER
    key_id = identity.key_id_of(token, issuer=issuer)
    key = signing_keys.key_for(key_id, issuer=issuer, at=at)
    return identity.signed_claims(token, key, issuer=issuer, audience=settings.OIDC_AUDIENCE, at=at)


def _issued(claims: SignedClaims, *, at: datetime) -> RunToken:
    source = identity.source_of(claims)
    key = f"repository {source.repository_id}"
    rates.count_request(key, most=settings.TOKEN_REQUESTS, at=at)
    publisher = publishers.fitting_publisher(source)
    with transaction.atomic():
        _use_up(claims, at=at)
        _note_use(publisher, at=at)
        issued = tokens.issue_token(
            publisher.project,
            name=f"run {source.workflow_run_id}.{source.run_attempt} job {source.job}",
            scopes=_scopes(publisher, source),
            identity=JobIdentity(publisher, source),
            expires_at=at + RUN_TOKEN_LIFE,
            actor=f"ci:{source.repository} {source.event} {source.ref}",
            at=at,
        )
    return RunToken(issued, publisher.project, source)


def _scopes(publisher: TrustedPublisher, source: VerifiedSource) -> list[Scope]:
    scopes = [Scope.PLAN_REGISTER, Scope.LANE_WRITE]
    if publishers.may_put_documents(publisher, source):
        scopes.append(Scope.DOCUMENT_WRITE)
    return scopes


def _use_up(claims: SignedClaims, *, at: datetime) -> None:
    """Remember an identity token; of two who bring the same one at once, one comes through."""
    name = token_queries.secret_digest(f"{claims['iss']}\n{claims['jti']}")
    expires_at = datetime.fromtimestamp(claims["exp"], UTC) + _REMEMBERED
    UsedIdentity.objects.filter(expires_at__lt=at).delete()
    try:
        with transaction.atomic():
            UsedIdentity.objects.create(digest=name, expires_at=expires_at)
    except IntegrityError:
        raise IdentityRefusedError(
            "replayed",
            "This identity token was exchanged before, and each is good for once.",
            fix="Ask CI for a fresh one. If your job did not do that, somebody has read its token.",
        ) from None


def _note_use(publisher: TrustedPublisher, *, at: datetime) -> None:
    row = TrustedPublisher.objects.select_for_update(no_key=True).get(pk=publisher.pk)
    if row.removed_at is not None:
        raise IdentityRefusedError(
            "unknown-repository", "The trusted publisher was removed a moment ago.", status=403
        )
    TrustedPublisher.objects.filter(pk=publisher.pk).update(last_used_at=at)
