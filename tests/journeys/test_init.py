"""From nothing to a registered plan, as a person does it: `manage.py up`, `evalhub init`, the workflow's steps."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.programs.evalhub import Up, clean_environment
from tests.programs.server import ROOT

pytestmark = [pytest.mark.journey, pytest.mark.slow, pytest.mark.enable_socket]

PROJECT = "acme/support-agent"
AGENT = """
import json, os, pathlib
folder = pathlib.Path(os.environ["EVALHUB_RUN_DIR"])
(folder / "transcript.ndjson").write_text(
    json.dumps({"turn": 1, "role": "assistant", "kind": "message", "text": "Hello."}) + chr(10)
)
(folder / "result.json").write_text(
    json.dumps({"outcome": "passed", "scores": {"resolved": 1.0, "latency_s": 0.1}})
)
"""


class Done(NamedTuple):
    code: int
    out: str
    err: str


class Repository:
    """A repository of somebody who tries evalhub for the first time."""

    def __init__(self, folder: Path, up: Up) -> None:
        self.folder = folder
        self.environment = {
            **clean_environment(),
            "EVALHUB_URL": up.url,
            "EVALHUB_SPOOL": str(folder / "spool"),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }
        for category, name in (("refunds", "twice"), ("refunds", "late"), ("orders", "lookup")):
            place = folder / "evals" / "scenarios" / category
            place.mkdir(parents=True, exist_ok=True)
            (place / f"{name}.yaml").write_text(f"task: {name}\n")
        self.run("git", "init", "--quiet", "--initial-branch", "main")
        self.run("git", "remote", "add", "origin", f"git@github.example:{PROJECT}.git")
        self.run("git", "config", "user.name", "Ada")
        self.run("git", "config", "user.email", "ada@acme.example")
        self.run("git", "add", ".")
        self.run("git", "commit", "--quiet", "--message", "Begin")

    def run(self, *command: str, **variables: str) -> Done:
        done = subprocess.run(
            command,
            cwd=self.folder,
            env={**self.environment, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def init(self, *flags: str) -> Done:
        return self.run("evalhub", "init", "--model", "luna-6", "--epochs", "1", *flags)

    def files(self) -> dict[str, bytes]:
        wanted = [*self.folder.glob("evals/**/*"), *self.folder.glob(".github/**/*")]
        return {str(path): path.read_bytes() for path in wanted if path.is_file()}

    def workflow(self) -> dict[str, Any]:
        text = (self.folder / ".github/workflows/evalhub.yml").read_text()
        document: dict[str, Any] = yaml.safe_load(text)
        return document


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    up = Up(tmp_path_factory.mktemp("up") / "data").start()
    yield up
    up.stop()


@pytest.fixture
def repository(up: Up, tmp_path: Path) -> Repository:
    return Repository(tmp_path, up)


def manage(up: Up, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env={**clean_environment(), "EVALHUB_DATA": str(up.data)},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout


def test_from_nothing_to_a_verdict(up: Up, repository: Repository) -> None:
    # Nobody has made the project: the files are there, and it says what to ask whom for.
    first = repository.init("--repository-id", "74", "--owner-id", "65")
    assert first.code == 3, first
    assert f"create_project {PROJECT} --repository-id 74" in first.out
    written = repository.files()

    created = manage(up, "create_project", PROJECT, "--repository-id", "74", "--json")
    repository.environment["EVALHUB_TOKEN"] = json.loads(created)["token"]
    second = repository.init("--repository-id", "74", "--owner-id", "65", "--json")
    assert second.code == 0, second
    told = json.loads(second.out)
    steps = " ".join(told["done"])
    for step in ("Suite support-agent (3 scenarios)", "The policy is registered", "may speak for"):
        assert step in steps
    assert "The first plan is registered" in steps
    assert {name: repository.files()[name] for name in written} == written

    # Once more changes nothing.
    registered = repository.files()
    again = repository.init("--repository-id", "74", "--owner-id", "65")
    assert again.code == 0, again
    assert "The policy is registered already." in again.err
    assert "has a plan of this suite" in again.err
    assert repository.files() == registered

    _workflow_works(repository)


def _workflow_works(repository: Repository) -> None:
    """Run the steps of the workflow that are commands, as CI's shell does."""
    jobs = repository.workflow()["jobs"]
    output = repository.folder / "output"
    (repository.folder / "evals" / "run_scenario.py").write_text(AGENT)
    for step in jobs["plan"]["steps"]:
        if "run" in step and "pip install" not in step["run"]:
            done = _step(repository, step, GITHUB_OUTPUT=str(output))
            assert done.code == 0, done
    outputs = dict(line.split("=", 1) for line in output.read_text().splitlines())
    for lane in json.loads(outputs["lanes"]):
        done = _step(repository, jobs["lane"]["steps"][4], LANE=lane)
        assert done.code == 0, done
    close, verdict = jobs["gather"]["steps"][2:]
    assert _step(repository, close, DIGEST=outputs["digest"]).code == 0
    # There is no baseline yet, which a person has to adopt; nothing is missing.
    decided = _step(repository, verdict, DIGEST=outputs["digest"])
    assert decided.code == 3, decided
    assert "no_baseline" in f"{decided.out}{decided.err}".lower().replace(" ", "_")


