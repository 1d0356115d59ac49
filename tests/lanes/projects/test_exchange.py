"""A CI job's identity for a run token: who gets one, and each way in which somebody does not."""

import base64
import hashlib
import hmac
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from django.conf import settings as django_settings
from django.utils import timezone
from pytest_django import Settings

from evalhub.protocol.identity import ID_TOKEN_TYPE, TOKEN_EXCHANGE
from lanes.projects.models import AuditEntry, Project, Scope, SpeakerRefusal, Token, UsedIdentity
from lanes.projects.operations import publishers
from tests.lanes import factories
from tests.lanes.projects.identities import (
    exchange,
    identity_of,
    issuer,
    make_publisher,
    project,
    run_token,
)
from tests.lanes.wire import assert_problem, send
from tests.programs.issuer import Issuer, job_claims, jwk, on_main, public_pem

__all__ = ["issuer", "project"]

pytestmark = pytest.mark.django_db

FORM = "application/x-www-form-urlencoded"
CLAIM_SETS = Path(__file__).parents[4] / "shared" / "github" / "oidc_synthetic"
needs_claim_sets = pytest.mark.skipif(
    not CLAIM_SETS.is_dir(), reason="needs the folder of GitHub's claim sets"
)


def test_job_of_a_trusted_workflow_gets_a_run_token(issuer: Issuer, project: Project) -> None:
    publisher = make_publisher(project)

    answer = exchange(identity_of(issuer))

    assert answer.status == 200
    assert answer.headers["Cache-Control"] == "no-store"
    body = answer.body
    assert (body["token_type"], body["expires_in"], body["project"]) == (
        "Bearer",
        900,
        project.name,
    )
    assert body["scope"].split() == [Scope.PLAN_REGISTER, Scope.LANE_WRITE]
    source = body["verified_source"]
    assert (source["repository_id"], source["event"], source["pull_request"]) == (
        74,
        "pull_request",
        7,
    )
    assert (source["sha"], source["workflow_run_id"], source["run_attempt"]) == (
        "b" * 40,
        1296269001,
        1,
    )
    token = Token.objects.get(publisher=publisher)
    assert token.expires_at is not None
    assert 890 < (token.expires_at - timezone.now()).total_seconds() <= 900
    assert token.source == source
    publisher.refresh_from_db()
    assert publisher.last_used_at is not None
    assert SpeakerRefusal.objects.count() == 0
    assert send("GET", "/plans", secret=body["access_token"]).status == 200


def test_exchange_is_audited_without_the_secret(issuer: Issuer, project: Project) -> None:
    make_publisher(project)
    identity = identity_of(issuer)

    secret = exchange(identity).body["access_token"]

    entry = AuditEntry.objects.filter(action="token.issue").latest("pk")
    assert entry.actor == "ci:octo-org/octo-repo pull_request refs/pull/7/merge"
    told = json.dumps([list(AuditEntry.objects.values_list("subject", "before", "after"))])
    assert secret not in told
    assert identity not in told


@needs_claim_sets
@pytest.mark.parametrize(
    "name",
    ["merge_group", "push", "pull_request_same_repo", "pull_request_rerun_attempt2_immutable_sub"],
)
def test_claims_as_github_makes_them_are_taken(
    issuer: Issuer, project: Project, settings: Settings, name: str
) -> None:
    make_publisher(project)
    claims = json.loads((CLAIM_SETS / f"{name}.json").read_text())
    settings.OIDC_AUDIENCE = claims["aud"]
    for replaced in ("iss", "jti", "iat", "nbf", "exp"):
        del claims[replaced]

    answer = exchange(identity_of(issuer, claims))

    assert answer.status == 200
    source = answer.body["verified_source"]
    assert (source["ref"], source["sha"], str(source["run_attempt"])) == (
        claims["ref"],
        claims["sha"],
        claims["run_attempt"],
    )
    # None of these sets says that the ref is protected.
    assert Scope.DOCUMENT_WRITE not in answer.body["scope"].split()


