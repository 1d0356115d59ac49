"""The lane side against the real store: HTTP, database, objects, intake, gate."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from evalhub.runner import cli
from evalhub.runner.errors import Exit
from gates.checks import tasks as _  # noqa: F401 - registers what a seal asks for
from lanes.projects.models import Project
from tests.evalhub.runner.alive import eventually
from tests.evalhub.runner.documents import make_policy, make_scenario, make_suite, written
from tests.evalhub.runner.lanes import AGENT
from tests.lanes.factories import make_project, make_token

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


@pytest.fixture
def project() -> Project:
    return make_project("acme/support-agent")


@pytest.fixture
def connected(
    project: Project, live_server: LiveServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    monkeypatch.setenv("EVALHUB_URL", live_server.url)
    monkeypatch.setenv("EVALHUB_TOKEN", make_token(project).secret)


def build(folder: Path, *scenarios: str) -> str:
    """Register suite, policy and a plan through the command line; return the plan's digest."""
    suite = written(folder, make_suite(*map(make_scenario, scenarios)).document, "suite.json")
    policy = make_policy(
        isolation=dict.fromkeys(
            ["machine", "world", "mcp_session", "credential", "pool", "seed", "canary"],
            "not_claimed",
        )
    )
    rules = written(folder, policy.document, "policy.json")
    (folder / "agent.py").write_text(AGENT)
    project = ["--project", "acme/support-agent"]
    assert cli.main(["suite", "put", str(suite), *project]) == 0
    assert cli.main(["policy", "put", str(rules), *project]) == 0
    flags = ["--suite", str(suite), "--policy", str(rules), "--tier", "sandboxed_interactive"]
    flags += ["--arm", "candidate=support-agent:luna-6", "--lanes", "1", "--out", "plan.json"]
    assert cli.main(["plan", "build", *project, *flags]) == 0
    assert cli.main(["plan", "register", "plan.json"]) == 0
    return str(json.loads((folder / "plan.json").read_text())["policy_digest"])


def lane(*flags: str) -> int:
    command = ["lane", "run", "--plan", "plan.json", "--lane", "ordinary-1", *flags]
    return cli.main([*command, "--", "python3", "agent.py"])