def _step(repository: Repository, step: dict[str, Any], **variables: str) -> Done:
    return repository.run("bash", "-e", "-o", "pipefail", "-c", step["run"], **variables)


def test_what_somebody_changed_is_kept_unless_they_say_so(repository: Repository) -> None:
    repository.init()
    policy = repository.folder / "evals" / "policy.yaml"
    policy.write_text(f"{policy.read_text()}# ours\n")

    kept = repository.init("--yes")

    assert "policy.yaml says something else and is kept" in kept.err
    assert policy.read_text().endswith("# ours\n")
    assert "policy.yaml is written" in repository.init("--overwrite").err
    assert not policy.read_text().endswith("# ours\n")


def test_token_for_ci_is_made_once(up: Up, repository: Repository) -> None:
    created = json.loads(manage(up, "create_project", "acme/other", "--json"))
    repository.environment["EVALHUB_TOKEN"] = created["token"]
    flags = ("--project", "acme/other", "--auth", "token")

    first, second = repository.init(*flags), repository.init(*flags)

    assert (first.code, second.code) == (0, 0), (first, second)
    assert "gh secret set EVALHUB_TOKEN --repo acme/other --body evh_" in first.out
    assert "evh_" not in second.out
    assert "CI has a token already: evh_" in second.err
    env = repository.workflow()["env"]
    assert env["EVALHUB_TOKEN"] == "${{ secrets.EVALHUB_TOKEN }}"
    listed = repository.run("evalhub", "token", "list", "--project", "acme/other", "--json")
    (row,) = [row for row in json.loads(listed.out)["tokens"] if row["name"] == "GitHub Actions"]
    secret = first.out.split("--body ")[1].split()[0]
    assert secret not in listed.out
    revoke = ("evalhub", "token", "revoke", str(row["number"]), "--project", "acme/other")
    assert repository.run(*revoke).code == 0
    plans = repository.run("evalhub", "plans", EVALHUB_TOKEN=secret)
    assert (plans.code, "revoked" in plans.err) == (2, True), plans
    make = ("evalhub", "token", "create", "ci", "--project", "acme/other", "--scope", "read")
    made = repository.run(*make, "--days", "7")
    assert made.out.startswith("evh_")
    plans = repository.run("evalhub", "plans", EVALHUB_TOKEN=made.out.strip())
    assert plans.code == 0, plans


def test_workflow_is_one_that_github_takes(repository: Repository) -> None:
    repository.init()

    checked = repository.run(
        "check-jsonschema",
        "--builtin-schema",
        "vendor.github-workflows",
        ".github/workflows/evalhub.yml",
    )

    assert checked.code == 0, checked
    workflow = repository.workflow()
    assert workflow["permissions"] == {}
    for job in workflow["jobs"].values():
        assert job["permissions"] == {"contents": "read", "id-token": "write"}
        for step in job["steps"]:
            # By commit: 40 hexadecimal digits after the @.
            assert "uses" not in step or len(step["uses"].split("@")[1]) == 40


def test_it_asks_a_person_and_takes_no_for_an_answer(up: Up, repository: Repository) -> None:
    repository.init()
    policy = repository.folder / "evals" / "policy.yaml"
    policy.write_text(f"{policy.read_text()}# ours\n")
    created = json.loads(manage(up, "create_project", "acme/asked", "--json"))
    repository.environment["EVALHUB_TOKEN"] = created["token"]
    theirs, ours = pty.openpty()
    # Project and model; yes to the suite, no to the policy, yes to the workflow.
    os.write(theirs, b"acme/asked\nluna-7\ny\nn\ny\n")

    done = subprocess.run(
        ["evalhub", "init", "--epochs", "1"],
        cwd=repository.folder,
        env=repository.environment,
        stdin=ours,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 3, done
    assert f"Project (OWNER/NAME) [{PROJECT}]:" in done.stderr
    assert "policy.yaml says something else; overwrite it? (y/N)" in done.stderr
    assert policy.read_text().endswith("# ours\n")
    assert "The first plan is registered" in done.stderr
    # Nobody gave the numbers by which the workflow can be trusted.
    assert "Trust the workflow" in done.stdout
    assert "luna-7" in (repository.folder / ".github/workflows/evalhub.yml").read_text()


def test_exit_codes_are_those_of_every_command(repository: Repository) -> None:
    assert repository.run("evalhub", "init").code == 2
    assert repository.init("--url", "http://127.0.0.1:9").code == 4
    assert repository.init("--folder", "../elsewhere").code == 2
    assert repository.init("--subject", 'a"b').code == 2
    repository.environment["EVALHUB_TOKEN"] = "evh_unknown"
    assert repository.init().code == 2