@needs_claim_sets
def test_pull_request_target_as_github_makes_it_is_refused(
    issuer: Issuer, project: Project
) -> None:
    make_publisher(project)
    claims = json.loads((CLAIM_SETS / "reject_pull_request_target.json").read_text())
    kept = {k: v for k, v in claims.items() if k not in {"iss", "jti", "iat", "nbf", "exp", "aud"}}

    problem = assert_problem(exchange(identity_of(issuer, kept)), 403, "identity-event")

    assert "fork" in problem.detail


# Who is not who they say: each way is refused with a code of its own, and the maintainers read it.


def _unsigned(issuer: Issuer, algorithm: str = "none") -> str:
    head = {"alg": algorithm, "typ": "JWT", "kid": "first"}
    body = identity_of(issuer).split(".")[1]
    return f"{_part(head)}.{body}."


def _part(document: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(document).encode()).rstrip(b"=").decode()


def _signed_with_public_key(issuer: Issuer) -> str:
    """Return a token whose HMAC has the issuer's public key for its secret."""
    unsigned = f"{_part({'alg': 'HS256', 'typ': 'JWT', 'kid': 'first'})}."
    unsigned += identity_of(issuer).split(".")[1]
    mac = hmac.new(public_pem("first"), unsigned.encode(), hashlib.sha256).digest()
    return f"{unsigned}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"


def _other_body(issuer: Issuer) -> str:
    """Return a token whose claims were changed after it was signed."""
    head, body, signature = identity_of(issuer).split(".")
    claims = json.loads(base64.urlsafe_b64decode(body + "=="))
    return f"{head}.{_part({**claims, 'ref': 'refs/heads/main'})}.{signature}"


def _now() -> int:
    return int(timezone.now().timestamp())


_NEEDED = (
    *("jti", "exp", "nbf", "iat", "aud", "event_name", "ref", "sha", "repository_id"),
    *("repository_owner_id", "workflow_ref", "job_workflow_ref", "run_id", "run_attempt"),
    *("check_run_id", "actor"),
)


def _without(name: str) -> Callable[[Issuer], str]:
    return lambda issuer: identity_of(issuer, job_claims(**{name: None}))


