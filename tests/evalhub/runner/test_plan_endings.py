"""`evalhub plan close`, `reopen` and `cancel` against the real store, and what a re-run of CI finds."""

import json
from pathlib import Path

import pytest
from django.utils import timezone
from pytest_django.live_server_helper import LiveServer

from evalhub.protocol.canonical import canonical_bytes, document_digest
from evalhub.runner import cli
from evalhub.runner.client import Store
from evalhub.runner.errors import Exit
from evalhub.runner.reuse import plan_of_workflow_run
from gates.checks import tasks as _  # noqa: F401 - registers what a close asks for
from lanes.projects.models import Project
from tests.lanes.factories import make_policy, make_project, make_token, plan_document

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


@pytest.fixture
def project() -> Project:
    return make_project("acme/support-agent")


@pytest.fixture
def store(
    project: Project, live_server: LiveServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Store:
    token = make_token(project).secret
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    monkeypatch.setenv("EVALHUB_URL", live_server.url)
    monkeypatch.setenv("EVALHUB_TOKEN", token)
    return Store(live_server.url, token=token)


def register(project: Project, *, run: int) -> str:
    """Register a plan of a workflow run through the command line; return its digest."""
    digest = make_policy(project).digest
    document = plan_document(
        project, policy_digest=digest, at=timezone.now(), source={"workflow_run_id": run}
    )
    Path("plan.json").write_bytes(canonical_bytes(document))
    assert cli.main(["plan", "register", "plan.json"]) == Exit.GOOD
    return document_digest(document)


def test_cancelled_plan_is_final_and_passed_over_by_a_rerun(
    project: Project, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    digest = register(project, run=17)
    with store:
        assert plan_of_workflow_run(store, project.name, suite="support", run=17) is not None

        assert cli.main(["plan", "cancel", digest, "--reason", "closed by hand"]) == Exit.GOOD
        assert "(closed by hand): its lanes are told to stop." in capsys.readouterr().out

        lane = ["lane", "run", "--plan", "plan.json", "--lane", "ordinary-1", "--", "true"]
        for command in (["plan", "close", digest], ["plan", "register", "plan.json"], lane):
            assert cli.main(command) == Exit.WRONG_INPUT
            said = capsys.readouterr().err
            assert "was cancelled at" in said
            assert "closed by hand. Run the whole workflow again" in said
        assert plan_of_workflow_run(store, project.name, suite="support", run=17) is None
    assert cli.main(["verdict", digest, "--wait", "60"]) == Exit.GATE_FAILED
    assert "CANCELLED: Cancelled: closed by hand" in capsys.readouterr().out


def test_closed_plan_waits_for_its_lanes_again(
    project: Project, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    digest = register(project, run=18)
    with store:
        assert cli.main(["plan", "close", digest]) == Exit.GOOD
        assert cli.main(["plan", "reopen", digest]) == Exit.GOOD
        assert "waits for its lanes until" in capsys.readouterr().out
        plan = store.plan(digest)
    assert (plan["state"], plan["generation"], plan["closed_at"]) == ("running", 2, None)
    assert cli.main(["--json", "plan", "reopen", digest]) == Exit.GOOD
    assert json.loads(capsys.readouterr().out)["generation"] == 2
