"""A CI job without a token: the lane side finds its identity, exchanges it, and renews what it got."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from evalhub.protocol.identity import PublisherSettings
from evalhub.runner import cli
from evalhub.runner.agent_environment import inherited
from evalhub.runner.ci_identity import (
    CiIdentity,
    IdentityRequest,
    advice_without_identity,
    found_identity,
)
from evalhub.runner.client import Store
from evalhub.runner.errors import Exit, InputError, StoreUnreachableError
from evalhub.runner.refusals import StoreRefusedError
from gates.checks import tasks as _  # noqa: F401 - registers what a seal asks for
from lanes.plans.models import Attempt, JobBinding, Plan
from lanes.projects.models import Project, Token
from lanes.projects.operations import publishers
from tests.evalhub.runner.documents import make_policy, make_scenario, make_suite, written
from tests.evalhub.runner.lanes import AGENT
from tests.lanes.factories import make_project
from tests.programs.issuer import Issuer, on_main, serving_issuer

NAME = "octo-org/octo-repo"
# Writes what it sees of itself and of the process that started its guardian.
SPY = """
import json, os, pathlib
def parent(pid):
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
seen = json.dumps(dict(os.environ))
lane = parent(os.getppid())
try:
    seen += pathlib.Path(f"/proc/{lane}/environ").read_bytes().decode(errors="replace")
except OSError:
    pass