REFUSED: dict[str, tuple[Callable[[Issuer], str], int, str]] = {
    "alg none": (_unsigned, 400, "identity-algorithm"),
    "alg NONE": (lambda i: _unsigned(i, "NONE"), 400, "identity-algorithm"),
    "HS256 with the public key": (_signed_with_public_key, 400, "identity-algorithm"),
    "no JWT": (lambda i: "not.a.jwt", 400, "identity-malformed"),
    "not ASCII": (lambda i: "é.é.é", 400, "identity-malformed"),
    "far too long": (lambda i: "a" * 20_000, 400, "identity-malformed"),
    "another issuer": (
        lambda i: identity_of(i, job_claims(iss="https://evil.example")),
        400,
        "identity-issuer",
    ),
    "issuer with a slash": (
        lambda i: identity_of(i, job_claims(iss=f"{i.url}/")),
        400,
        "identity-issuer",
    ),
    "another audience": (
        lambda i: identity_of(i, audience="https://github.com/octo-org"),
        400,
        "identity-audience",
    ),
    "two audiences": (
        lambda i: identity_of(i, job_claims(aud=[django_settings.OIDC_AUDIENCE, "pypi"])),
        400,
        "identity-audience",
    ),
    "a list of the one audience": (
        lambda i: identity_of(i, job_claims(aud=[django_settings.OIDC_AUDIENCE])),
        400,
        "identity-audience",
    ),
    "expired": (lambda i: identity_of(i, at=_now() - 400), 400, "identity-expired"),
    "issued in the future": (
        lambda i: identity_of(i, at=_now() + 120),
        400,
        "identity-from-the-future",
    ),
    "not good yet": (
        lambda i: identity_of(i, job_claims(nbf=_now() + 120)),
        400,
        "identity-from-the-future",
    ),
    "good for ever": (
        lambda i: identity_of(i, job_claims(exp=10**14)),
        400,
        "identity-claims",
    ),
    "time as text": (
        lambda i: identity_of(i, job_claims(exp=str(_now() + 300))),
        400,
        "identity-claims",
    ),
    "no key id": (
        lambda i: identity_of(i, headers={"kid": ""}),
        400,
        "identity-no-key-id",
    ),
    "a key that nobody has": (
        lambda i: identity_of(i, key="first", headers={"kid": "unheard-of"}),
        400,
        "identity-key",
    ),
    "signed by somebody else": (
        lambda i: identity_of(i, key="other", headers={"kid": "first"}),
        400,
        "identity-signature",
    ),
    "claims changed": (_other_body, 400, "identity-signature"),
    "crit header": (
        lambda i: identity_of(i, headers={"crit": ["exp"]}),
        400,
        "identity-header",
    ),
    "detached payload": (
        lambda i: identity_of(i, headers={"b64": False, "crit": ["b64"]}),
        400,
        "identity-header",
    ),
    **{f"no claim {name}": (_without(name), 400, "identity-claims") for name in _NEEDED},
    "commit that is none": (
        lambda i: identity_of(i, job_claims(sha="HEAD")),
        400,
        "identity-claims",
    ),
    "id that is no number": (
        lambda i: identity_of(i, job_claims(repository_id="7_4")),
        400,
        "identity-claims",
    ),
    "pull_request_target": (
        lambda i: identity_of(i, on_main(event_name="pull_request_target")),
        403,
        "identity-event",
    ),
    "another event": (
        lambda i: identity_of(i, on_main(event_name="issue_comment")),
        403,
        "identity-event",
    ),
    "pull request without its merge": (
        lambda i: identity_of(i, job_claims(ref="refs/heads/main")),
        403,
        "identity-ref",
    ),
    "push to a pull request's ref": (
        lambda i: identity_of(i, on_main(ref="refs/pull/7/merge")),
        403,
        "identity-ref",
    ),
    "same name, another repository": (
        lambda i: identity_of(i, job_claims(repository_id="75")),
        403,
        "identity-unknown-repository",
    ),
    "same repository, another owner": (
        lambda i: identity_of(i, job_claims(repository_owner_id="66")),
        403,
        "identity-wrong-owner",
    ),
    "another workflow": (
        lambda i: identity_of(
            i,
            job_claims(
                workflow_ref="octo-org/octo-repo/.github/workflows/x.yml@refs/pull/7/merge",
                job_workflow_ref="octo-org/octo-repo/.github/workflows/x.yml@refs/pull/7/merge",
            ),
        ),
        403,
        "identity-wrong-workflow",
    ),
    "a job of a foreign reusable workflow": (
        lambda i: identity_of(
            i, job_claims(job_workflow_ref="evil/x/.github/workflows/evals.yml@refs/heads/main")
        ),
        403,
        "identity-wrong-job-workflow",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_who_is_not_trusted_is_refused_and_recorded(
    issuer: Issuer, project: Project, case: str
) -> None:
    make_publisher(project)
    make, status, code = REFUSED[case]
    identity = make(issuer)

    problem = assert_problem(exchange(identity), status, code)

    assert identity not in problem.model_dump_json()
    refusal = SpeakerRefusal.objects.get()
    assert (refusal.code, refusal.detail) == (code, problem.detail)
    assert Token.objects.filter(source__isnull=False).count() == 0
    assert UsedIdentity.objects.count() == 0
    # Whoever says that it is this repository is shown to its maintainers, however it was refused.
    is_readable = code != "identity-malformed" and case != "detached payload"
    assert refusal.project == (project if is_readable else None)
    assert (refusal.claims.get("repository") == "octo-org/octo-repo") == is_readable
    if status == 403:
        assert refusal.is_signed


def test_maintainers_read_who_tried(issuer: Issuer, project: Project) -> None:
    make_publisher(project)
    exchange(identity_of(issuer, job_claims(repository_id="75", actor="mallory")))
    exchange(_unsigned(issuer))
    admin = factories.make_token(project).secret

    (unsigned, stranger) = send("GET", f"/projects/{project.name}/refusals", secret=admin).body[
        "refusals"
    ]

    assert (unsigned["signed"], unsigned["code"]) == (False, "identity-algorithm")
    assert (stranger["signed"], stranger["claims"]["actor"]) == (True, "mallory")
    assert stranger["claims"]["repository_id"] == "75"
    reader = factories.make_token(project, Scope.READ).secret
    answer = send("GET", f"/projects/{project.name}/refusals", secret=reader)
    assert_problem(answer, 403, "forbidden")


def test_identity_is_good_for_once(issuer: Issuer, project: Project) -> None:
    make_publisher(project)
    identity = identity_of(issuer)
    assert exchange(identity).status == 200

    problem = assert_problem(exchange(identity), 400, "identity-replayed")

    assert "somebody has read its token" in str(problem.fix)
    assert Token.objects.filter(source__isnull=False).count() == 1
    assert SpeakerRefusal.objects.get().is_signed


def test_clocks_may_differ_a_little(issuer: Issuer, project: Project) -> None:
    make_publisher(project)

    assert exchange(identity_of(issuer, at=_now() + 20)).status == 200
    assert exchange(identity_of(issuer, at=_now() - 320)).status == 200


def test_signature_of_a_weak_key_does_not_count(issuer: Issuer, project: Project) -> None:
    make_publisher(project)
    issuer.jwks["keys"].append(jwk("weak", bits=1024))

    answer = exchange(identity_of(issuer, headers={"kid": "weak"}))

    assert_problem(answer, 400, "identity-key")


@pytest.mark.parametrize(
    ("fields", "claims", "code"),
    [
        ({"environment": "evals"}, {"environment": "Evals"}, None),
        ({"environment": "evals"}, {"environment": "prod"}, "identity-wrong-environment"),
        ({"environment": "evals"}, {}, "identity-wrong-environment"),
        ({"refs": ["refs/pull/*/merge"]}, {}, None),
        ({"refs": ["refs/heads/main"]}, {}, "identity-wrong-ref"),
        (
            {"reusable_workflow": "octo-org/harness/.github/workflows/lane.yml@refs/tags/v1"},
            {"job_workflow_ref": "octo-org/harness/.github/workflows/lane.yml@refs/tags/v1"},
            None,
        ),
        (
            {"reusable_workflow": "octo-org/harness/.github/workflows/lane.yml@refs/tags/v1"},
            {"job_workflow_ref": "octo-org/harness/.github/workflows/lane.yml@refs/heads/evil"},
            "identity-wrong-job-workflow",
        ),
        (
            {"reusable_workflow": "octo-org/harness/.github/workflows/lane.yml@refs/tags/v1"},
            {},
            "identity-wrong-job-workflow",
        ),
    ],
)
def test_publisher_says_what_is_trusted(
    issuer: Issuer, project: Project, fields: Any, claims: Any, code: str | None
) -> None:
    make_publisher(project, **fields)

    answer = exchange(identity_of(issuer, job_claims(**claims)))

    if code is None:
        assert answer.status == 200, answer.body
    else:
        assert_problem(answer, 403, code)


def test_one_of_several_publishers_that_fits_is_enough(issuer: Issuer, project: Project) -> None:
    make_publisher(project, environment="prod")
    fitting = make_publisher(project, refs=["refs/pull/*"])

    assert exchange(identity_of(issuer)).status == 200
    assert Token.objects.get(source__isnull=False).publisher == fitting


@pytest.mark.parametrize(
    ("claims", "may"),
    [
        (on_main(), True),
        (on_main(event_name="schedule"), True),
        (on_main(event_name="workflow_dispatch"), True),
        (on_main(ref_protected="false"), False),
        (on_main(ref_protected=None), False),
        (on_main(ref="refs/heads/main-2"), False),
        (on_main(ref="refs/tags/main"), False),
        (on_main(ref="refs/heads/gh-readonly-queue/main/pr-1", event_name="merge_group"), False),
        (job_claims(ref_protected="true"), False),
    ],
)
def test_suite_and_policy_are_for_the_protected_default_branch(
    issuer: Issuer, project: Project, claims: Any, *, may: bool
) -> None:
    make_publisher(project, may_put_documents=True)
    secret = run_token(issuer, claims)

    answer = send("PUT", f"/projects/{project.name}/policy", factories.POLICY, secret=secret)

    if may:
        assert answer.status == 200, answer.body
        entry = AuditEntry.objects.get(action="policy.put")
        assert "run 1296269001.1" in entry.actor
    else:
        problem = assert_problem(answer, 403, "forbidden")
        assert "protected default branch" in str(problem.fix)
        assert SpeakerRefusal.objects.get().claims["ref"] == claims["ref"]


def test_publisher_without_that_right_puts_no_documents(issuer: Issuer, project: Project) -> None:
    make_publisher(project)
    secret = run_token(issuer, on_main())

    answer = send("PUT", f"/projects/{project.name}/suite", {}, secret=secret)

    assert_problem(answer, 403, "forbidden")


def test_removed_publisher_ends_every_token_of_its_jobs(issuer: Issuer, project: Project) -> None:
    publisher = make_publisher(project)
    secret = run_token(issuer)
    assert send("GET", "/plans", secret=secret).status == 200

    publishers.remove_publisher(publisher, actor="user:ada", at=timezone.now())

    assert_problem(send("GET", "/plans", secret=secret), 401, "not-authenticated")
    assert_problem(exchange(identity_of(issuer)), 403, "identity-unknown-repository")


def test_run_token_is_for_plans_and_lanes_alone(issuer: Issuer, project: Project) -> None:
    make_publisher(project)
    secret = run_token(issuer)
    path = f"/projects/{project.name}"

    for method, place in [
        ("GET", f"{path}/publishers"),
        ("POST", f"{path}/publishers"),
        ("GET", f"{path}/refusals"),
        ("PUT", f"{path}/pools/judge"),
    ]:
        assert_problem(send(method, place, secret=secret), 403, "forbidden")


def test_run_token_opens_no_other_project(issuer: Issuer, project: Project) -> None:
    make_publisher(project)
    other = factories.make_project()
    secret = run_token(issuer)

    answer = send("GET", f"/projects/{other.name}/policy", secret=secret)

    assert_problem(answer, 403, "forbidden")
    assert SpeakerRefusal.objects.get().project == project


# The form of the request


@pytest.mark.parametrize(
    "fields",
    [
        {"grant_type": "client_credentials"},
        {"grant_type": ""},
        {"subject_token": ""},
        {"subject_token_type": "urn:ietf:params:oauth:token-type:saml2"},
        {"subject_token_type": ""},
    ],
)
def test_request_that_is_no_exchange_is_refused(
    issuer: Issuer, project: Project, fields: dict[str, str]
) -> None:
    make_publisher(project)

    problem = assert_problem(exchange(identity_of(issuer), **fields), 400, "invalid-exchange")

    assert "subject_token_type=urn:ietf:params:oauth:token-type:jwt" in str(problem.fix)
    assert UsedIdentity.objects.count() == 0


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"subject_token=a&subject_token=b", FORM),
        (b"grant_type=%FF", FORM),
        (b"grant_type=\xc3\xa9", FORM),
        (b"no form at all", FORM),
        (b"", FORM),
        (b"&".join(b"a%d=1" % number for number in range(30)), FORM),
        (b"a=" + b"x" * 70_000, FORM),
        (b'{"grant_type": "x"}', "application/json"),
        (b"--x\r\n", "multipart/form-data; boundary=x"),
    ],
)
def test_body_that_is_no_form_is_refused(body: bytes, content_type: str) -> None:
    answer = send("POST", "/token", body, content_type=content_type)

    assert_problem(answer, 400, "invalid-exchange")


def test_form_may_name_its_charset(issuer: Issuer, project: Project) -> None:
    make_publisher(project)
    form = {
        "grant_type": TOKEN_EXCHANGE,
        "subject_token": identity_of(issuer),
        "subject_token_type": ID_TOKEN_TYPE,
        "audience": "ignored",
    }

    answer = send("POST", "/token", urlencode(form).encode(), content_type=f"{FORM}; charset=UTF-8")

    assert answer.status == 200, answer.body


def test_token_is_exchanged_by_post_alone() -> None:
    assert send("GET", "/token").status == 405


def test_log_holds_neither_identity_nor_token(
    issuer: Issuer, project: Project, caplog: pytest.LogCaptureFixture
) -> None:
    make_publisher(project)
    caplog.set_level(logging.DEBUG)
    identity = identity_of(issuer)

    secret = exchange(identity).body["access_token"]
    exchange(identity)
    exchange(identity, grant_type="x")

    told = caplog.text + json.dumps([str(record.__dict__) for record in caplog.records])
    assert "/api/v1/token" in told
    for part in (identity, identity.split(".")[1], identity.split(".")[2], secret):
        assert part not in told
