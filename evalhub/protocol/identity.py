"""Who a CI job is, as its signed identity says, and what of a plan's source disagrees with it."""

from collections.abc import Iterator
from typing import Annotated, Final, Literal, NamedTuple

from pydantic import Field

from evalhub.protocol.plan import Plan
from evalhub.protocol.policy import Event
from evalhub.protocol.refusals import Refusal
from evalhub.protocol.scalars import Commit, Count, Label, Line, ProjectName, Record

TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105
JWT_TYPE = "urn:ietf:params:oauth:token-type:jwt"
ID_TOKEN_TYPE = "urn:ietf:params:oauth:token-type:id_token"  # noqa: S105
ACCESS_TOKEN_TYPE: Final = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105
SOURCE_DISAGREES = "source_disagrees"
"""The code of every field of a plan's source that the identity does not bear out."""


class VerifiedSource(Record):
    """What is known of a CI job from the claims that its issuer signed, and from nothing else."""

    issuer: Line
    repository: Line
    """Its name at that time, to be shown. Names change hands: the ids decide."""
    repository_id: Count
    repository_owner_id: Count
    workflow_ref: Line
    job_workflow_ref: Line
    event: Event
    ref: Line
    ref_protected: bool
    sha: Commit
    pull_request: Count | None = None
    workflow_run_id: Count
    run_attempt: Count
    job: Count
    """The job's own check run: it tells the legs of a matrix apart."""
    environment: Line | None = None
    actor: Line


class ExchangedToken(Record):
    """Answer of `POST /token`."""

    access_token: str
    issued_token_type: Literal["urn:ietf:params:oauth:token-type:access_token"] = ACCESS_TOKEN_TYPE
    token_type: Literal["Bearer"] = "Bearer"  # noqa: S105
    expires_in: Count
    scope: str
    project: ProjectName
    verified_source: VerifiedSource


class PublisherSettings(Record):
    """Which workflow's jobs a project trusts; empty `refs` stand for every ref of the repository."""

    repository_id: Count
    repository_owner_id: Count
    workflow: Label
    reusable_workflow: Line = ""
    environment: Line = ""
    refs: list[Label] = Field(default=[], max_length=50)
    may_put_documents: bool = False


TokenScope = Literal["plan:register", "lane:write", "read", "document:write", "project:admin"]


class TokenSettings(Record):
    """A token to be made: for what, what it may do, and for how many days."""

    name: Annotated[Label, Field(max_length=100)]
    scopes: list[TokenScope] = Field(min_length=1, max_length=5)
    days: int | None = Field(default=None, ge=1, le=3650)


class _Known(NamedTuple):
    """A field of a plan's source, and what the identity says of it."""

    name: str
    value: object
    may_be_null: bool = False


def source_refusals(plan: Plan, verified: VerifiedSource) -> Iterator[Refusal]:
    """Yield each field of the plan's source that differs from what the CI job's identity says.

    On pull_request the claims do not tell the head: that `tested_sha` merges it is for the check to
    find out. On every other event the check goes to the commit that was checked out.
    """
    for known in _known_fields(verified):
        claimed = getattr(plan.source, known.name)
        if claimed == known.value or (known.may_be_null and claimed is None):
            continue
        yield Refusal(
            SOURCE_DISAGREES,
            f"/source/{known.name}",
            repr(claimed) if claimed is not None else "null",
            f"{known.value!r}, as the identity of the CI job says",
            "Build the plan with `evalhub plan build` in the CI job that registers it, without flags"
            " for its source.",
        )


def _known_fields(verified: VerifiedSource) -> Iterator[_Known]:
    yield _Known("event", verified.event)
    yield _Known("repository_id", verified.repository_id)
    yield _Known("ref", verified.ref)
    yield _Known("pull_request", verified.pull_request)
    yield _Known("workflow_run_id", verified.workflow_run_id)
    yield _Known("tested_sha", verified.sha)
    if verified.event != "pull_request":
        # Without a head there is no check, which takes nothing from anybody.
        yield _Known("head_sha", verified.sha, may_be_null=True)