pathlib.Path(__file__).with_name("seen").write_text(seen)
"""


@pytest.fixture
def issuer(live_server: LiveServer, settings: Settings) -> Iterator[Issuer]:
    with serving_issuer() as running:
        settings.OIDC_ISSUER = running.url
        settings.OIDC_AUDIENCE = live_server.url
        running.job, running.now = on_main(), int(timezone.now().timestamp())
        yield running


@pytest.fixture
def project() -> Project:
    project = make_project(NAME, repository_id=74)
    trusted = PublisherSettings(
        repository_id=74,
        repository_owner_id=65,
        workflow=".github/workflows/evals.yml",
        may_put_documents=True,
    )
    publishers.trust_publisher(project, trusted, at=timezone.now())
    return project


@pytest.fixture
def job(
    issuer: Issuer, live_server: LiveServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Path:
    """Be a job of GitHub Actions on the default branch, with an identity and without a token."""
    for name in list(os.environ):
        if name.startswith(("EVALHUB_", "GITHUB_", "ACTIONS_")) and "TEST" not in name:
            monkeypatch.delenv(name)
    variables = {
        "EVALHUB_URL": live_server.url,
        "GITHUB_ACTIONS": "true",
        "GITHUB_EVENT_NAME": "push",
        "GITHUB_SHA": issuer.job["sha"],
        "GITHUB_REF": "refs/heads/main",
        "GITHUB_RUN_ID": issuer.job["run_id"],
        "GITHUB_REPOSITORY_ID": "74",
        **issuer.job_variables,
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def asking(issuer: Issuer) -> IdentityRequest:
    url, token = issuer.job_variables.values()
    return IdentityRequest(url, token, pause_seconds=0)


def store_of(issuer: Issuer, url: str) -> tuple[Store, CiIdentity]:
    asked = asking(issuer)
    identity = CiIdentity(url, asked, audience=url)
    return Store(url, None, auth=identity), identity


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_the_whole_way_without_a_token(job: Path, issuer: Issuer, project: Project) -> None:
    suite = written(job, make_suite(make_scenario("ok1"), make_scenario("ok2")).document, "s.json")
    unclaimed = ["machine", "world", "mcp_session", "credential", "pool", "seed", "canary"]
    policy = make_policy(isolation=dict.fromkeys(unclaimed, "not_claimed"))
    rules = written(job, policy.document, "p.json")
    (job / "agent.py").write_text(SPY + AGENT)
    of_project = ["--project", NAME]
    assert cli.main(["suite", "put", str(suite), *of_project]) == 0
    assert cli.main(["policy", "put", str(rules), *of_project]) == 0
    flags = ["--suite", str(suite), "--policy", str(rules), "--tier", "sandboxed_interactive"]
    flags += ["--arm", "candidate=support-agent:luna-6", "--lanes", "1", "--out", "plan.json"]
    assert cli.main(["plan", "build", *of_project, *flags]) == 0
    assert cli.main(["plan", "register", "plan.json"]) == 0

    # What CI gives a job is longer than a page of memory.
    padded = {**os.environ, "ACTIONS_RUNTIME_TOKEN": "runtime-" + "x" * 6000}
    command = ["lane", "run", "--plan", "plan.json", "--lane", "ordinary-1"]
    lane = subprocess.run(
        [sys.executable, "-m", "evalhub.runner.cli", *command, "--", sys.executable, "agent.py"],
        env=padded,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert lane.returncode == Exit.GOOD, lane.stderr
    plan = Plan.objects.get()
    assert plan.is_verified
    assert Attempt.objects.get().state == "SEALED"
    assert JobBinding.objects.get().job == int(issuer.job["check_run_id"])
    seen = (job / "seen").read_text()
    assert "EVALHUB_SCENARIO" in seen
    assert "ACTIONS_" not in seen
    for secret in (*issuer.job_variables.values(), "runtime-xxx"):
        assert secret not in seen
    # Nothing of it is left on the machine's disk.
    spool = b"".join(path.read_bytes() for path in job.rglob("*") if path.is_file())
    assert b"evh_" not in spool
    assert b"evl_" not in spool
    assert not any(secret.encode() in spool for secret in issuer.job_variables.values())


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_a_second_build_finds_the_plan_of_the_run(
    job: Path, project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    suite = written(job, make_suite(make_scenario("ok1")).document, "s.json")
    rules = written(job, make_policy().document, "p.json")
    of_project = ["--project", NAME]
    flags = ["--suite", str(suite), "--policy", str(rules), "--tier", "sandboxed_interactive"]
    flags += ["--arm", "candidate=support-agent:luna-6", "--lanes", "1", "--out", "plan.json"]
    cli.main(["policy", "put", str(rules), *of_project])
    cli.main(["plan", "build", *of_project, *flags])
    assert cli.main(["plan", "register", "plan.json"]) == 0

    assert cli.main(["plan", "build", *of_project, *flags]) == 0

    assert "it is reused" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_token_is_kept_until_it_is_old_or_refused(
    issuer: Issuer, project: Project, live_server: LiveServer
) -> None:
    store, identity = store_of(issuer, live_server.url)
    with store:
        store.plans({})
        store.plans({})
        assert issuer.requests["/mint"] == 1
        Token.objects.update(revoked_at=timezone.now() - timedelta(seconds=1))
        store.plans({})
        assert issuer.requests["/mint"] == 2
        identity._renew_at = time.monotonic()
        store.plans({})
        assert issuer.requests["/mint"] == 3
    assert Token.objects.filter(source__isnull=False).count() == 3


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_refusal_of_the_store_is_told(
    issuer: Issuer, project: Project, live_server: LiveServer
) -> None:
    issuer.job = on_main(repository_id="75")
    store = store_of(issuer, live_server.url)[0]

    with store, pytest.raises(StoreRefusedError, match="No project here trusts repository 75"):
        store.plans({})


def test_ci_without_permission_is_told() -> None:
    with serving_issuer() as issuer:
        asked = IdentityRequest(f"{issuer.url}/mint?api-version=2.0", "another job's")
        with pytest.raises(InputError, match="id-token: write"):
            asked.identity("https://evalhub.example")
        issuer.trouble = "redirect"
        with pytest.raises(InputError, match="status 302"):
            asked.identity("https://evalhub.example")


def test_ci_that_is_away_is_asked_again_and_then_told() -> None:
    with serving_issuer() as issuer:
        issuer.trouble = "down"
        asked = asking(issuer)
        with pytest.raises(StoreUnreachableError, match="status 503"):
            asked.identity("https://evalhub.example")
        assert issuer.requests["/mint"] == 3


def test_identity_is_for_the_store_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving_issuer() as issuer:
        for name, value in issuer.job_variables.items():
            monkeypatch.setenv(name, value)
        found = found_identity("https://evalhub.example/")
        assert found is not None
        assert found._audience == "https://evalhub.example"
        monkeypatch.setenv("EVALHUB_OIDC_AUDIENCE", "https://hub.public")
        found = found_identity("https://evalhub.internal")
        assert found is not None
        assert found._audience == "https://hub.public"


def test_a_token_that_is_given_comes_first(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving_issuer() as issuer:
        for name, value in issuer.job_variables.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("EVALHUB_URL", "http://127.0.0.1:9")
        monkeypatch.setenv("EVALHUB_TOKEN", "evh_given")

        assert cli.main(["plans"]) == Exit.STORE_UNREACHABLE
        assert issuer.requests["/mint"] == 0


@pytest.mark.parametrize(
    ("head", "said"),
    [
        ({"id": 74}, "id-token: write"),
        ({"id": 99}, "comes from a fork"),
        (None, "comes from a fork"),
    ],
)
def test_job_without_identity_is_told_what_to_do(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    head: object,
    said: str,
) -> None:
    event = {"pull_request": {"head": {"repo": head}, "base": {"repo": {"id": 74}}}}
    (tmp_path / "event.json").write_text(json.dumps(event))
    for name in ("EVALHUB_TOKEN", "EVALHUB_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("EVALHUB_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_EVENT_PATH", str(tmp_path / "event.json"))

    assert cli.main(["plans"]) == Exit.WRONG_INPUT

    told = capsys.readouterr().err
    assert "EVALHUB_TOKEN was absent" in told
    assert said in told


def test_job_elsewhere_gets_no_advice_of_github() -> None:
    assert advice_without_identity({}) == ""
    assert "fork" not in advice_without_identity({"GITHUB_ACTIONS": "true"})


@pytest.mark.parametrize("name", ["ACTIONS_ID_TOKEN_REQUEST_URL", "ACTIONS_ID_TOKEN_REQUEST_TOKEN"])
def test_the_agent_cannot_be_given_what_the_identity_is_asked_with(name: str) -> None:
    assert inherited({name: "secret", "PATH": "/bin"}, passed=[]) == {"PATH": "/bin"}
    with pytest.raises(InputError, match=name):
        inherited({name: "secret"}, passed=[name])