def told(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out


@pytest.mark.usefixtures("connected")
def test_the_whole_way_from_suite_to_transcript(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build(tmp_path, "ok1", "ok2", "crash")
    told(capsys)

    assert lane("--json") == Exit.GOOD

    sealed = json.loads(told(capsys))
    assert (sealed["sealed"], sealed["missing"], sealed["refused"]) == (True, [], 0)
    assert cli.main(["plans", "--json"]) == 0
    (plan,) = json.loads(told(capsys))["plans"]
    assert cli.main(["runs", plan["digest"], "--json"]) == 0
    runs = {run["scenario"]: run for run in json.loads(told(capsys))["runs"]}
    assert {name: run["outcome"] for name, run in runs.items()} == {
        "crash": "agent_error",
        "ok1": "passed",
        "ok2": "passed",
    }
    assert cli.main(["transcript", str(runs["crash"]["id"])]) == 0
    assert "KeyError: 'x'" in told(capsys)
    code = cli.main(["verdict", plan["digest"], "--wait", "20"])
    assert code == Exit.ACTION_REQUIRED
    assert "NO_BASELINE" in told(capsys)
    assert cli.main(["baseline", "adopt", plan["digest"], "--reason", "the first"]) == 0
    assert cli.main(["baseline", "list", "--project", "acme/support-agent"]) == 0
    assert plan["digest"] in told(capsys)


@pytest.mark.usefixtures("connected")
def test_an_invalid_result_is_in_quarantine_and_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build(tmp_path, "ok1", "invalid")

    assert lane() == Exit.GATE_FAILED

    captured = capsys.readouterr()
    assert "Refused as malformed" in captured.err
    assert "  runs/invalid/candidate/1/result.json" in captured.err
    assert cli.main(["plans", "--json"]) == 0
    (plan,) = json.loads(told(capsys))["plans"]
    assert cli.main(["verdict", plan["digest"], "--wait", "20"]) == Exit.GATE_FAILED
    assert "invalid/candidate/1" in told(capsys)


@pytest.mark.usefixtures("connected")
def test_what_a_killed_lane_had_sent_of_a_run_is_read_before_anybody_pushes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], settings: Settings
) -> None:
    settings.FLUSH_SECONDS = 1
    build(tmp_path, "rewrite")
    command = [sys.executable, "-m", "evalhub.runner.cli", "lane", "run", "--plan", "plan.json"]
    command += ["--lane", "ordinary-1", "--", sys.executable, "agent.py"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert eventually(lambda: "answer" in transcript(capsys), seconds=60, pause_seconds=1)
        finally:
            process.kill()
            process.communicate()
    shown = transcript(capsys)
    (run,) = runs(capsys)
    assert run["outcome"] is None
    assert (
        shown.index("thinki") < shown.index("a line was changed or removed") < shown.index("answer")
    )

    (spool,) = (tmp_path / ".evalhub/spool").iterdir()
    assert cli.main(["push", str(spool)]) == Exit.GATE_FAILED

    captured = capsys.readouterr()
    # The run never ended, so it has no result; every part that was sent was taken.
    assert "  runs/rewrite/candidate/1/result.json" in captured.err
    assert "Refused" not in captured.err
    assert transcript(capsys) == shown


def runs(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """Return the runs of the only plan."""
    told(capsys)
    assert cli.main(["plans", "--json"]) == 0
    (plan,) = json.loads(told(capsys))["plans"]
    assert cli.main(["runs", plan["digest"], "--json"]) == 0
    found: list[dict[str, Any]] = json.loads(told(capsys))["runs"]
    return found


def transcript(capsys: pytest.CaptureFixture[str]) -> str:
    """Return what the reader shows of the only run, nothing while there is none."""
    found = runs(capsys)
    if not found:
        return ""
    assert cli.main(["transcript", str(found[0]["id"])]) == 0
    return told(capsys)


@pytest.mark.usefixtures("connected")
def test_a_superseded_spool_keeps_its_receipts_and_is_not_sealed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build(tmp_path, "ok1")
    assert lane("--spool", "first") == Exit.GOOD
    (first,) = (tmp_path / "first").iterdir()
    for receipt in first.glob("segments/*.receipt.json"):
        receipt.unlink()

    assert lane("--spool", "second") == Exit.GOOD
    code = cli.main(["push", str(first), "--wait", "20"])

    captured = capsys.readouterr()
    assert code == Exit.WRONG_INPUT
    assert "was superseded" in captured.err
    # The same bytes get the same receipts: what was delivered in time stays accepted.
    assert "is not sealed: 6 items are accepted." in captured.out


@pytest.mark.usefixtures("connected")
def test_a_workflow_run_keeps_its_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build(tmp_path, "ok1")
    flags = ["--project", "acme/support-agent", "--suite", "suite.json", "--policy", "policy.json"]
    flags += ["--tier", "live", "--arm", "candidate=a:b", "--workflow-run-id", "17", "--json"]

    def built(name: str, *more: str) -> dict[str, object]:
        told(capsys)
        assert cli.main(["plan", "build", *flags, "--out", name, *more]) == 0
        document: dict[str, object] = json.loads(told(capsys))
        return document

    first = built("first.json")
    assert cli.main(["plan", "register", "first.json"]) == 0
    # A guard that is checked anew would make another plan.
    again = built("again.json", "--guard", "agent_registered=a:a")
    forced = built("forced.json", "--guard", "agent_registered=a:a", "--no-reuse")

    assert (first["reused"], again["reused"], forced["reused"]) == (False, True, False)
    assert again["digest"] == first["digest"] != forced["digest"]


@pytest.mark.usefixtures("connected")
def test_refusals_of_the_store_are_sentences(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    build(tmp_path, "ok1")
    capsys.readouterr()
    monkeypatch.setenv("EVALHUB_TOKEN", "evh_nobody")

    for command in (
        ["plans"],
        ["plan", "register", "plan.json"],
        ["suite", "put", "suite.json", "--project", "acme/support-agent"],
        ["lane", "run", "--plan", "plan.json", "--lane", "ordinary-1", "true"],
    ):
        assert cli.main(command) == 2
        err = capsys.readouterr().err
        assert err.count("\n") == 1, err
        assert "token" in err


@pytest.mark.usefixtures("connected")
def test_a_schedule_is_put_listed_and_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build(tmp_path, "ok1")
    told(capsys)
    project = ["--project", "acme/support-agent"]
    put = ["schedule", "put", "support", *project, "--cron", "0 3 * * *"]

    assert cli.main([*put, "--timezone", "Europe/Berlin"]) == 0
    assert "of support with the event schedule is due next at 20" in told(capsys)
    assert cli.main(["schedule", "list", *project]) == 0
    assert "Europe/Berlin" in told(capsys)
    assert cli.main([*put, "--paused", "--json"]) == 0
    assert json.loads(told(capsys))["next_due_at"] is None
    assert cli.main([*put, "--grace-minutes", "1440"]) == Exit.WRONG_INPUT
    assert "expected at most 1435" in capsys.readouterr().err
    assert cli.main(["schedule", "remove", "support", *project]) == 0
    assert cli.main(["schedule", "list", *project]) == 0
    assert "No nightly is waited for." in told(capsys)
