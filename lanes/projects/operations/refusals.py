"""The list of those who tried to speak for a project and were refused, for its maintainers."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db.models import Q

from evalhub.web.errors import DomainError
from lanes.projects.models import Project, SpeakerRefusal, Token

MOST_KEPT = 500
"""Of each project, of signed and unsigned ones each: inventions cannot push out what is true."""
_SHOWN_CLAIMS = (
    *("repository", "repository_id", "repository_owner_id", "workflow_ref", "job_workflow_ref"),
    *("event_name", "ref", "sha", "run_id", "run_attempt", "check_run_id", "environment"),
    *("actor", "actor_id", "iss", "aud", "jti"),
)
_LONGEST = 200


def record_refusal(
    error: DomainError,
    *,
    claims: Mapping[str, Any],
    is_signed: bool,
    address: str,
    at: datetime,
) -> SpeakerRefusal:
    """Note that somebody with these claims was refused, with the project that they speak of."""
    project = _project_of(claims)
    return _kept(project, error, claims=_shown(claims), is_signed=is_signed, address=address, at=at)


def record_token_refusal(
    token: Token, error: DomainError, *, address: str, at: datetime
) -> SpeakerRefusal:
    """Note that a token was used for what it is not for."""
    said: dict[str, object] = {"token": f"{token.prefix}… {token.name}", "attempt": token.attempt}
    source = token.verified_source
    if source is not None:
        said |= {
            "repository": source.repository,
            "ref": source.ref,
            "run_id": source.workflow_run_id,
            "run_attempt": source.run_attempt,
            "check_run_id": source.job,
            "actor": source.actor,
        }
    claims = _shown(said, names=tuple(said))
    return _kept(token.project, error, claims=claims, is_signed=True, address=address, at=at)


def _kept(
    project: Project | None,
    error: DomainError,
    *,
    claims: dict[str, str],
    is_signed: bool,
    address: str,
    at: datetime,
) -> SpeakerRefusal:
    refusal = SpeakerRefusal.objects.create(
        project=project,
        at=at,
        code=error.code[:60],
        detail=_plain(error.detail, longest=2000),
        is_signed=is_signed,
        address=address[:64],
        claims=claims,
    )
    alike = SpeakerRefusal.objects.filter(project=project, is_signed=is_signed)
    oldest = alike.order_by("-id").values_list("id", flat=True)[MOST_KEPT - 1 : MOST_KEPT]
    for last in list(oldest):
        alike.filter(id__lt=last).delete()
    return refusal


def _project_of(claims: Mapping[str, Any]) -> Project | None:
    """Return whom they speak of: by the repository's id, else by its name, which may be a stranger's."""
    number = str(claims.get("repository_id", ""))
    wanted = Q(name__iexact=_plain(claims.get("repository", "")))
    if number.isascii() and number.isdecimal() and len(number) < 16:
        wanted |= Q(repository_id=int(number))
    found = list(Project.objects.filter(wanted)[:2])
    by_id = [project for project in found if str(project.repository_id) == number]
    return next(iter([*by_id, *found]), None)


def _shown(claims: Mapping[str, Any], *, names: tuple[str, ...] = _SHOWN_CLAIMS) -> dict[str, str]:
    return {name: _plain(claims[name]) for name in names if claims.get(name) is not None}


def _plain(value: object, *, longest: int = _LONGEST) -> str:
    """Return what strangers said, cut, and without what no database or terminal takes."""
    text = str(value)[:longest].encode("ascii", "backslashreplace").decode()
    return "".join(c if c.isprintable() else " " for c in text)[:longest]
